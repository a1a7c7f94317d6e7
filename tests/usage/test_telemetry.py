from datetime import timedelta

import pytest

from claims.states import ClaimState
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, measure
from usage.models import Rollup
from usage.telemetry import (
    NO_TELEMETRY,
    NOT_HELD,
    UseState,
    Utilization,
    current_utilization,
    past_utilization,
)

FIVE = timedelta(minutes=5)


def seen(claim, *, now=NOON):
    return current_utilization([claim], now=now)[claim.pk]


def test_a_busy_claim_is_in_use_with_the_share_of_the_last_five_minutes(claim):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 3 * FIVE, [0.1, 0.2, 0.78])
    assert (seen(claim).use, seen(claim).percent) == (UseState.IN_USE, 78)


def test_a_claim_whose_devices_differ_shows_their_mean(claim):
    for activity in (0.2, 0.6):
        measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [activity])
    assert seen(claim).percent == 40


def test_idle_begins_after_the_last_busy_five_minutes(claim):
    measure(hold(claim, NOON - timedelta(hours=2)), NOON - 10 * FIVE, [0.5, 0.4, *[0.02] * 8])
    assert seen(claim).use is UseState.IDLE
    assert seen(claim).idle_since == NOON - 8 * FIVE


@pytest.mark.parametrize(("quiet", "use"), [(5, UseState.IN_USE), (6, UseState.IDLE)])
def test_less_than_half_an_hour_of_quiet_is_not_idle(claim, quiet, use):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - quiet * FIVE, [0.02] * quiet)
    assert seen(claim).use is use


def test_a_gap_in_the_telemetry_is_never_part_of_an_idle_time(claim):
    held = hold(claim, NOON - timedelta(hours=3))
    measure(held, NOON - 12 * FIVE, [*[0.0] * 7, None, *[0.0] * 4])
    assert seen(claim).use is UseState.IN_USE
    measure(held, NOON, [0.0, 0.0])
    assert seen(claim, now=NOON + 2 * FIVE).idle_since == NOON - 4 * FIVE


def test_missing_samples_are_no_telemetry_and_never_zero(claim):
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


def test_observation_of_many_claims_is_one_query(claim, vision, alice, django_assert_num_queries):
    claims = [
        claim,
        *(make_claim(vision, by=alice, state=ClaimState.ALLOCATED, held=False) for _ in range(4)),
    ]
    for one in claims:
        measure(hold(one, NOON - timedelta(hours=1)), NOON - FIVE, [0.3])
    with django_assert_num_queries(1):
        found = current_utilization(claims, now=NOON)
    assert {observation.percent for observation in found.values()} == {30}


@pytest.mark.parametrize(("activity", "use"), [(0.0999, UseState.IDLE), (0.1, UseState.IN_USE)])
def test_ten_percent_activity_is_in_use(claim, activity, use):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 8 * FIVE, [*[0.0] * 7, activity])
    assert seen(claim).use is use


def test_one_sample_above_the_limit_is_enough_to_be_in_use(claim):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 8 * FIVE, [0.05] * 8)
    assert seen(claim).use is UseState.IDLE
    Rollup.objects.filter(bucket=NOON - 2 * FIVE).update(activity_max=0.1)
    assert seen(claim).use is UseState.IN_USE


@pytest.mark.parametrize(
    ("activities", "tone"), [([0.5, 0.04], ""), ([0.04, 0.5], "dg-good"), ([0.1], "dg-good")]
)
def test_a_claim_that_does_little_now_is_not_green_before_it_is_idle(claim, activities, tone):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - len(activities) * FIVE, activities)
    assert (seen(claim).use, seen(claim).tone) == (UseState.IN_USE, tone)


@pytest.mark.parametrize(("samples", "use"), [(5, UseState.IDLE), (4, UseState.IN_USE)])
def test_25_samples_in_half_an_hour_are_needed_to_be_idle(claim, samples, use):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 6 * FIVE, [0.0] * 6, samples=samples)
    assert seen(claim).use is use


@pytest.mark.parametrize(
    ("percent", "minutes", "use"),
    [(10, 30, UseState.IN_USE), (20, 30, UseState.IDLE), (20, 60, UseState.IN_USE), (20, 40, UseState.IDLE)],
)
def test_idle_limits_are_those_of_the_profile(claim, percent, minutes, use):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 8 * FIVE, [0.15] * 8)
    limits(claim, percent, minutes)
    assert seen(claim).use is use


def limits(claim, percent, minutes):
    version = claim.profile_version
    version.idle_percent, version.idle_after = percent, timedelta(minutes=minutes)
    version.save(update_fields=["idle_percent", "idle_after"])


def test_idle_begins_after_a_bucket_of_exactly_ten_percent(claim):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 8 * FIVE, [0.0, 0.1, *[0.0] * 6])
    assert seen(claim).idle_since == NOON - 6 * FIVE


@pytest.mark.parametrize(("age", "known"), [(3 * FIVE, True), (3 * FIVE + timedelta(seconds=1), False)])
def test_measurement_is_current_for_15_minutes(claim, age, known):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [0.5])
    found = seen(claim, now=NOON - FIVE + age)
    assert found == (Utilization(UseState.IN_USE, 0.5, None, NOON - FIVE) if known else NO_TELEMETRY)


def test_an_observation_of_an_idle_claim_says_since_when_and_when_it_was_measured(claim):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - 7 * FIVE, [0.02] * 6 + [0.04])
    found = seen(claim)
    assert found == Utilization(UseState.IDLE, 0.04, NOON - 7 * FIVE, NOON - FIVE)
    assert (found.percent, found.is_idle) == (4, True)


def test_idle_time_is_at_most_seven_days(claim):
    held = hold(claim, NOON - timedelta(days=8))
    Rollup.objects.bulk_create(
        Rollup(
            **{"claim": claim, "driver": held.driver, "pool": held.pool, "device": held.device},
            bucket=NOON - number * FIVE,
            samples=10,
            activity=0.0,
        )
        for number in range(1, 7 * 288 + 3)
    )
    assert seen(claim).idle_since == NOON - timedelta(days=7)


@pytest.mark.parametrize(
    ("state", "measured", "holding", "use"),
    [
        (ClaimState.ALLOCATED, True, False, UseState.IN_USE),
        (ClaimState.ALLOCATED, False, False, UseState.NO_TELEMETRY),
        (ClaimState.RELEASING, True, False, UseState.IN_USE),
        (ClaimState.RELEASING, False, False, UseState.NOT_HELD),
        (ClaimState.RELEASING, False, True, UseState.NO_TELEMETRY),
        (ClaimState.RELEASED, True, False, UseState.NOT_HELD),
        (ClaimState.PROVISIONED, True, False, UseState.NOT_HELD),
        (ClaimState.PROVISIONED, False, True, UseState.NO_TELEMETRY),
    ],
)
def test_observation_follows_state_and_held_devices(vision, alice, state, measured, holding, use):
    one = make_claim(vision, by=alice, state=state)
    if measured:
        measure(hold(one, NOON - timedelta(hours=1)), NOON - FIVE, [0.5])
    assert current_utilization([one], now=NOON, holding={one.pk} if holding else ())[one.pk].use is use


def test_each_claim_has_an_observation_of_its_own(claim, vision, alice):
    busy, quiet, silent = (
        make_claim(vision, by=alice, state=ClaimState.ALLOCATED, held=False) for _ in range(3)
    )
    measure(hold(busy, NOON - timedelta(hours=1)), NOON - 6 * FIVE, [0.9] * 6)
    measure(hold(quiet, NOON - timedelta(hours=1)), NOON - 6 * FIVE, [0.0] * 6)
    found = current_utilization(iter([silent, quiet, busy]), now=NOON)
    assert [(pk, one.use) for pk, one in found.items()] == [
        (silent.pk, UseState.NO_TELEMETRY),
        (quiet.pk, UseState.IDLE),
        (busy.pk, UseState.IN_USE),
    ]


def test_past_utilization_is_the_mean_of_all_measured_buckets(claim, vision, alice, fra):
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
    assert past_utilization([claim, second], NOON - 2 * FIVE) == pytest.approx(0.4)
    assert past_utilization([claim], NOON - 3 * FIVE) == pytest.approx(0.55)
    assert past_utilization([claim], NOON - 3 * FIVE + timedelta(seconds=1)) == pytest.approx(0.2)
    assert past_utilization([claim], NOON - FIVE) is None
    assert past_utilization([], NOON - 3 * FIVE) is None


def test_a_device_without_telemetry_keeps_its_claim_from_being_idle(claim):
    quiet, silent = (hold(claim, NOON - timedelta(hours=3)) for _ in range(2))
    measure(quiet, NOON - 8 * FIVE, [0.0] * 8)
    assert seen(claim) == Utilization(UseState.IN_USE, 0.0, None, NOON - FIVE)
    measure(silent, NOON - 8 * FIVE, [0.0] * 8)
    assert seen(claim).use is UseState.IDLE


def test_a_device_whose_telemetry_stopped_keeps_its_claim_from_being_idle(claim):
    quiet, stopped = (hold(claim, NOON - timedelta(hours=3)) for _ in range(2))
    measure(quiet, NOON - 16 * FIVE, [0.0] * 16)
    measure(stopped, NOON - 16 * FIVE, [0.0] * 15)
    assert seen(claim).use is UseState.IN_USE


def test_a_device_that_was_given_back_needs_no_telemetry(claim):
    hold(claim, NOON - timedelta(hours=3), NOON - timedelta(hours=2))
    measure(hold(claim, NOON - timedelta(hours=3)), NOON - 8 * FIVE, [0.0] * 8)
    assert seen(claim).use is UseState.IDLE
