"""A browser, and people who sit in front of it."""

import shutil

import pytest
import pytest_socket
from playwright.sync_api import expect, sync_playwright

from tests import patience, postgres
from tests.demo.running import RunningDemo
from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import WAIT, Person


@pytest.fixture(autouse=True)
def _patient():
    """What a page says is waited for, however slow the machine is."""
    expect.set_options(timeout=WAIT)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def browser():
    pytest_socket.enable_socket()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def simulated(told, tmp_path_factory):
    """`make demo`, once for the browser tests of a file that make no claim about Kubernetes."""
    pytest_socket.enable_socket()
    home, database = tmp_path_factory.mktemp("demo") / "home", postgres.own("simulated")
    shutil.copytree(told.home, home)
    postgres.clone(told.database, database)
    demo = RunningDemo(home, "sim", DATABASE_URL=postgres.url(database))
    demo.start(patience.DEMO_READY)
    yield demo
    assert demo.stop() == []
    postgres.drop(database)


@pytest.fixture(scope="module")
def real(controlplane_ready, tmp_path_factory):
    """`make demo CLUSTER=real`."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "real")
    demo.start(patience.DEMO_READY)
    yield demo
    assert demo.stop() == []


@pytest.fixture
def people(simulated, browser):
    """Return a function that seats somebody of the demo at a browser of their own."""
    seated = []

    def seat(name, **options):
        seated.append(Person(browser, simulated.url, name, **options).sign_in())
        return seated[-1]

    yield seat
    for person in seated:
        person.leaves()
