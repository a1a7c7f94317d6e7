from datetime import timedelta

import pytest

from claims.states import ClaimState
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, measure
from usage.models import Rollup
from usage.telemetry import NO_TELEMETRY, NOT_HELD, Use, observe

FIVE = timedelta(minutes=5)


def seen(claim, *, now=NOON):
    return observe([claim], now=now)[claim.pk]


def test_a_busy_claim_is_in_use_with_the_share_of_the_last_five_minutes(claim):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 3 * FIVE, [0.1, 0.2, 0.78])
    assert (seen(claim).use, seen(claim).percent) == (Use.IN_USE, 78)


def test_a_claim_whose_devices_differ_shows_their_mean(claim):
    for activity in (0.2, 0.6):
        measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [activity])
    assert seen(claim).percent == 40


def test_idle_begins_after_the_last_busy_five_minutes(claim):
    measure(hold(claim, NOON - timedelta(hours=2)), NOON - 10 * FIVE, [0.5, 0.4, *[0.02] * 8])
    assert seen(claim).use is Use.IDLE
    assert seen(claim).idle_since == NOON - 8 * FIVE


@pytest.mark.parametrize(("quiet", "use"), [(5, Use.IN_USE), (6, Use.IDLE)])
def test_less_than_half_an_hour_of_quiet_is_not_idle(claim, quiet, use):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - quiet * FIVE, [0.02] * quiet)
    assert seen(claim).use is use


def test_a_gap_in_the_telemetry_is_never_part_of_an_idle_time(claim):
    held = hold(claim, NOON - timedelta(hours=3))
    measure(held, NOON - 12 * FIVE, [*[0.0] * 7, None, *[0.0] * 4])
    assert seen(claim).use is Use.IN_USE
    measure(held, NOON, [0.0, 0.0])
    assert seen(claim, now=NOON + 2 * FIVE).idle_since == NOON - 4 * FIVE


def test_silence_is_no_telemetry_and_never_zero_per_cent(claim):
    held = hold(claim, NOON - timedelta(hours=1))
    assert seen(claim) == NO_TELEMETRY
    measure(held, NOON - 4 * FIVE, [0.9])
    assert seen(claim) == NO_TELEMETRY
    assert seen(claim).percent is None


def test_memory_without_activity_is_no_telemetry_of_activity(claim):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [0.5])
    Rollup.objects.update(activity=None)
    assert seen(claim) == NO_TELEMETRY


def test_a_claim_that_holds_nothing_is_not_observed(vision, alice):
    waiting = make_claim(vision, by=alice, state=ClaimState.PROVISIONED)
    assert seen(waiting) == NOT_HELD


def test_many_claims_cost_one_query(claim, vision, alice, django_assert_num_queries):
    claims = [
        claim,
        *(make_claim(vision, by=alice, state=ClaimState.ALLOCATED, held=False) for _ in range(4)),
    ]
    for one in claims:
        measure(hold(one, NOON - timedelta(hours=1)), NOON - FIVE, [0.3])
    with django_assert_num_queries(1):
        found = observe(claims, now=NOON)
    assert {observation.percent for observation in found.values()} == {30}
