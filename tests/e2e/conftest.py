"""A browser, and people who sit in front of it."""

import subprocess

import pytest
import pytest_socket
from playwright.sync_api import sync_playwright

from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.running import RunningDemo

PATIENCE = 400  # seconds, of a machine that does much else


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
