"""Rollups of five minutes and hours: samples counted once, partitions, late samples, what readers see."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection

from tests.usage.conftest import NOON, hold, measure
from usage import hourly, partitions, samples, tasks
from usage.models import DailyActivity, HourlyRollup, Rollup, StoredDays, StoredHour
from usage.partitions import FIVE_MINUTES, HOURS, KEEP, KEEP_HOURS
from usage.samples import Measurement, RollupDevice, add_samples
from usage.series import Range, claim_series

FIVE = timedelta(minutes=5)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SAMPLE = timedelta(seconds=30)


@pytest.fixture
def what(claim):
    return RollupDevice(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")


def add(what, at, *activities, **values):
    for number, activity in enumerate(activities):
        add_samples(at + number * SAMPLE, [(what, Measurement(activity=activity, **values))])


def tables(table):
    return list(table.existing())


def test_five_minutes_have_lowest_highest_and_every_sample(what):
    add(what, NOON, 0.1, 0.9, None, 0.5)
    row = Rollup.objects.get()
    assert row.samples == 4
    assert row.activities == pytest.approx([0.1, 0.9, 0.5])
    assert (row.activity_min, row.activity_max) == pytest.approx((0.1, 0.9))


def test_a_sample_that_comes_twice_counts_once(what):
    add(what, NOON, 0.2, 0.4, energy_joules=30.0)
    add(what, NOON, 0.2, 0.4, energy_joules=30.0)
    row = Rollup.objects.get()
    assert (row.samples, row.energy_joules) == (2, 60)
    assert row.activity == pytest.approx(0.3)


def test_collections_a_quarter_of_a_minute_apart_both_count(what):
    for number in range(20):
        add_samples(NOON + number * samples.SLOT, [(what, Measurement(activity=0.5))])
    assert Rollup.objects.get().samples == 20


def test_means_maxima_and_sums_of_all_that_is_measured(what):
    for number in (1, 2, 3):
        reading = Measurement(
            activity=number / 10, memory_bytes=number, power_watts=100.0 * number, sm_activity=number / 20,
            tensor_activity=number / 40, memory_activity=number / 80, memory_total=80,
            temperature=50.0 + number, pcie_bytes=1000.0 * number, nvlink_bytes=2000.0 * number,
            energy_joules=10.0 * number, ecc_corrected=number, ecc_uncorrected=0,
        )  # fmt: skip
        add_samples(NOON + number * SAMPLE, [(what, reading)])
    row = Rollup.objects.get()
    means = (row.activity, row.sm_activity, row.tensor_activity, row.memory_activity)
    assert means == pytest.approx((0.2, 0.1, 0.05, 0.025))
    assert (row.power_watts, row.pcie_bytes, row.nvlink_bytes) == (200, 2000, 4000)
    assert (row.memory_bytes, row.memory_total, row.temperature) == (3, 80, 53)
    assert (row.energy_joules, row.ecc_corrected, row.ecc_uncorrected) == (60, 6, 0)


def test_what_was_not_measured_is_null_in_rollup_and_hour(what):
    add(what, NOON, 0.5)
    hourly.store_hour(NOON, is_final=False)
    for row in (Rollup.objects.get(), HourlyRollup.objects.get()):
        assert (row.tensor_activity, row.memory_bytes, row.power_watts, row.energy_joules) == (None,) * 4
        assert (row.temperature, row.ecc_uncorrected, row.nvlink_bytes) == (None,) * 3


def test_an_hour_has_the_95th_percentile_of_its_samples(what):
    for bucket in range(12):
        add(what, NOON + bucket * FIVE, *[0.2] * 9, 1.0 if bucket % 2 else 0.2, memory_bytes=100 + bucket)
    hourly.store_hour(NOON, is_final=False)
    hour = HourlyRollup.objects.get()
    assert (hour.samples, hour.bucket) == (120, NOON)
    assert hour.activity == pytest.approx(0.24)
    assert (hour.activity_min, hour.activity_max) == pytest.approx((0.2, 1.0))
    assert hour.activity_p95 == pytest.approx(
        0.24
    )  # 114 of 120 samples are 0.2, and 0.05 of the way to the next
    assert (hour.memory_bytes, hour.memory_p95) == (111, 110)


def test_hours_are_stored_when_they_are_over_and_again_when_samples_come_late(what):
    add(what, NOON, 0.2)
    assert hourly.store(NOON + HOUR) == 0
    assert not HourlyRollup.objects.exists()
    hourly.store(NOON + HOUR + FIVE)
    assert HourlyRollup.objects.get().activity == pytest.approx(0.2)
    add(what, NOON + SAMPLE, 0.6)
    assert not StoredHour.objects.filter(hour=NOON).exists()
    assert hourly.store(NOON + HOUR + FIVE) == 1
    assert HourlyRollup.objects.get().activity == pytest.approx(0.4)
    assert hourly.store(NOON + HOUR + FIVE) == 0


def test_an_hour_takes_no_samples_once_it_is_final(what):
    add(what, NOON, 0.2)
    hourly.store(NOON + 26 * HOUR + FIVE)
    assert StoredHour.objects.get(hour=NOON).is_final
    assert not StoredHour.objects.get(hour=NOON + 2 * HOUR).is_final
    assert add_samples(NOON + SAMPLE, [(what, Measurement(activity=0.9))]) == 0
    assert add_samples(NOON + 3 * HOUR, [(what, Measurement(activity=0.9))]) == 1
    assert Rollup.objects.get(bucket=NOON).samples == 1


def test_an_hour_is_computed_once_more_when_it_becomes_final(what):
    add(what, NOON, 0.2)
    hourly.store_hour(NOON, is_final=False)
    Rollup.objects.update(activity=0.7)  # as if samples had been committed while the hour was stored
    hourly.store(NOON + 26 * HOUR + FIVE)
    assert HourlyRollup.objects.get().activity == pytest.approx(0.7)


def test_a_range_of_weeks_reads_hours_and_the_last_ones_of_five_minutes(claim):
    held = hold(claim, NOON - 60 * DAY)
    measure(held, NOON - 2 * HOUR, [0.2] * 24)
    before = claim_series(claim, Range.DAYS_30, allocations=[held], now=NOON)
    hourly.store_hour(NOON - 2 * HOUR, is_final=True)
    after = claim_series(claim, Range.DAYS_30, allocations=[held], now=NOON)
    assert after.points == before.points
    Rollup.objects.filter(bucket__lt=NOON - HOUR).delete()
    assert claim_series(claim, Range.DAYS_30, allocations=[held], now=NOON).points == before.points
    life = claim_series(claim, Range.LIFE, allocations=[held], now=NOON)
    assert life.samples == 240
    assert life.expected == 60 * 2880


def test_days_have_partitions_ahead_and_rows_that_waited_move_into_theirs(what):
    add(what, NOON, 0.2)
    add(what, NOON + DAY, 0.3)
    assert tables(FIVE_MINUTES) == []
    partitions.maintain(NOON)
    assert tables(FIVE_MINUTES) == [f"usage_rollup_2026_11_{day}" for day in (17, 18, 19, 20)]
    assert tables(HOURS) == [
        f"usage_hourlyrollup_{month}_01" for month in ("2026_11", "2026_12", "2027_01", "2027_02")
    ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text, activity FROM usage_rollup ORDER BY bucket")
        assert cursor.fetchall() == [("usage_rollup_2026_11_17", 0.2), ("usage_rollup_2026_11_18", 0.3)]
    add(what, NOON + SAMPLE, 0.4)
    assert Rollup.objects.get(bucket=NOON).samples == 2


def test_maintenance_twice_changes_nothing_and_goes_on_with_the_days(what):
    partitions.maintain(NOON)
    partitions.maintain(NOON)
    assert len(tables(FIVE_MINUTES)) == 4
    partitions.maintain(NOON + DAY)
    assert tables(FIVE_MINUTES)[-1] == "usage_rollup_2026_11_21"


def stored(day, *hours):
    StoredDays.objects.update_or_create(pk=1, defaults={"until": day})
    for hour in hours:
        StoredHour.objects.get_or_create(hour=hour)


def test_old_days_are_dropped_and_not_deleted(claim, what):
    partitions.maintain(NOON - KEEP - DAY)
    held = hold(claim, NOON - KEEP - DAY)
    measure(held, NOON - KEEP - DAY, [0.1])
    measure(held, NOON - KEEP, [0.2])
    measure(held, NOON - 50 * DAY, [0.3])  # in the default partition
    first = FIVE_MINUTES.start_of(NOON - KEEP)
    stored(NOON.date(), first - HOUR)
    partitions.maintain(NOON)
    assert list(Rollup.objects.values_list("activity", flat=True)) == [0.2]
    assert tables(FIVE_MINUTES)[0] == f"usage_rollup_{first:%Y_%m_%d}"


@pytest.mark.parametrize("missing", ["days", "hours"])
def test_nothing_is_dropped_before_its_day_and_its_hours_are_stored(claim, missing):
    partitions.maintain(NOON - KEEP - DAY)
    measure(hold(claim, NOON - KEEP - DAY), NOON - KEEP - DAY, [0.1])
    if missing == "hours":
        stored(NOON.date())
    else:
        stored((NOON - KEEP - DAY).date(), FIVE_MINUTES.start_of(NOON - KEEP) - HOUR)
    partitions.maintain(NOON)
    assert Rollup.objects.count() == 1


def test_hours_are_kept_for_a_year_and_the_month_before(what):
    old = datetime(2025, 9, 30, 23, tzinfo=UTC)
    assert timedelta(days=366 + 31) < KEEP_HOURS
    for at in (old, old + HOUR):
        add(what, at, 0.5)
        hourly.store_hour(at, is_final=True)
    partitions.maintain(NOON)
    assert [row.bucket for row in HourlyRollup.objects.all()] == [old + HOUR]
    assert StoredHour.objects.count() == 0  # of hours that are over for more than the time that they are kept


def test_a_partition_that_cannot_be_made_leaves_rows_where_they_are(what):
    add(what, NOON, 0.2)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE usage_rollup_2026_11_17 ()")
    partitions.maintain(NOON)
    assert Rollup.objects.get().activity == 0.2
    assert "usage_rollup_2026_11_18" in tables(FIVE_MINUTES)


def test_the_task_stores_hours_and_makes_partitions(what):
    add(what, NOON - 2 * HOUR, 0.2)
    with time_machine.travel(NOON, tick=False):
        tasks.store_hours()
    assert HourlyRollup.objects.get().bucket == NOON - 2 * HOUR
    assert tables(FIVE_MINUTES)


def test_utilization_of_a_day_outlives_its_five_minutes(claim):
    from usage.daily import refresh

    measure(hold(claim, NOON - KEEP * 2), NOON - KEEP * 2, [0.4, 0.6])
    day = (NOON - KEEP * 2).date()
    StoredDays.objects.create(pk=1, until=day + DAY)
    refresh(day, day + DAY)
    Rollup.objects.all().delete()
    refresh(day, day + DAY)
    assert DailyActivity.objects.get().activity == pytest.approx(1.0)


def test_a_past_of_months_is_stored_at_once(claim):
    held = hold(claim, NOON - 60 * DAY)
    for days in (60, 40, 2):
        measure(held, NOON - days * DAY, [0.3] * 12)
    measure(held, NOON - 2 * HOUR, [0.9] * 12)
    hourly.store_past(NOON)
    assert [row.bucket for row in HourlyRollup.objects.all()] == [NOON - days * DAY for days in (60, 40, 2)]
    assert StoredHour.objects.filter(is_final=True).count() == 59 * 24
    hourly.store_past(NOON)
    assert HourlyRollup.objects.count() == 3


def test_nothing_measured_is_no_past(db):
    hourly.store_past(NOON)
    assert not StoredHour.objects.exists()
