"""Fixtures of every test: nothing reaches beyond this machine."""

import os

import pytest
import pytest_socket

from tests.controlplane.binaries import why_unusable
from tests.controlplane.build import ensure

pytest_plugins = ["tests.controlplane.fixtures"]


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
