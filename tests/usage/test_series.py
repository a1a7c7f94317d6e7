from datetime import timedelta

import pytest

from tests.usage.conftest import NOON, hold, measure
from usage.series import Presence, Range, series_of, step_for

FIVE = timedelta(minutes=5)


def series(claim, wanted=Range.HOUR, *, now=NOON):
    return series_of(claim, wanted, held=list(claim.allocations.all()), now=now)


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


def test_longer_ranges_have_wider_bins_weighted_by_samples(claim):
    held = hold(claim, NOON - timedelta(days=7))
    measure(held, NOON - 6 * FIVE, [0.9], samples=1)
    measure(held, NOON - 5 * FIVE, [0.1], samples=9)
    shown = series(claim, Range.WEEK)
    assert shown.step == timedelta(minutes=30)
    assert len(shown.points) == 7 * 48
    assert shown.points[-1].activity == pytest.approx(0.18)


def test_means_leave_out_what_was_not_measured(claim):
    measure(hold(claim, NOON - 12 * FIVE), NOON - 12 * FIVE, [0.4, None, None, 0.8])
    shown = series(claim)
    assert shown.mean_activity == pytest.approx(0.6)
    assert shown.peak_memory == 2**30


def test_a_bin_that_has_only_begun_is_not_a_gap(claim):
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
