"""A browser, a running demo, and people who sit in front of them."""

import pytest
import pytest_socket
from playwright.sync_api import expect, sync_playwright

from tests import postgres
from tests.demo.running import RunningDemo
from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import WAIT, Person


@pytest.fixture(autouse=True)
def _patient():
    """What a page says is waited for, however slow the machine is."""
    expect.set_options(timeout=WAIT)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="package")
def browser():
    pytest_socket.enable_socket()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def simulated(told, tmp_path_factory):
    """
    `make demo`, one for all browser tests that make no claim about Kubernetes.

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


@pytest.fixture(scope="module")
def real(controlplane_ready, tmp_path_factory):
    """`make demo CLUSTER=real`."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "real")
    demo.start()
    yield demo
    assert demo.stop() == []


@pytest.fixture(scope="package")
def signed_in(simulated, browser):
    """Return a function that gives the cookies of somebody who has signed in, once for all tests."""
    cookies = {}

    def of(name):
        if name not in cookies:
            person = Person(browser, simulated.url, name).sign_in()
            cookies[name] = person.context.storage_state()
            person.leaves()
        return cookies[name]

    return of


@pytest.fixture
def people(simulated, browser, signed_in):
    """Return a function that seats somebody of the demo, signed in, at a browser of their own."""
    seated = []

    def seat(name, **options):
        seated.append(Person(browser, simulated.url, name, storage_state=signed_in(name), **options))
        return seated[-1]

    yield seat
    for person in seated:
        person.gives_back()
    for person in seated:
        person.leaves()
