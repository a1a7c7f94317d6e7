"""A browser, and people who sit in front of it."""

import pytest
import pytest_socket
from playwright.sync_api import sync_playwright

from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.running import RunningDemo


@pytest.fixture(scope="module")
def browser():
    pytest_socket.enable_socket()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """`make demo`, once for the browser tests of a file that make no claim about Kubernetes."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "sim")
    demo.start(180)
    yield demo
    assert demo.stop() == []


@pytest.fixture(scope="module")
def real(controlplane_ready, tmp_path_factory):
    """`make demo CLUSTER=real`."""
    pytest_socket.enable_socket()
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "real")
    demo.start(240)
    yield demo
    assert demo.stop() == []
