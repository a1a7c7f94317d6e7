"""A team that holds devices, what they cost, and the people who see it."""

from datetime import UTC, datetime

import pytest
import time_machine

from tests.usage.conftest import alice, bob, claim, eve, fra, hold, lena, price, root, vision

__all__ = ["NOW", "alice", "bob", "claim", "eve", "fra", "hold", "lena", "now", "price", "root", "vision"]

NOW = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)


@pytest.fixture
def now(db):
    """Stop the clock on 17 November 2026, 10:00 UTC."""
    with time_machine.travel(NOW, tick=False):
        yield NOW
