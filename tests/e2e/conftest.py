"""A browser, and people who sit in front of it."""

import subprocess

import pytest
import pytest_socket
from playwright.sync_api import expect, sync_playwright

from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import WAIT, Person
from tests.e2e.running import RunningDemo

PATIENCE = 400  # seconds, of a machine that does much else


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


@pytest.fixture(scope="session")
def told(tmp_path_factory):
    """The folder of a demo that was started once: a copy of it starts without telling the story again."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("told"), "sim")
    demo.start(PATIENCE)
    assert demo.stop() == []
    return demo.home


@pytest.fixture(scope="module")
def simulated(told, tmp_path_factory):
    """`make demo`, once for the browser tests of a file that make no claim about Kubernetes."""
    pytest_socket.enable_socket()
    home = tmp_path_factory.mktemp("demo") / "home"
    # With owners and modes: PostgreSQL serves no folder but its own user's.
    subprocess.run(["cp", "-a", str(told), str(home)], check=True)
    demo = RunningDemo(home, "sim")
    demo.start(PATIENCE)
    yield demo
    assert demo.stop() == []


@pytest.fixture(scope="module")
def real(controlplane_ready, tmp_path_factory):
    """`make demo CLUSTER=real`."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "real")
    demo.start(PATIENCE)
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
