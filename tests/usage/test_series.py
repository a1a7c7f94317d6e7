from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from claims.states import ClaimState
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, measure
from usage.models import Rollup
from usage.series import Presence, Range, bounds, claim_series, step_for

FIVE = timedelta(minutes=5)


def series(claim, wanted=Range.HOUR, *, now=NOON):
    return claim_series(claim, wanted, allocations=list(claim.allocations.all()), now=now)


def test_a_gap_is_no_telemetry_while_held_and_not_held_otherwise(claim):
    first = hold(claim, NOON - 12 * FIVE, NOON - 6 * FIVE)
    measure(first, NOON - 12 * FIVE, [0.5, 0.5, None, 0.5])
    second = hold(claim, NOON - 3 * FIVE)
    measure(second, NOON - 3 * FIVE, [0.2, 0.4, 0.6])
    shown = series(claim)
    measured, silent, free = Presence.MEASURED, Presence.NO_TELEMETRY, Presence.NOT_HELD
    assert [point.presence for point in shown.points] == [
        *(measured, measured, silent, measured, silent, silent),
        *(free, free, free),
        *(measured, measured, measured),
    ]
    assert [point.activity for point in shown.points[-4:]] == [None, 0.2, 0.4, 0.6]
    assert shown.unmeasured == 3 * FIVE


def test_activity_is_the_mean_and_memory_the_sum_over_devices(claim):
    for activity in (0.2, 0.6):
        measure(hold(claim, NOON - FIVE), NOON - FIVE, [activity], memory=2**30)
    (point,) = series(claim).points
    assert point.activity == pytest.approx(0.4)
    assert point.memory_bytes == 2 * 2**30
    assert sorted(point.by_device.values()) == [0.2, 0.6]


def test_devices_of_one_name_on_two_nodes_are_two(claim):
    for pool, activity in (("node-a", 0.2), ("node-b", 0.6)):
        measure(hold(claim, NOON - FIVE, pool=pool, device="gpu-0"), NOON - FIVE, [activity])
    measure(hold(claim, NOON - FIVE, pool="node-a", device="gpu-1"), NOON - FIVE, [0.4])
    shown = series(claim)
    assert shown.devices == ["gpu-1", "node-a/gpu-0", "node-b/gpu-0"]
    (point,) = shown.points
    assert point.by_device == {"node-a/gpu-0": 0.2, "node-b/gpu-0": 0.6, "gpu-1": 0.4}


def test_longer_ranges_have_wider_bins_weighted_by_samples(claim):
    held = hold(claim, NOON - timedelta(days=7))
    measure(held, NOON - 6 * FIVE, [0.9], samples=1)
    measure(held, NOON - 5 * FIVE, [0.1], samples=9)
    shown = series(claim, Range.WEEK)
    assert shown.step == timedelta(minutes=30)
    assert len(shown.points) == 7 * 48
    assert shown.points[-1].activity == pytest.approx(0.18)


def test_means_leave_out_bins_without_telemetry(claim):
    measure(hold(claim, NOON - 12 * FIVE), NOON - 12 * FIVE, [0.4, None, None, 0.8])
    shown = series(claim)
    assert shown.mean_activity == pytest.approx(0.6)
    assert shown.peak_memory == 2**30


def test_bin_that_has_just_begun_is_no_gap(claim):
    measure(hold(claim, NOON - FIVE), NOON - FIVE, [0.4])
    shown = series(claim, now=NOON + timedelta(minutes=2))
    assert [point.presence for point in shown.points] == [Presence.MEASURED]


def test_the_whole_life_ends_with_the_last_device(claim):
    measure(hold(claim, NOON - timedelta(days=3), NOON - timedelta(days=2)), NOON - timedelta(days=3), [0.4])
    shown = series(claim, Range.LIFE)
    assert (shown.start, shown.end) == (NOON - timedelta(days=3), NOON - timedelta(days=2))


def test_a_claim_that_never_held_anything_has_an_empty_series(claim):
    assert not series(claim, Range.LIFE, now=claim.created_at + timedelta(hours=1)).is_measured


@pytest.mark.parametrize("days", [0.01, 1, 7, 14, 90, 400])
def test_a_graph_never_has_more_points_than_it_can_show(days):
    span = timedelta(days=days)
    assert span / step_for(span) <= 400


def test_bins_are_as_narrow_as_the_graph_has_room_for():
    spans = [
        (timedelta(0), 5),
        (400 * FIVE, 5),
        (400 * FIVE + timedelta(microseconds=1), 10),
        (800 * FIVE, 10),
        (timedelta(days=7), 30),
        (timedelta(days=80), 6 * 60),
        (timedelta(days=1000), 5 * 24 * 60),
        (timedelta(days=9999), 10 * 24 * 60),
    ]
    assert [(span, step_for(span) // timedelta(minutes=1)) for span, _ in spans] == spans


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        (Range.HOUR, timedelta(hours=1), timedelta(0)),
        (Range.DAY, timedelta(days=1), timedelta(0)),
        (Range.WEEK, timedelta(days=7), timedelta(0)),
        (Range.LIFE, timedelta(days=9), timedelta(0)),
    ],
)
def test_a_range_ends_now_while_something_is_held(claim, wanted, start, end):
    hold(claim, NOON - timedelta(days=9), NOON - timedelta(days=8))
    hold(claim, NOON - timedelta(days=2))
    shown = series(claim, wanted)
    assert (shown.range, shown.end) == (wanted, NOON)
    assert NOON - start - shown.step < shown.start <= NOON - start


@pytest.mark.parametrize(
    ("zone", "today", "month"),  # it is Tuesday 17 November 2026, 12:00 UTC
    [
        ("UTC", datetime(2026, 11, 17, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)),
        ("Asia/Tokyo", datetime(2026, 11, 16, 15, tzinfo=UTC), datetime(2026, 10, 31, 15, tzinfo=UTC)),
        ("Pacific/Auckland", datetime(2026, 11, 17, 11, tzinfo=UTC), datetime(2026, 10, 31, 11, tzinfo=UTC)),
        # Summer time ended on 1 November.
        ("America/New_York", datetime(2026, 11, 17, 5, tzinfo=UTC), datetime(2026, 11, 1, 4, tzinfo=UTC)),
    ],
)
def test_today_and_month_begin_at_midnight_of_the_reader(claim, zone, today, month):
    held = [hold(claim, NOON - timedelta(days=60))]
    with timezone.override(zone):
        assert bounds(claim, Range.TODAY, held, NOON) == (today, NOON)
        assert bounds(claim, Range.MONTH, held, NOON) == (month, NOON)


def test_a_range_begins_with_the_first_device_and_ends_with_the_last(claim):
    hold(claim, NOON - timedelta(hours=30), NOON - timedelta(hours=20))
    hold(claim, NOON - timedelta(hours=22), NOON - timedelta(hours=10))
    hold(claim, NOON - timedelta(hours=25), NOON - timedelta(hours=15))
    assert [
        (shown.start, shown.end) for shown in (series(claim, one) for one in (Range.HOUR, Range.DAY))
    ] == [
        (NOON - timedelta(hours=11), NOON - timedelta(hours=10)),
        (NOON - timedelta(hours=30), NOON - timedelta(hours=10)),
    ]


def test_a_claim_that_never_held_anything_is_shown_from_when_it_was_made(claim):
    now = claim.created_at + timedelta(minutes=20)
    shown = series(claim, Range.DAY, now=now)
    assert claim.created_at - FIVE < shown.start <= claim.created_at
    assert shown.end == now
    assert {point.presence for point in shown.points} == {Presence.NOT_HELD}
    assert (shown.unmeasured, shown.mean_activity, shown.peak_memory) == (timedelta(0), None, None)


def test_point_has_the_values_of_each_device(claim):
    gauges = [
        ("b", 0.2, 100, 50.0, 3),
        ("a", 0.9, None, 70.0, 4),
        ("c", None, 11, None, 5),
        ("d", 0.4, 1, 6.0, 1),
    ]
    for name, activity, memory, power, samples in gauges:
        one = hold(claim, NOON - FIVE, device=name)
        Rollup.objects.create(
            claim=claim,
            driver=one.driver,
            pool=one.pool,
            device=name,
            bucket=NOON - FIVE,
            samples=samples,
            activity=activity,
            memory_bytes=memory,
            power_watts=power,
        )
    shown = series(claim)
    (point,) = shown.points
    assert (point.at, point.presence, point.samples) == (NOON - FIVE, Presence.MEASURED, 13)
    assert point.activity == pytest.approx(0.5)
    assert (point.memory_bytes, point.power_watts) == (112, 126.0)
    assert point.by_device == pytest.approx({"a": 0.9, "b": 0.2, "d": 0.4})
    assert shown.devices == ["a", "b", "c", "d"]


def test_wide_bins_leave_samples_without_a_value_out_of_the_mean(claim):
    held = hold(claim, NOON - timedelta(days=7))
    measure(held, NOON - 3 * FIVE, [0.2, 0.8, 0.5], samples=2)
    Rollup.objects.filter(bucket=NOON - 2 * FIVE).update(power_watts=900, memory_bytes=7, samples=6)
    Rollup.objects.filter(bucket=NOON - FIVE).update(activity=None, power_watts=None, memory_bytes=None)
    point = series(claim, Range.WEEK).points[-1]
    assert point.samples == 10
    assert point.activity == pytest.approx(0.65)
    assert point.memory_bytes == 2**30
    assert point.power_watts == pytest.approx(750)


def test_the_mean_of_a_range_is_weighted_by_samples_and_its_peak_is_the_largest(claim):
    held = hold(claim, NOON - 3 * FIVE)
    measure(held, NOON - 3 * FIVE, [0.2], samples=1, memory=5)
    measure(held, NOON - 2 * FIVE, [0.6], samples=3, memory=9)
    measure(held, NOON - FIVE, [0.9], memory=7)
    Rollup.objects.filter(bucket=NOON - FIVE).update(activity=None)
    shown = series(claim)
    assert shown.mean_activity == pytest.approx(0.5)
    assert shown.peak_memory == 9
    assert shown.is_measured


def test_series_has_only_measurements_of_the_claim_in_the_range(claim, vision, alice, fra):
    other = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    measure(hold(other, NOON - FIVE, device="other"), NOON - FIVE, [0.9])
    mine = hold(claim, NOON - timedelta(hours=2), device="mine")
    measure(mine, NOON - 13 * FIVE, [0.1, 0.2, *[None] * 10, 0.3, 0.4])
    shown = series(claim)
    assert [point.activity for point in shown.points] == [0.2, *[None] * 10, 0.3]
    assert (shown.start, shown.devices) == (NOON - 12 * FIVE, ["mine"])


def test_bin_is_held_if_a_device_was_held_in_part_of_it(claim):
    hold(claim, NOON - 4 * FIVE, NOON - 3 * FIVE)
    hold(claim, NOON - FIVE - timedelta(seconds=1))
    assert [point.presence.value for point in series(claim).points] == [
        *("no-telemetry", "not-held", "no-telemetry", "no-telemetry")
    ]


@pytest.mark.parametrize(
    ("late", "bins"), [(timedelta(0), 2), (timedelta(seconds=1), 2), (-timedelta(seconds=1), 1)]
)
def test_only_the_bin_that_is_not_over_is_left_out(claim, late, bins):
    measure(hold(claim, NOON - FIVE), NOON - FIVE, [0.4])
    points = series(claim, now=NOON + FIVE + late).points
    assert len(points) == bins
    assert [point.presence for point in points[1:]] == [Presence.NO_TELEMETRY] * (bins - 1)


def test_a_bin_that_has_only_begun_and_was_not_held_is_shown(claim):
    hold(claim, NOON - 2 * FIVE, NOON - FIVE)
    shown = series(claim, Range.LIFE, now=NOON)
    assert [point.presence for point in shown.points] == [Presence.NO_TELEMETRY]
    waiting = claim_series(claim, Range.LIFE, allocations=[], now=claim.created_at + timedelta(seconds=1))
    assert [point.presence for point in waiting.points] == [Presence.NOT_HELD]
