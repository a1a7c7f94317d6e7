"""Fixtures of every test: nothing reaches beyond this machine."""

import os

import pytest
import pytest_socket

from tests import postgres
from tests.controlplane.binaries import why_unusable
from tests.controlplane.build import ensure

pytest_plugins = ["tests.controlplane.fixtures", "tests.demo.fixtures"]


def pytest_collection_modifyitems(items):
    """
    Give a test with real processes a second try in CI, where a machine may stand still for longer than any
    patience. The summary names each test that needed it; everything else has one try.
    """
    if os.environ.get("CI", "").lower() != "true":
        return
    for item in items:
        with_processes = "portal/test_demo" in item.nodeid or "tests/controlplane/" in item.nodeid
        if with_processes or item.get_closest_marker("controlplane") or item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment, django_db_blocker, worker_id):
    """A database of this process, copied from the one that has every migration."""
    from django.core.management import call_command
    from django.db import connection

    def migrate(name):
        connection.settings_dict["NAME"] = name
        call_command("migrate", verbosity=0)
        connection.close()

    with django_db_blocker.unblock():
        template = postgres.template(migrate)
        name = postgres.own(worker_id)
        postgres.clone(template, name)
        connection.settings_dict["NAME"] = name
    yield
    with django_db_blocker.unblock():
        connection.close()
        postgres.drop(name)


@pytest.fixture(autouse=True)
def _local_only(socket_enabled):
    """Unix sockets and loopback are open, the rest of the world is not."""
    pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture(scope="session")
def controlplane_ready():
    """The binaries of the real control plane. Without them and Go: skipped, but failed where CI is true."""
    if reason := why_unusable():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    pytest_socket.enable_socket()
    ensure()
