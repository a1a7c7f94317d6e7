"""Fixtures of every test: nothing reaches beyond this machine."""

import os

import pytest
import pytest_socket

from tests.controlplane.binaries import why_unusable
from tests.controlplane.build import ensure

pytest_plugins = ["tests.controlplane.fixtures"]


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
