import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import time_machine

from claims.states import ClaimState
from inventory.models import Cluster, Device, ResourceClaim, ResourceSlice
from tests.factories import make_claim, make_cluster
from tests.usage.conftest import NOON, hold
from usage import tasks
from usage.attribution import OpenAllocation, open_allocations
from usage.collect import collect, sources, take_slot
from usage.models import Collection, Rollup
from usage.samples import Measurement, RollupDevice, add_samples, bucket_start


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


def test_bucket_start_is_the_multiple_of_five_minutes():
    assert bucket_start(datetime(2026, 11, 17, 12, 4, 59, 999999, tzinfo=UTC)) == NOON
    assert bucket_start(NOON + timedelta(minutes=5)) == NOON + timedelta(minutes=5)


def test_samples_of_a_bucket_become_one_row_with_mean_and_peak(claim, exporter, clock):
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


def test_sample_without_a_value_leaves_the_mean_unchanged(claim, db):
    what = RollupDevice(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")
    add_samples(NOON, [(what, Measurement(activity=0.4))])
    add_samples(NOON + timedelta(seconds=30), [(what, Measurement(memory_bytes=5))])
    row = Rollup.objects.get()
    assert (row.samples, row.activity, row.memory_bytes, row.power_watts) == (2, 0.4, 5, None)


def test_a_device_held_through_two_shares_is_one_device(claim, db):
    what = RollupDevice(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")
    assert add_samples(NOON, [(what, Measurement(activity=0.4)), (what, Measurement(activity=0.6))]) == 1
    assert Rollup.objects.get().activity == 0.6


def test_repeated_message_counts_once(claim, exporter, clock):
    hold(claim, NOON, device="gpu-2")
    assert collect(claim.cluster_id) == 1
    clock.shift(5)
    assert collect(claim.cluster_id) == 0
    assert Rollup.objects.get().samples == 1


def test_only_one_of_two_concurrent_runs_gets_the_slot(fra):
    assert take_slot(fra.pk, NOON)
    assert not take_slot(fra.pk, NOON)
    assert take_slot(fra.pk, NOON + timedelta(seconds=30))


def test_free_device_is_counted_but_attributed_to_no_claim(claim, exporter, clock):
    hold(claim, NOON - timedelta(hours=2), NOON - timedelta(hours=1), device="gpu-2")
    assert collect(claim.cluster_id) == 0
    record = Collection.objects.get()
    assert (record.devices, record.attributed, record.succeeded_at) == (1, 0, NOON)
    assert not Rollup.objects.exists()


def test_failure_is_stored_and_cleared_by_the_next_success(claim, exporter, clock):
    hold(claim, NOON, device="gpu-2")
    text, exporter[:] = list(exporter), []
    assert collect(claim.cluster_id) == 0
    record = Collection.objects.get()
    assert record.error == "The telemetry source returned status 500."
    assert record.failed_at == NOON
    exporter[:] = text
    clock.shift(30)
    assert collect(claim.cluster_id) == 1
    assert Collection.objects.filter(error="", failed_at=None).exists()


def test_task_reads_enabled_clusters_with_a_source(claim, exporter, clock):
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
    with django_assert_max_num_queries(28) as one:
        collect(fra.pk)
    exporter[:] = []
    for number in range(10):
        another = make_claim(
            vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=f"more-{number}"
        )
        hold(another, NOON, device=f"gpu-x{number}")
        exporter.append(
            line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, another.name, f"gpu-x{number}", f"GPU-x{number}")
        )
    clock.shift(30)
    with django_assert_max_num_queries(len(one)):
        assert collect(fra.pk) == 10


@pytest.mark.parametrize(
    ("urls", "enabled", "read"),
    [
        (("http://a/metrics", ""), True, True),
        (("", "http://b"), True, True),
        (("http://a/metrics", "http://b"), True, True),
        (("", ""), True, False),
        (("http://a/metrics", "http://b"), False, False),
    ],
)
def test_sources_are_enabled_clusters_with_a_url(fra, urls, enabled, read):
    Cluster.objects.update(metrics_url=urls[0], prometheus_url=urls[1], enabled=enabled)
    assert sources() == ([fra.pk] if read else [])


def test_slot_of_a_cluster_is_free_again_after_15_seconds(fra):
    other = make_cluster("ber-1")
    apart = timedelta(seconds=15)
    assert take_slot(fra.pk, NOON)
    assert take_slot(other.pk, NOON)
    assert not take_slot(fra.pk, NOON + apart)
    assert take_slot(fra.pk, NOON + apart + timedelta(microseconds=1))
    assert list(Collection.objects.order_by("sampled_at").values_list("cluster", "sampled_at")) == [
        (other.pk, NOON),
        (fra.pk, NOON + apart + timedelta(microseconds=1)),
    ]


def test_prometheus_goes_before_an_exporter(claim, exporter, serve, clock):
    hold(claim, NOON, device="gpu-2")
    labels = {
        "dra_claim_name": claim.name,
        "dra_claim_namespace": "vision",
        "dra_driver_name": "gpu.nvidia.com",
        "dra_pool_name": "fra1-h100-03",
        "dra_device_name": "gpu-2",
    }
    answer = json.dumps({"data": {"result": [{"metric": labels, "value": [0, "0.25"]}]}})
    Cluster.objects.update(prometheus_url=serve(lambda path, body: (200, answer)))
    assert collect(claim.cluster_id) == 1
    assert Rollup.objects.get().activity == 0.25


COLLECTED = ("sampled_at", "succeeded_at", "devices", "attributed", "failed_at", "error")


def test_collection_result_is_stored_for_its_cluster_only(claim, exporter, clock):
    other = Collection.objects.create(cluster=make_cluster("ber-1"), error="as it was", failed_at=NOON)
    hold(claim, NOON, device="gpu-2")
    exporter.append(line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, "nobody", "gpu-3", "GPU-3"))
    assert collect(claim.cluster_id) == 1
    written = Collection.objects.filter(cluster=claim.cluster_id).values_list(*COLLECTED)
    assert list(written) == [(NOON, NOON, 2, 1, None, "")]
    clock.shift(30)
    text, exporter[:] = list(exporter), []
    late = NOON + timedelta(seconds=30)
    said = "The telemetry source returned status 500."
    assert collect(claim.cluster_id) == 0
    assert list(written.all()) == [(late, NOON, 2, 1, late, said)]
    clock.shift(30)
    exporter[:] = text[:1]
    assert collect(claim.cluster_id) == 1
    later = NOON + timedelta(seconds=60)
    assert list(written.all()) == [(later, later, 1, 1, None, "")]
    other.refresh_from_db()
    assert (other.error, other.failed_at, other.succeeded_at) == ("as it was", NOON, None)


def test_removed_disabled_or_sourceless_cluster_is_not_read(claim, exporter, clock):
    hold(claim, NOON, device="gpu-2")
    assert collect(uuid4()) == 0
    Cluster.objects.update(enabled=False)
    assert collect(claim.cluster_id) == 0
    Cluster.objects.update(enabled=True, metrics_url="")
    assert collect(claim.cluster_id) == 0
    assert not Collection.objects.exists()


def test_a_claim_of_another_cluster_with_the_same_names_is_not_measured(
    claim, exporter, clock, vision, alice
):
    far = make_cluster("ber-1", teams=(vision,))
    twin = make_claim(
        vision, by=alice, cluster=far, state=ClaimState.ALLOCATED, held=False, name="sam2-finetune"
    )
    hold(twin, NOON, device="gpu-2")
    assert collect(claim.cluster_id) == 0
    hold(claim, NOON, device="gpu-2")
    clock.shift(30)
    assert collect(claim.cluster_id) == 1
    assert Rollup.objects.get().claim == claim


def mirrored(cluster, name, parent, *, held=True, gone=None, pool="fra1-h100-03"):
    place = ResourceSlice.objects.get_or_create(
        cluster=cluster,
        uid="s",
        defaults={"name": "s", "raw": {}, "driver": "gpu.nvidia.com", "generation": 1, "pool_slices": 1},
    )[0]
    holder = ResourceClaim.objects.get_or_create(
        cluster=cluster, uid="c", defaults={"name": "c", "namespace": "vision", "raw": {}}
    )[0]
    Device.objects.create(
        cluster=cluster,
        slice=place,
        driver="gpu.nvidia.com",
        pool=pool,
        name=name,
        parent_uuid=parent,
        held_by=holder if held else None,
        gone_at=gone,
    )


def test_open_allocations_have_the_physical_gpu_of_the_mirror(claim, vision, alice, fra):
    far = make_cluster("ber-1", teams=(vision,))
    elsewhere = make_claim(vision, by=alice, cluster=far, state=ClaimState.ALLOCATED, held=False)
    hold(elsewhere, NOON, device="part-0")
    hold(claim, NOON - timedelta(hours=1), NOON, device="ended")
    for name in ("part-0", "part-1", "part-2", "part-3", "whole"):
        hold(claim, NOON, device=name, uuid=f"uuid-{name}", partition="1g.10gb")
    mirrored(fra, "part-0", "GPU-a")
    mirrored(fra, "part-1", "GPU-a", gone=NOON)
    mirrored(fra, "part-2", "GPU-a", pool="another")
    mirrored(fra, "part-3", "GPU-a", held=False)
    mirrored(fra, "whole", "")
    mirrored(far, "part-1", "GPU-far")
    common = {
        "claim_id": claim.pk,
        "namespace": "vision",
        "object_name": "sam2-finetune",
        "driver": "gpu.nvidia.com",
        "pool": "fra1-h100-03",
        "partition": "1g.10gb",
        "memory": 80 * 2**30,
    }
    assert sorted(open_allocations(fra), key=lambda one: one.device) == [
        OpenAllocation(**common, device=name, uuid=f"uuid-{name}", parent_uuid=board)
        for name, board in (
            ("part-0", "GPU-a"),
            *((name, "") for name in ("part-1", "part-2", "part-3", "whole")),
        )
    ]


def test_memory_of_a_device_is_known_but_not_that_of_a_share(claim, fra):
    hold(claim, NOON, device="whole")
    hold(claim, NOON, device="share", share_id="a", memory_bytes=2**30)
    hold(claim, NOON, device="unknown", memory_bytes=None)
    memory = {one.device: one.memory for one in open_allocations(fra)}
    assert memory == {"whole": 80 * 2**30, "share": None, "unknown": None}


def test_bucket_means_are_weighted_by_samples_with_a_value(claim, db):
    what = RollupDevice(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")
    readings = (
        Measurement(),
        Measurement(activity=0.4, power_watts=100.0, memory_bytes=7),
        Measurement(activity=0.7, power_watts=400.0, memory_bytes=5),
        Measurement(),
    )
    for number, reading in enumerate(readings):
        add_samples(NOON + timedelta(minutes=4, seconds=15 * number), [(what, reading)])
    row = Rollup.objects.get()
    assert (row.samples, row.memory_bytes, row.bucket) == (4, 7, NOON)
    assert row.activity == pytest.approx((0.4 * 2 + 0.7) / 3)
    assert row.power_watts == pytest.approx((100 * 2 + 400) / 3)


def test_each_device_of_each_claim_has_a_row_per_bucket(claim, vision, alice, fra):
    other = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    places = [("a", "p", "gpu-0"), ("a", "p", "gpu-1"), ("a", "q", "gpu-0"), ("b", "p", "gpu-0")]
    samples = [
        (RollupDevice(one.pk, *place), Measurement(activity=number / 10))
        for one in (claim, other)
        for number, place in enumerate(places)
    ]
    assert add_samples(NOON, samples) == 8
    assert add_samples(NOON + timedelta(minutes=5), samples[:1]) == 1
    assert add_samples(NOON, []) == 0
    columns = ("claim", "driver", "pool", "device", "bucket", "samples", "activity")
    rows = sorted(Rollup.objects.values_list(*columns), key=str)
    assert rows == sorted(
        [
            *(
                (what.claim_id, what.driver, what.pool, what.device, NOON, 1, seen.activity)
                for what, seen in samples
            ),
            (claim.pk, "a", "p", "gpu-0", NOON + timedelta(minutes=5), 1, 0.0),
        ],
        key=str,
    )


def test_maximum_of_two_shares_counts(claim, db):
    what = RollupDevice(claim.pk, "gpu.nvidia.com", "pool", "gpu-2")
    add_samples(NOON, [(what, Measurement(0.6, 5, None)), (what, Measurement(0.4, 9, 30.0))])
    row = Rollup.objects.get()
    assert (row.samples, row.activity, row.memory_bytes, row.power_watts) == (1, 0.6, 9, 30.0)


def test_task_queues_each_cluster_for_30_seconds(claim, exporter, clock, monkeypatch):
    second = make_cluster("ber-1", metrics_url="http://127.0.0.1:1/metrics")
    make_cluster("bare")
    queued = []
    monkeypatch.setattr(
        tasks.collect_cluster, "apply_async", lambda args, **more: queued.append((args, more))
    )
    tasks.collect()
    assert sorted(queued, key=str) == sorted(
        [((str(one),), {"expires": 30.0}) for one in (claim.cluster_id, second.pk)], key=str
    )


def test_failing_source_delays_no_other_cluster(claim, exporter, clock):
    make_cluster("aaa", metrics_url="http://127.0.0.1:1/metrics")
    make_cluster("zzz", metrics_url="http://127.0.0.1:1/metrics")
    hold(claim, NOON, device="gpu-2")
    tasks.collect.delay()
    assert Rollup.objects.count() == 1
    assert Collection.objects.filter(error__contains="cannot be reached").count() == 2
