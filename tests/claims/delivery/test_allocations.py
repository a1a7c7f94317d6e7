"""What is written of the devices that a claim holds: every column, and the instant at which each ends."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.urls import reverse

from claims.delivery import reconcile, tasks
from claims.models import Allocation
from claims.observation.observations import DeviceHolding, observe
from claims.signals import allocations_changed
from claims.states import ClaimState
from dra.price_facts import labels_key
from inventory.models import Device, Node, PriceBasis, ResourceClaim, ResourceSlice
from inventory.price_bases import basis_of
from tests.claims.mirror import NINE, Mirror, result
from tests.factories import make_claim, make_cluster

pytestmark = pytest.mark.django_db
LATER = NINE + timedelta(hours=5)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, state=ClaimState.PROVISIONED,
        name="sam", object_uid="uid-1",
    )  # fmt: skip


def device(cluster, **columns):
    part, _ = ResourceSlice.objects.get_or_create(
        cluster=cluster, uid="s", defaults={"name": "s", "generation": 1, "pool_slices": 1}
    )
    values = {"driver": "gpu.nvidia.com", "pool": "node-1", "name": "gpu-0", **columns}
    return Device.objects.create(cluster=cluster, slice=part, **values)


def spot_node(cluster):
    labels = {"karpenter.sh/capacity-type": "spot"}
    return Node.objects.create(
        cluster=cluster, uid="host-7", name="host-7", labels=labels, labels_key=labels_key(labels, "host-7")
    )


def test_allocation_is_priced_by_its_node_once_that_is_mirrored(mirror, claim, fra):
    found = device(fra, node_name="host-7", product="NVIDIA H100")
    mirror.claim("sam", claim, result("gpu-0"))
    held = claim.allocations.get()
    assert (held.product, held.capacity_type) == ("NVIDIA H100", "")
    assert reconcile.claims_with_unknown_devices(10) == []
    Device.objects.filter(pk=found.pk).update(node=spot_node(fra), product="NVIDIA H100")
    assert reconcile.claims_with_unknown_devices(10) == [claim.pk]
    reconcile.reconcile_claim(claim.pk)
    held.refresh_from_db()
    assert held.capacity_type == "spot"
    assert held.basis == PriceBasis.objects.get(capacity_type="spot")
    assert reconcile.claims_with_unknown_devices(10) == []


def rows_of(claim):
    """Every column of every allocation but its id, by device and start."""
    rows = claim.allocations.order_by("device", "share_id", "started_at").values()
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def row(claim, device, **columns):
    return {
        "claim_id": claim.pk,
        "object_uid": "uid-1",
        "object_name": "sam",
        "request": "gpu",
        "driver": "gpu.nvidia.com",
        "pool": "node-1",
        "device": device,
        "share_id": "",
        "node_name": "",
        "product": "",
        "partition": "",
        "uuid": "",
        "memory_bytes": None,
        "fraction": Decimal(1),
        "basis_id": None,
        "capacity_type": "",
        "started_at": NINE,
        "ended_at": None,
        **columns,
    }


def test_every_column_of_a_device_is_kept_with_its_allocation(mirror, claim, fra):
    known = {
        "node_name": "host-7", "product": "NVIDIA H100", "partition": "1g.10gb", "uuid": "GPU-7",
        "memory_bytes": 10 << 30,
    }  # fmt: skip
    found = device(fra, **known, node=spot_node(fra), capacity={"memory": {"value": "80Gi"}})
    taken = result("gpu-0", request="a/b", shareID="share-1", consumedCapacity={"memory": "20Gi"})
    mirror.claim("sam", claim, taken, result("gpu-1"))
    assert rows_of(claim) == [
        row(
            claim, "gpu-0", request="a/b", share_id="share-1", fraction=Decimal("0.25"),
            basis_id=basis_of(found).pk, capacity_type="spot", **known | {"memory_bytes": 20 << 30},
        ),
        row(claim, "gpu-1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("consumed", "memory"),
    [({"memory": "20Gi"}, 20), ({"gpu.nvidia.com/memory": "8Gi"}, 8), ({"cores": "2"}, 80), ({}, 80)],
)
def test_a_share_has_the_memory_that_it_consumes(mirror, claim, fra, consumed, memory):
    device(fra, memory_bytes=80 << 30)
    mirror.claim("sam", claim, result("gpu-0", shareID="s", consumedCapacity=consumed))
    assert claim.allocations.get().memory_bytes == memory << 30


def test_partition_of_an_unknown_gpu_counts_as_the_memory_slices_that_it_consumes(mirror, claim, fra):
    counters = {f"memory-slice-{number}": {"value": "1"} for number in range(3)}
    attributes = {
        "type": {"string": "mig"},
        "profile": {"string": "2g.200gb"},
        "productName": {"string": "GPU of 2030"},
    }
    device(fra, attributes=attributes, counters=[{"counters": counters}])
    mirror.claim("sam", claim, result("gpu-0"))
    assert claim.allocations.get().fraction == Decimal("0.375")  # max(2/7, 3/8)


def test_claim_page_and_home_show_a_share_by_its_own_size(mirror, claim, fra, alice, client):
    device(fra, product="NVIDIA H100", memory_bytes=80 << 30, capacity={"memory": {"value": "80Gi"}})
    mirror.claim("sam", claim, result("gpu-0", shareID="s", consumedCapacity={"memory": "20Gi"}))
    client.force_login(alice)
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    assert page.count("20 GiB share") == 2  # key figure and row
    assert "80 GiB" not in page
    assert "1 × H100 20 GiB share" in client.get("/").text


def test_a_device_is_known_by_cluster_driver_pool_and_name(mirror, claim, fra):
    places = [
        ("gpu.nvidia.com", "node-1", "gpu-0"),
        ("gpu.amd.com", "node-1", "gpu-0"),
        ("gpu.nvidia.com", "node-2", "gpu-0"),
        ("gpu.nvidia.com", "node-1", "gpu-9"),
    ]
    names = [dict(zip(("driver", "pool", "name"), place, strict=True)) for place in places]
    for cluster in (fra, make_cluster("osl-1")):
        for number, columns in enumerate(names):
            device(cluster, **columns, product=f"{number} of {cluster}")
    taken = [{"request": "gpu", "driver": one, "pool": two, "device": three} for one, two, three in places]
    mirror.claim("sam", claim, *taken, result("gpu-unknown"))
    found = {(row.driver, row.pool, row.device): row.product for row in claim.allocations.all()}
    assert found == {place: f"{number} of fra-1" for number, place in enumerate(places)} | {
        ("gpu.nvidia.com", "node-1", "gpu-unknown"): ""
    }


@pytest.mark.parametrize(
    ("consumed", "fraction"),
    [
        ({}, "1"),
        ({"memory": "20Gi"}, "0.25"),
        ({"memory": "30Gi"}, "0.375"),
        ({"memory": "1"}, "0.000001"),
        ({"memory": "nonsense"}, "1"),
        ({"cores": "1"}, "0.333333"),
        ({"cores": "2"}, "0.666667"),
    ],
)
def test_a_share_is_billed_by_its_part_with_six_places_and_never_as_nothing(
    mirror, claim, fra, consumed, fraction
):
    device(fra, capacity={"memory": {"value": "80Gi"}, "cores": {"value": "3"}})
    mirror.claim("sam", claim, result("gpu-0", shareID="s", consumedCapacity=consumed))
    assert claim.allocations.get().fraction == Decimal(fraction)


def test_two_shares_of_one_device_are_two_rows_and_end_one_by_one(mirror, claim):
    shares = [result("gpu-0", shareID=name) for name in "ab"]
    mirror.claim("sam", claim, *shares)
    mirror.claim("sam", claim, shares[1], seen_at=LATER)
    assert rows_of(claim) == [
        row(claim, "gpu-0", share_id="a", ended_at=LATER),
        row(claim, "gpu-0", share_id="b"),
    ]


def test_one_device_given_back_and_one_more_taken_leaves_the_others_alone(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), result("gpu-1"))
    mirror.claim("sam", claim, result("gpu-1"), result("gpu-2"), seen_at=LATER)
    assert rows_of(claim) == [
        row(claim, "gpu-0", ended_at=LATER),
        row(claim, "gpu-1"),
        row(claim, "gpu-2"),
    ]


def test_without_a_time_of_the_cluster_devices_are_held_since_the_mirror_saw_it(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), allocated_at=None, seen_at=LATER)
    assert rows_of(claim) == [row(claim, "gpu-0", started_at=LATER)]


def test_a_clock_of_the_cluster_that_is_ahead_ends_nothing_before_its_start(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), at=LATER)
    mirror.claim("sam", claim, seen_at=NINE)
    assert rows_of(claim) == [row(claim, "gpu-0", started_at=LATER, ended_at=LATER)]


def test_what_is_gone_ended_when_it_was_gone_and_not_when_it_was_last_seen(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), seen_at=NINE)
    mirror.gone("uid-1", LATER)
    assert rows_of(claim) == [row(claim, "gpu-0", ended_at=LATER)]


def test_what_the_mirror_has_forgotten_ends_now(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    ResourceClaim.objects.all().delete()
    with time_machine.travel(NOON, tick=False):
        reconcile.reconcile_claim(claim.pk)
    assert rows_of(claim) == [row(claim, "gpu-0", ended_at=NOON)]


@pytest.mark.parametrize(
    ("since", "ends"), [(NINE - timedelta(seconds=1), None), (NINE, None), (LATER, LATER)]
)
def test_a_device_is_taken_anew_only_where_its_time_is_newer(mirror, claim, since, ends):
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.claim("sam", claim, result("gpu-0"), at=since)
    expected = [row(claim, "gpu-0", ended_at=ends)]
    if ends:
        expected.append(row(claim, "gpu-0", started_at=LATER))
    assert rows_of(claim) == expected


def test_admin_access_beside_devices_opens_rows_of_the_devices_alone(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0", adminAccess=True), result("gpu-1", adminAccess=False))
    assert rows_of(claim) == [row(claim, "gpu-1")]


def test_a_device_that_is_held_as_admin_from_now_on_is_given_back(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.claim("sam", claim, result("gpu-0", adminAccess=True), seen_at=LATER)
    assert rows_of(claim) == [row(claim, "gpu-0", ended_at=LATER)]


def test_each_object_of_a_template_holds_its_own(mirror, vision, fra, train, alice):
    batch = make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, delivery="template",
        parallel=2, name="batch", object_uid="uid-t",
    )  # fmt: skip
    mirror.template(batch)
    for name in "ab":
        mirror.claim(f"batch-{name}", batch, result(f"gpu-{name}"), uid=name, origin="template")
    mirror.gone("a", LATER)
    assert rows_of(batch) == [
        row(batch, "gpu-a", object_uid="a", object_name="batch-a", ended_at=LATER),
        row(batch, "gpu-b", object_uid="b", object_name="batch-b"),
    ]


def test_rows_of_others_are_left_alone(mirror, claim, vision, fra, train, alice):
    other = make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.ALLOCATED, name="other")
    before = rows_of(other)
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.claim("sam", claim, seen_at=LATER)
    assert rows_of(other) == before


def test_following_tells_whether_anything_changed(mirror, claim, monkeypatch):
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)

    def follow():
        return reconcile.sync_allocations(claim, observe([claim])[claim.pk])

    assert follow() is False
    mirror.claim("sam", claim, result("gpu-0"))
    assert [follow(), follow()] == [True, False]
    mirror.claim("sam", claim, seen_at=LATER)
    assert [follow(), follow()] == [True, False]
    assert Allocation.objects.count() == 1


@pytest.mark.parametrize(
    ("status", "held"),
    [
        ({}, 0),
        ({"allocation": None}, 0),
        ({"allocation": {}}, 0),
        ({"allocation": {"devices": None}}, 0),
        ({"allocation": {"devices": {"results": None}}}, 0),
        ({"allocation": {"devices": {"results": [result("gpu-0"), result("gpu-1")]}}}, 2),
    ],
)
def test_only_results_of_an_allocation_are_held(mirror, claim, status, held):
    mirror.claim("sam", claim)
    ResourceClaim.objects.update(raw={"status": status})
    found = observe([claim])[claim.pk].held
    assert [one.device for one in found] == ["gpu-0", "gpu-1"][:held]


def test_what_is_held_says_all_of_a_result(mirror, claim):
    full = result("gpu-0", shareID="s", adminAccess=True, consumedCapacity={"memory": "1Gi"})
    bare = {name: value for name, value in result("gpu-1").items() if name != "request"}
    mirror.claim("sam", claim, full, bare)
    known: dict[str, Any] = {
        "object_uid": "uid-1", "object_name": "sam", "driver": "gpu.nvidia.com", "pool": "node-1",
        "since": NINE,
    }  # fmt: skip
    assert observe([claim])[claim.pk].held == [
        DeviceHolding(
            **known, device="gpu-0", request="gpu", share_id="s", admin_access=True,
            consumed={"memory": "1Gi"},
        ),
        DeviceHolding(**known, device="gpu-1", request="", share_id="", admin_access=False, consumed={}),
    ]  # fmt: skip


def test_device_that_is_mirrored_after_its_claim_is_copied_by_the_next_sweep(claim, mirror, fra):
    """Claims and slices are watched apart: the claim of a new device can be known first."""
    mirror.claim("sam", claim, result("gpu-0"), result("gpu-1"), uid="uid-1")
    tasks.sweep()
    assert {row.node_name for row in claim.allocations.all()} == {""}
    seen = []
    allocations_changed.connect(lambda since, **_: seen.append(since), weak=False, dispatch_uid="test")
    device(fra, name="gpu-0", node_name="node-1", product="NVIDIA H100 80GB HBM3", uuid="GPU-0")
    tasks.sweep()
    allocations_changed.disconnect(dispatch_uid="test")
    found = {row.device: (row.node_name, row.product, row.uuid) for row in claim.allocations.all()}
    assert found == {"gpu-0": ("node-1", "NVIDIA H100 80GB HBM3", "GPU-0"), "gpu-1": ("", "", "")}
    assert seen == [claim.allocations.get(device="gpu-0").started_at]
    tasks.sweep()
    assert claim.allocations.filter(ended_at=None).count() == 2
