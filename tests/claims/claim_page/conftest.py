"""A claim and a template to explain, and the mirror that shows them."""

import pytest

from tests.claims.explained import delivered
from tests.claims.mirror import Mirror


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim(vision, fra, train, alice, quota):
    """A named claim for one device, written, and used by nobody."""
    return delivered(vision, by=alice, cluster=fra, profile=train, name="sam")


@pytest.fixture
def template(vision, fra, train, alice, quota):
    return delivered(
        vision, by=alice, cluster=fra, profile=train, name="batch", delivery="template", parallel=4
    )
