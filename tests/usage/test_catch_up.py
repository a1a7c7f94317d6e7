"""Gaps of telemetry are filled from the history of Prometheus, real if installed, and never invented."""

import math
import signal
from datetime import timedelta

import pytest
import time_machine

from inventory.freshness import OF_DEVICES
from inventory.models import Cluster, Freshness
from tests.prometheus import RealPrometheus, SmallPrometheus, prometheus_of_history
from tests.usage.conftest import NOON, hold, measure
from usage import catch_up as gaps
from usage import tasks
from usage.catch_up import catch_up, history, missing_buckets
from usage.models import CollectedBucket, Collection, Rollup, StoredDays
from usage.samples import BUCKET, bucket_start

EVERY = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)
LABELS = (
    'UUID="GPU-2",dra_claim_name="sam2-finetune",dra_claim_namespace="vision",'
    'dra_driver_name="gpu.nvidia.com",dra_pool_name="fra1-h100-03",dra_device_name="gpu-2"'
)

pytestmark = pytest.mark.django_db(transaction=True)


def activity_at(instant):
    """The ratio that the exporter wrote at an instant: a curve that no two buckets share."""
    return round(0.5 + 0.4 * math.sin(instant.timestamp() / 700), 6)


def memory_at(instant):
    return 1000 + int(instant.timestamp()) // 30 % 50


def energy_at(instant):
    """The counter of a GPU at 300 W, in mJ."""
    return int((instant - NOON + timedelta(days=9)).total_seconds()) * 300_000


def lines(start, end, *, without=()):
    """Return the history of one device, one sample each 30 s, without some spans, as OpenMetrics."""
    instants = []
    at = start
    while at < end:
        if not any(first <= at < last for first, last in without):
            instants.append(at)
        at += EVERY
    for metric, value in (
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", activity_at),
        ("DCGM_FI_DEV_FB_USED", memory_at),
        ("DCGM_FI_DEV_POWER_USAGE", lambda at: 300),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", energy_at),
    ):
        yield f"# TYPE {metric} gauge"
        for at in instants:
            yield f"{metric}{{{LABELS}}} {value(at)} {int(at.timestamp())}"


def expected(bucket, since=None):
    """Return what live collection would have stored for a bucket: samples, mean, largest."""
    instants = [bucket + number * EVERY for number in range(10)]
    instants = [at for at in instants if since is None or at >= since]
    activity = sum(map(activity_at, instants)) / len(instants)
    return len(instants), pytest.approx(activity, abs=1e-9), max(map(memory_at, instants)) * 2**20


def stored():
    rows = Rollup.objects.order_by("bucket").values_list("bucket", "samples", "activity", "memory_bytes")
    return {bucket: values for bucket, *values in rows}


@pytest.fixture
def past(tmp_path, fra):
    """Return a function that starts a Prometheus with a history; the cluster reads it."""
    running: list[RealPrometheus | SmallPrometheus] = []

    def start(*spans, **without):
        program = running[0] if running else prometheus_of_history(tmp_path)
        if running:
            program.stop()
        for first, last in spans:
            program.backfill(lines(first, last, **without))
        program.start()
        if not running:
            running.append(program)
        Cluster.objects.filter(pk=fra.pk).update(prometheus_url=program.url)
        return program

    yield start
    for program in running:
        program.stop(signal.SIGKILL)


def alive(fra, at):
    """Note that live collection works at this time, and that the mirror is fresh."""
    for resource in OF_DEVICES:
        Freshness.objects.update_or_create(cluster=fra, resource=resource, defaults={"seen_at": at})
    Collection.objects.update_or_create(
        cluster=fra, defaults={"succeeded_at": at, "sampled_at": at, "failed_at": None, "error": ""}
    )


def run(fra, at, times=1):
    added = 0
    with time_machine.travel(at, tick=False):
        alive(fra, at)
        for _ in range(times):
            added += catch_up(fra.pk)
    return added


@pytest.fixture
def requests(monkeypatch):
    """Return the first buckets of the requests for history that were sent."""
    sent = []
    real = gaps.read_history

    def noted(source, start, end):
        sent.append(start)
        return real(source, start, end)

    monkeypatch.setattr(gaps, "read_history", noted)
    return sent


def measured_live(fra, held, bucket, samples=10):
    """Store a bucket as live collection does that found one device."""
    measure(held, bucket, [0.123], memory=5, samples=samples)
    CollectedBucket.objects.create(cluster=fra, bucket=bucket, attributed=1)


def test_hour_without_a_worker_is_filled_as_live_collection_would_have(past, claim, fra):
    past((NOON - timedelta(hours=3), NOON))
    held = hold(claim, NOON - timedelta(hours=2), device="gpu-2", uuid="GPU-2")
    live = [NOON - timedelta(hours=2) + number * BUCKET for number in range(12)]
    measure(held, live[0], [0.123] * 12, memory=5, samples=7)
    CollectedBucket.objects.bulk_create(
        CollectedBucket(cluster=fra, bucket=bucket, attributed=1) for bucket in live
    )
    assert run(fra, NOON, times=4) == 11  # the newest bucket may still be collected live
    rows = stored()
    assert {bucket: rows[bucket] for bucket in live} == {bucket: [7, 0.123, 5] for bucket in live}
    for number in range(11):
        bucket = NOON - timedelta(hours=1) + number * BUCKET
        assert tuple(rows.pop(bucket)) == expected(bucket)
    assert sorted(rows) == live
    filled = Rollup.objects.exclude(bucket__in=live)
    assert set(filled.values_list("power_watts", flat=True)) == {300.0}
    assert set(filled.values_list("energy_joules", flat=True)) == {300.0 * 300}  # W × s


def test_repeated_runs_change_nothing(past, claim, fra):
    past((NOON - timedelta(hours=2), NOON))
    hold(claim, NOON - timedelta(hours=1), device="gpu-2", uuid="GPU-2")
    run(fra, NOON, times=4)
    before = stored()
    CollectedBucket.objects.update(attributed=0, tried_at=None)  # as if it were not known what was done
    assert run(fra, NOON, times=4) == 0
    assert stored() == before


def test_samples_count_from_the_start_of_an_allocation_to_its_end(past, claim, fra):
    past((NOON - timedelta(hours=2), NOON))
    started, ended = NOON - timedelta(minutes=33, seconds=40), NOON - timedelta(minutes=21)
    hold(claim, started, ended, device="gpu-2", uuid="GPU-2")
    run(fra, NOON, times=4)
    rows = stored()
    assert list(rows) == [NOON - timedelta(minutes=minutes) for minutes in (35, 30, 25)]
    assert tuple(rows[NOON - 35 * MINUTE]) == expected(NOON - 35 * MINUTE, since=started)
    assert rows[NOON - 25 * MINUTE][0] == 8  # 11:35:00 to 11:38:30


def test_gap_of_prometheus_stays_a_gap_and_is_filled_if_the_data_come_late(past, claim, fra):
    gap = NOON - 60 * MINUTE, NOON - 30 * MINUTE
    past((NOON - timedelta(hours=3), gap[0]), (gap[1], NOON))
    hold(claim, NOON - timedelta(hours=2), device="gpu-2", uuid="GPU-2")
    run(fra, NOON, times=4)
    missing = [gap[0] + number * BUCKET for number in range(6)]
    # Prometheus repeats a sample for five minutes, to live collection as to this.
    assert [bucket for bucket in missing if bucket in stored()] == missing[:1]
    assert history(fra, NOON).missing == 5
    past(gap)
    run(fra, NOON + 30 * MINUTE, times=4)
    assert not set(missing[1:]) & set(stored())  # asked for again after an hour
    assert run(fra, NOON + 61 * MINUTE, times=4) > 0
    rows = stored()
    assert [tuple(rows[bucket]) for bucket in missing[1:]] == [expected(bucket) for bucket in missing[1:]]


def test_device_that_was_away_while_others_were_measured_is_filled_an_hour_later(past, claim, fra):
    bucket = NOON - timedelta(hours=1)
    past((bucket - timedelta(hours=1), bucket + timedelta(hours=1)))
    hold(claim, bucket - timedelta(minutes=30), device="gpu-2", uuid="GPU-2")
    other = hold(claim, bucket, bucket + BUCKET)
    measured_live(fra, other, bucket, samples=7)
    run(fra, NOON + 4 * MINUTE, times=4)
    assert not Rollup.objects.filter(bucket=bucket, device="gpu-2").exists()
    assert run(fra, NOON + 5 * MINUTE) == 2  # and the bucket that is over since then
    rows = Rollup.objects.filter(bucket=bucket).values_list("device", "samples", "activity", "memory_bytes")
    assert {device: tuple(values) for device, *values in rows} == {
        other.device: (7, 0.123, 5),  # as it was
        "gpu-2": expected(bucket),
    }
    noted = CollectedBucket.objects.get(bucket=bucket)
    assert (noted.attributed, noted.filled, noted.lacking) == (2, 1, 0)
    assert history(fra, NOON + 5 * MINUTE).partial == 0


def test_claim_that_was_mirrored_late_is_filled_where_others_were_measured(past, claim, fra):
    bucket = NOON - timedelta(hours=2)
    past((bucket - timedelta(hours=1), NOON))
    measured_live(fra, hold(claim, bucket, bucket + BUCKET), bucket)
    Freshness.objects.all().delete()
    with time_machine.travel(NOON, tick=False):
        alive(fra, NOON)
        Freshness.objects.update(seen_at=bucket)
        catch_up(fra.pk)
    hold(claim, bucket + MINUTE, bucket + BUCKET, device="gpu-2", uuid="GPU-2")  # the mirror is back
    assert run(fra, NOON + MINUTE) == 1
    row = Rollup.objects.get(device="gpu-2")
    assert (row.samples, row.activity, row.memory_bytes) == expected(bucket, since=bucket + MINUTE)


def test_device_without_any_telemetry_costs_one_more_reading_of_a_bucket(past, claim, fra, requests):
    bucket = NOON - timedelta(hours=2)
    past((bucket, NOON))
    measured_live(fra, hold(claim, bucket, bucket + BUCKET), bucket)
    hold(claim, bucket, bucket + BUCKET, device="unknown", uuid="GPU-unknown")
    for hours in range(6):
        assert run(fra, NOON + timedelta(hours=hours), times=2) == 0
    assert requests == [bucket]
    assert history(fra, NOON) == gaps.History(filled=0, missing=0, partial=1)


def test_bucket_in_which_every_device_was_measured_is_not_read_again(past, claim, fra, requests):
    bucket = NOON - timedelta(hours=2)
    past((bucket, NOON))
    measured_live(fra, hold(claim, bucket, bucket + BUCKET), bucket)
    hold(claim, bucket + 3 * MINUTE, bucket + BUCKET)  # for less than half of the bucket
    hold(claim, bucket - BUCKET, bucket + 2 * MINUTE)
    CollectedBucket.objects.create(cluster=fra, bucket=bucket - BUCKET, tried_at=NOON + timedelta(hours=9))
    assert run(fra, NOON, times=2) == 0
    assert requests == []
    assert CollectedBucket.objects.get(bucket=bucket).tried_at == NOON


def test_a_run_fills_the_newest_hour_and_the_next_ones_the_rest_of_a_day(past, claim, fra, monkeypatch):
    assert missing_buckets(fra, NOON)[-1] == NOON - timedelta(days=1) + BUCKET
    monkeypatch.setattr(gaps, "REACH", timedelta(hours=2))  # so that the test ends soon
    past((NOON - timedelta(hours=5), NOON))
    hold(claim, NOON - timedelta(hours=4), device="gpu-2", uuid="GPU-2")
    assert run(fra, NOON) == 12
    assert sorted(stored())[0] == NOON - 13 * BUCKET
    assert run(fra, NOON, times=3) == 2 * 12 - 2 - 12
    assert sorted(stored())[0] == NOON - timedelta(hours=2) + BUCKET
    assert history(fra, NOON) == gaps.History(filled=22, missing=0, partial=0)


def test_small_prometheus_answers_as_the_real_one(past, claim, fra):
    """So that the tests of this file mean the same where Prometheus is not installed."""
    spans = (NOON - timedelta(hours=2), NOON - timedelta(minutes=47)), (NOON - timedelta(minutes=31), NOON)
    past(*spans)
    small = SmallPrometheus()
    for first, last in spans:
        small.backfill(lines(first, last))
    small.start()
    asked = NOON - timedelta(hours=1), NOON - BUCKET
    fra.refresh_from_db()
    real = gaps.read_history(gaps.opened(fra), *asked)
    fra.prometheus_url = small.url
    try:
        assert gaps.read_history(gaps.opened(fra), *asked) == real
    finally:
        small.stop()
    assert len(real) > 50


def test_nothing_is_read_while_the_source_does_not_respond(past, claim, fra):
    program = past((NOON - timedelta(hours=2), NOON))
    hold(claim, NOON - timedelta(hours=1), device="gpu-2", uuid="GPU-2")
    with time_machine.travel(NOON, tick=False):
        assert catch_up(fra.pk) == 0  # never collected
        alive(fra, NOON - timedelta(minutes=6))
        assert catch_up(fra.pk) == 0
        alive(fra, NOON)
        Collection.objects.update(failed_at=NOON)
        assert catch_up(fra.pk) == 0
    program.stop(signal.SIGKILL)
    assert run(fra, NOON) == 0
    held = CollectedBucket.objects.filter(bucket__gte=NOON - timedelta(hours=1))
    assert not held.exists()  # nothing counts as asked for


def test_time_in_which_nothing_was_held_is_no_gap(past, fra, claim):
    past((NOON - timedelta(hours=2), NOON))
    assert run(fra, NOON, times=4) == 0
    assert history(fra, NOON) == gaps.History(0, 0, 0)


def test_filled_buckets_of_a_stored_day_are_stored_again(past, claim, fra):
    morning = NOON.replace(hour=1)
    past((morning - timedelta(hours=3), morning))
    hold(claim, morning - timedelta(hours=2), device="gpu-2", uuid="GPU-2")
    StoredDays.objects.create(pk=1, until=morning.date())
    run(fra, morning, times=4)
    assert StoredDays.objects.get().until == morning.date() - timedelta(days=1)


def test_task_reads_clusters_with_prometheus_only(fra, monkeypatch):
    queued = []
    monkeypatch.setattr(tasks.catch_up_cluster, "apply_async", lambda args, **more: queued.append(args))
    Cluster.objects.update(metrics_url="http://dcgm:9400/metrics")
    CollectedBucket.objects.create(cluster=fra, bucket=bucket_start(NOON) - timedelta(days=400))
    tasks.catch_up()
    assert (queued, CollectedBucket.objects.count()) == ([], 0)
    Cluster.objects.update(prometheus_url="http://prometheus:9090")
    tasks.catch_up()
    assert queued == [(str(fra.pk),)]


def test_live_collection_notes_its_bucket_so_that_it_is_no_gap(claim, fra, serve):
    text = f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{LABELS}}} 0.5\n"
    Cluster.objects.update(metrics_url=serve(lambda path, body: (200, text)))
    hold(claim, NOON, device="gpu-2", uuid="GPU-2")
    with time_machine.travel(NOON + MINUTE, tick=False):
        tasks.collect_cluster(str(fra.pk))
    later = NOON + 3 * BUCKET
    assert NOON not in missing_buckets(fra, later)
    assert NOON - BUCKET in missing_buckets(fra, later)
    assert CollectedBucket.objects.get().attributed == 1
