"""How active the devices of some claims were, for who decides on more of them."""

from datetime import timedelta

import pytest

from claims.states import ClaimState
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, measure
from usage.models import Rollup
from usage.past import activity_of

FIVE = timedelta(minutes=5)


def test_the_mean_is_of_what_was_measured_of_these_claims_since_then(claim, vision, alice, fra):
    second, other = (
        make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False) for _ in range(2)
    )
    mine = hold(claim, NOON - timedelta(hours=2))
    measure(mine, NOON - 3 * FIVE, [0.9, 0.2, None])
    measure(hold(second, NOON - timedelta(hours=2)), NOON - 2 * FIVE, [0.6])
    measure(hold(other, NOON - timedelta(hours=2)), NOON - 2 * FIVE, [1.0])
    unknown = hold(claim, NOON - timedelta(hours=2))
    measure(unknown, NOON - FIVE, [0.5])
    Rollup.objects.filter(device=unknown.device).update(activity=None)
    assert activity_of([claim, second], NOON - 2 * FIVE) == pytest.approx(0.4)
    assert activity_of([claim], NOON - 3 * FIVE) == pytest.approx(0.55)
    assert activity_of([claim], NOON - 3 * FIVE + timedelta(seconds=1)) == pytest.approx(0.2)
    assert activity_of([claim], NOON - FIVE) is None
    assert activity_of([], NOON - 3 * FIVE) is None
