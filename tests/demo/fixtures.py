"""
The demo, told once and shared by every test that needs its story or a running portal.

`told` starts the demo once in a run, also where several processes run the tests, and stops it when it has
told its story. What stays, a folder and a database, is never changed again: who needs the story takes a copy.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_socket
from django.test import override_settings

from tests import postgres
from tests.demo.running import RunningDemo, free_port


class Told(NamedTuple):
    home: Path  # DEMO_HOME
    database: str  # its name, on the server of the tests

    def copy(self, home: Path, database: str) -> RunningDemo:
        """Return a demo, not started yet, that goes on in copies of the folder and of the database."""
        shutil.copytree(self.home, home)
        # Its simulator would take the port of last time, which another copy may hold.
        clusters = home / "sim" / "clusters"
        for name in ("port", "tls.port"):
            old, new = (clusters / name).read_text(), str(free_port())
            for file in (clusters / name, *clusters.glob("*.kubeconfig")):
                file.write_text(file.read_text().replace(f":{old}/", f":{new}/"))
            (clusters / name).write_text(new)
        postgres.clone(self.database, database)
        return RunningDemo(home, "sim", DATABASE_URL=postgres.url(database))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Drop the database of `told`, from the process that outlives its workers."""
    if not hasattr(session.config, "workerinput") and "DATABASE_URL" in os.environ:
        postgres.drop(postgres.of_run("told"))


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Told:
    """The demo after its story was told: a folder and a database to copy. Nobody runs it or writes to it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "told"
    folder.mkdir(exist_ok=True)
    told = Told(folder / "home", postgres.of_run("told"))
    finished = folder / "finished"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes one tells the story while the others wait
        if not finished.exists():
            _tell(told)
            finished.touch()
    return told


def _tell(told: Told) -> None:
    pytest_socket.enable_socket()
    shutil.rmtree(told.home, ignore_errors=True)  # of a process that was killed while it told the story
    postgres.drop(told.database)
    with postgres.connect() as server:
        server.execute(f'CREATE DATABASE "{told.database}"')
    demo = RunningDemo(told.home, "sim", DATABASE_URL=postgres.url(told.database))
    demo.start()
    assert demo.stop() == []
    with postgres.connect() as server:
        server.execute(f'ALTER DATABASE "{told.database}" ALLOW_CONNECTIONS false')


@pytest.fixture(scope="session")
def simulated(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """
    `make demo`, one for all tests of a running portal that make no claim about Kubernetes.

    A test leaves the story as it found it: it makes claims of its own, which are given back when it ends, and
    what it changes otherwise is named by no other test.
    """
    pytest_socket.enable_socket()
    database = postgres.own("simulated")
    demo = told.copy(tmp_path_factory.mktemp("demo") / "home", database)
    demo.environment["DJANGO_SETTINGS_MODULE"] = "tests.demo.settings"
    demo.start()
    yield demo
    assert demo.stop() == []
    postgres.drop(database)


@pytest.fixture(scope="session")
def real(controlplane_ready: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """`make demo CLUSTER=real`, one for all tests of a running portal on a real control plane."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "real")
    demo.start()
    yield demo
    assert demo.stop() == []


@pytest.fixture(scope="module")
def demo_database(told: Told, django_db_setup: None, django_db_blocker, worker_id: str) -> Iterator[None]:
    """
    While the tests of a module run, Django works on a copy of the demo's database.

    Each test with `db` sees the story as it was told: its own changes are rolled back. A test with
    `transaction=True` would empty the tables for those after it, so a module has either this or that.
    """
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection

    copy, usual = postgres.own(f"{worker_id}_demo"), connection.settings_dict["NAME"]
    postgres.clone(told.database, copy)

    def work_on(name: str) -> None:
        with django_db_blocker.unblock():
            connection.close()
        connection.settings_dict["NAME"] = name
        ContentType.objects.clear_cache()  # the numbers of content types differ between databases

    # The credentials of the clusters were sealed with the key of the demo.
    key = (told.home / "sim" / "credentials.key").read_text()
    with override_settings(CREDENTIAL_KEYS=[key]):
        work_on(copy)
        yield
        work_on(usual)
    postgres.drop(copy)
