"""Upstream as a fixture: skipped where it cannot be built, but failed where CI is true."""

import os
from pathlib import Path

import pytest

from tests.oracle.build import ensure, why_unusable


@pytest.fixture(scope="session")
def upstream_program() -> Path:
    if reason := why_unusable():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return ensure()
