from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from claims.states import ClaimState
from inventory.models import Cluster
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, measure
from usage import tasks
from usage.collect import collect, take_slot
from usage.models import Collection, Rollup
from usage.rollups import KEPT, Measured, add_samples, bucket_of, prune
from usage.samples import Reading


def line(
    metric: str, value: float, claim: str = "sam2-finetune", device: str = "gpu-2", uuid: str = "GPU-2"
) -> str:
    return (
        f'{metric}{{UUID="{uuid}",dra_claim_name="{claim}",dra_claim_namespace="vision",'
        f'dra_driver_name="gpu.nvidia.com",dra_pool_name="fra1-h100-03",'
        f'dra_device_name="{device}"}} {value}\n'
    )


@pytest.fixture
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def exporter(fra, serve):
    """A cluster with an exporter; the list holds the text it answers with, or nothing for a failure."""
    texts = [line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5)]
    address = serve(lambda path, body: (200, "".join(texts)) if texts else (500, ""))
    Cluster.objects.filter(pk=fra.pk).update(metrics_url=f"{address}/metrics")
    return texts


def test_a_bucket_is_the_five_minutes_an_instant_lies_in():
    assert bucket_of(datetime(2026, 11, 17, 12, 4, 59, 999999, tzinfo=UTC)) == NOON
    assert bucket_of(NOON + timedelta(minutes=5)) == NOON + timedelta(minutes=5)


def test_samples_of_five_minutes_become_one_row_with_mean_and_peak(claim, exporter, clock):
    held = hold(claim, NOON, device="gpu-2")
    for activity, memory, power in ((0.2, 100, 300), (0.4, 300, 500), (0.9, 200, 100)):
        exporter[:] = [
            line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", activity),
            line("DCGM_FI_DEV_FB_USED", memory),
            line("DCGM_FI_DEV_POWER_USAGE", power),
        ]
        assert collect(claim.cluster_id) == 1
        clock.shift(30)
    row = Rollup.objects.get()
    assert (row.claim, row.device, row.bucket, row.samples) == (claim, held.device, NOON, 3)
    assert row.activity == pytest.approx(0.5)
    assert row.memory_bytes == 300 * 2**20
    assert row.power_watts == pytest.approx(300)


def test_a_sample_without_a_value_leaves_the_mean_alone(claim, db):
    what = Measured(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")
    add_samples(NOON, [(what, Reading(activity=0.4))])
    add_samples(NOON, [(what, Reading(memory_bytes=5))])
    row = Rollup.objects.get()
    assert (row.samples, row.activity, row.memory_bytes, row.power_watts) == (2, 0.4, 5, None)


def test_a_device_held_through_two_shares_is_one_device(claim, db):
    what = Measured(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")
    assert add_samples(NOON, [(what, Reading(activity=0.4)), (what, Reading(activity=0.6))]) == 1
    assert Rollup.objects.get().activity == 0.6


def test_a_message_that_comes_twice_counts_once(claim, exporter, clock):
    hold(claim, NOON, device="gpu-2")
    assert collect(claim.cluster_id) == 1
    clock.shift(5)
    assert collect(claim.cluster_id) == 0
    assert Rollup.objects.get().samples == 1


def test_of_two_runs_at_once_one_finds_the_slot_taken(fra):
    assert take_slot(fra.pk, NOON)
    assert not take_slot(fra.pk, NOON)
    assert take_slot(fra.pk, NOON + timedelta(seconds=30))


def test_what_nobody_holds_is_seen_but_counted_to_nobody(claim, exporter, clock):
    hold(claim, NOON - timedelta(hours=2), NOON - timedelta(hours=1), device="gpu-2")
    assert collect(claim.cluster_id) == 0
    record = Collection.objects.get()
    assert (record.devices, record.attributed, record.succeeded_at) == (1, 0, NOON)
    assert not Rollup.objects.exists()


def test_a_failure_is_written_down_and_not_raised_and_the_next_success_clears_it(claim, exporter, clock):
    hold(claim, NOON, device="gpu-2")
    text, exporter[:] = list(exporter), []
    assert collect(claim.cluster_id) == 0
    record = Collection.objects.get()
    assert record.error == "The source of telemetry answered with status 500."
    assert record.failed_at == NOON
    exporter[:] = text
    clock.shift(30)
    assert collect(claim.cluster_id) == 1
    assert Collection.objects.filter(error="", failed_at=None).exists()


def test_the_task_reads_every_cluster_that_has_a_source_and_is_enabled(claim, exporter, clock):
    hold(claim, NOON, device="gpu-2")
    Cluster.objects.create(name="bare", credentials=b"", uid="2")
    tasks.collect.delay()
    assert Rollup.objects.count() == 1
    assert Collection.objects.count() == 1
    Cluster.objects.update(enabled=False)
    clock.shift(300)
    tasks.collect.delay()
    tasks.collect_cluster.delay(str(claim.cluster_id))
    assert Rollup.objects.count() == 1


def test_the_number_of_queries_does_not_grow_with_the_claims(
    claim, exporter, clock, vision, alice, fra, django_assert_num_queries, django_assert_max_num_queries
):
    hold(claim, NOON, device="gpu-2")
    with django_assert_max_num_queries(14) as one:
        collect(fra.pk)
    exporter[:] = []
    for number in range(10):
        another = make_claim(
            vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=f"more-{number}"
        )
        hold(another, NOON, device=f"gpu-{number}")
        exporter.append(
            line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, another.name, f"gpu-{number}", f"GPU-x{number}")
        )
    clock.shift(30)
    with django_assert_max_num_queries(len(one)):
        assert collect(fra.pk) == 10


def test_old_rollups_are_dropped_and_young_ones_kept(claim):
    held = hold(claim, NOON - KEPT * 2)
    measure(held, NOON - KEPT - timedelta(minutes=5), [0.1, 0.2])
    assert prune(NOON) == 1
    assert Rollup.objects.get().activity == 0.2
