"""The control plane as a pytest fixture: one for a whole run, started when the first test asks for it."""

import os
from collections.abc import Iterator

import pytest
import pytest_socket

from demo.controlplane.build import ensure, why_unusable
from demo.controlplane.harness import ControlPlane


@pytest.fixture(scope="session")
def controlplane() -> Iterator[ControlPlane]:
    """A running control plane. Without its programs and without Go: skipped, but failed where CI is true."""
    if reason := why_unusable():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    ensure()
    pytest_socket.enable_socket()  # session fixtures come before the one that opens sockets for each test
    with ControlPlane() as plane:
        yield plane
