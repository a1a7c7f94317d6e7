"""Fixtures of every test: nothing reaches beyond this machine."""

import gc
import os
import ssl
from contextlib import contextmanager
from functools import cache

import httpx
import pytest
import pytest_socket
from hypothesis import settings
from xdist.scheduler import LoadGroupScheduling

from demo.controlplane.build import ensure, why_unusable
from tests import emptying, machine, postgres, shared_state

# Examples run on machines that are busy with other tests: how long one takes says nothing.
settings.register_profile("dragoman", deadline=None)
settings.load_profile("dragoman")

pytest_plugins = ["tests.controlplane.fixtures", "tests.demo.fixtures", "tests.keycloak.fixtures"]


# In CI these have a second try: Kubernetes' controllers answer when they like, and a busy machine stands
# still now and then. The summary names each test that needed it. Nothing else is ever tried again.
RETRIED = {
    "tests/claims/kubernetes/": "the quota controller and the scheduler back off for up to a minute",
    "tests/clients/": "the scheduler backs off while a hub waits for its pod",
    "tests/cluster/test_real_cluster.py": "restarts the API server; controllers come back after a back-off",
    "tests/monitoring/test_dra_health_of_kubernetes.py": "the scheduler backs off; scrapes take turns",
    "tests/controlplane/test_controlplane.py": "restarts each program; the scheduler backs off",
    "tests/scheduler/": "the scheduler tries a pod again after a back-off of up to five minutes",
}


gc.disable()  # nothing that is collected before the first test goes away


def pytest_collection_finish():
    """Look through the thousands of tests for garbage no more, and seldom through what each of them makes."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


def pytest_itemcollected(item):
    """Name what a test shares with others, and give those of `RETRIED` their second try."""
    real = item.get_closest_marker("controlplane") is not None
    if real:
        item.add_marker(pytest.mark.xdist_group("controlplane"))
    elif "keycloak" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("keycloak"))
    elif "simulated" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("demo"))
    in_ci = os.environ.get("CI", "").lower() == "true"
    if in_ci and real and item.nodeid.startswith(tuple(RETRIED)):
        item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_unconfigure(config):
    """Say as the last line of all which tests were not run for lack of what."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    told = terminal.stats
    skipped = [report.longrepr[2] for report in told.get("skipped", ()) if isinstance(report.longrepr, tuple)]
    failed = len(told.get("failed", ())) + len(told.get("error", ()))
    if line := machine.last_line(len(told.get("passed", ())), failed, skipped):
        terminal.write_line(line, yellow=True)


class ByGroupOrFile(LoadGroupScheduling):
    """All tests of the control plane go to one worker, as do those of the demo; the rest go file by file."""

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByGroupOrFile(config, log)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment, django_db_blocker, worker_id):
    """A database of this process, copied from the one that has every migration."""
    from django.core.management import call_command
    from django.db import connection

    def migrate(name):
        connection.settings_dict["NAME"] = name
        call_command("migrate", verbosity=0)
        connection.close()

    emptying.install()
    with django_db_blocker.unblock():
        template = postgres.template(migrate)
        name = postgres.own(worker_id)
        postgres.clone(template, name)
        connection.settings_dict["NAME"] = name
    yield
    with django_db_blocker.unblock():
        connection.close()
        postgres.drop(name)


@pytest.fixture(scope="session", autouse=True)
def _authorities_are_read_once():
    """A client of httpx reads the file of all authorities, which takes 50 ms; those of tests share it."""
    build = httpx.create_ssl_context

    @cache
    def trusting(_files: tuple[str | None, ...]) -> ssl.SSLContext:
        return build()

    def shared(verify=True, cert=None, trust_env=True):
        if verify is not True or cert is not None or not trust_env:
            return build(verify=verify, cert=cert, trust_env=trust_env)
        return trusting(tuple(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", shared)
        yield


@pytest.fixture(scope="module", autouse=True)
def _as_found():
    """What tests of a process share is after each module as it was before (`tests/shared_state.py`)."""
    with shared_state.left_as_found():
        yield


@pytest.fixture(autouse=True)
def _nothing_is_remembered():
    """A broker that was away in one test is asked again in the next, which has saved nothing yet."""
    from core.transactions import pause, saved

    pause.until = 0.0
    saved.set("")


@pytest.fixture(autouse=True)
def _local_only(socket_enabled):
    """Unix sockets and loopback are open, the rest of the world is not."""
    pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture
def fresh_availability(monkeypatch):
    """Pages read what clusters have for profiles at this moment, as if the task had just run."""
    from django.db import connection

    from claims.catalogue import availability, lint, listing, waits
    from claims.models import Profile

    @contextmanager
    def uncounted():
        """No test counts the queries of the tasks."""
        counted = connection.force_debug_cursor
        connection.force_debug_cursor = False
        yield
        connection.force_debug_cursor = counted

    def after_recomputing(read):
        def recompute_and_read(*args):
            with uncounted():
                availability.recompute()
                waits.refresh()
            return read(*args)

        return recompute_and_read

    def waits_of(profile):
        with uncounted():
            return waits.waits_of(Profile.objects.get(pk=profile.pk))  # computed since the profile was read

    monkeypatch.setattr(listing, "stored_availability", after_recomputing(listing.stored_availability))
    monkeypatch.setattr(listing, "waits_of", waits_of)
    monkeypatch.setattr(lint, "stored_checks", after_recomputing(lint.stored_checks))


@pytest.fixture(scope="session")
def controlplane_ready():
    """The binaries of the real control plane. Without them and Go: skipped, but failed where CI is true."""
    if reason := why_unusable():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    pytest_socket.enable_socket()
    ensure()
