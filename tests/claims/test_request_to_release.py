"""From the request to the release, with the real mirror between the portal and a cluster in memory."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db.models import F

from claims.approvals.decide import approve
from claims.catalogue.listing import catalogue
from claims.delivery import tasks
from claims.lifecycle.services import release
from claims.models import Claim, Delivery
from claims.observation.observations import RECREATION_TIME
from claims.plans.plan import claim_manifest, example_pod
from claims.quotas.quota_usage import team_usage
from claims.requests.preview import preview
from claims.states import ClaimState
from cluster.protocol import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.models import Cluster, ResourceClaim
from inventory.sync.list_watch import sync_once
from tests.dra.clusters import device_class, gpu, node, resource_slice
from tests.factories import make_profile, make_spec

pytestmark = pytest.mark.django_db(transaction=True)
NINE = "2026-11-20T09:00:00Z"


@pytest.fixture
def fleet(fra, gateway):
    """Two nodes with two H100 each."""
    Cluster.objects.filter(pk=fra.pk).update(uid=gateway.identity())
    gateway.put(DEVICE_CLASS, device_class())
    for name in ("node-a", "node-b"):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        gateway.put(NODE, {**node(name), "status": ready})
        gateway.put(RESOURCE_SLICE, resource_slice(name, [gpu(0), gpu(1)]))
    sync_once(fra, gateway)
    return gateway


def allocate(gateway, name, *devices):
    """
    Do what the scheduler does when a pod uses the claim; without devices, what happens when it has ended.
    """
    held = gateway.get(RESOURCE_CLAIM, name, namespace="vision")
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-a", "device": device}
        for device in devices
    ]
    allocation = {"devices": {"results": results}, "allocationTimestamp": NINE}
    held["status"] = {"allocation": allocation} if devices else {}
    gateway.put(RESOURCE_CLAIM, held)


def state(claim):
    return Claim.objects.get(pk=claim.pk).state


def test_the_whole_way_of_a_claim(ask, fleet, fra, vision, alice, lena):
    claim = ask(devices=2)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert state(claim) == ClaimState.PROVISIONED

    fleet.put(POD, example_pod(claim) | {"status": {"phase": "Running"}})
    allocate(fleet, claim.name, "gpu-0", "gpu-1")
    sync_once(fra, fleet)
    assert state(claim) == ClaimState.ALLOCATED
    rows = list(claim.allocations.all())
    assert [(row.node_name, row.device, row.uuid, row.product, row.fraction) for row in rows] == [
        ("node-a", "gpu-0", "GPU-0000", "NVIDIA H100 80GB HBM3", Decimal(1)),
        ("node-a", "gpu-1", "GPU-0001", "NVIDIA H100 80GB HBM3", Decimal(1)),
    ]
    assert rows[0].started_at == datetime(2026, 11, 20, 9, 0, tzinfo=UTC)

    allocate(fleet, claim.name)
    sync_once(fra, fleet)
    assert state(claim) == ClaimState.PROVISIONED
    assert not claim.allocations.filter(ended_at=None).exists()

    release(claim=claim, by=alice)
    assert state(claim) == ClaimState.RELEASED
    assert fleet.get(RESOURCE_CLAIM, claim.name, namespace="vision") is None
    assert team_usage([vision])[0].used == 0


def test_an_object_deleted_by_hand_is_noticed_by_the_mirror(ask, fleet, fra, lena):
    claim = ask()
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    sync_once(fra, fleet)
    assert Claim.objects.get(pk=claim.pk).problem == ""
    fleet.remove(RESOURCE_CLAIM, claim.name, namespace="vision")
    sync_once(fra, fleet)
    assert state(claim) == ClaimState.PROVISIONED  # it may be made again at this moment
    ResourceClaim.objects.update(gone_at=F("gone_at") - RECREATION_TIME)
    tasks.sweep()
    assert state(claim) == ClaimState.FAILED


def test_a_preview_shows_what_is_free_and_what_the_request_would_do(
    ask, fleet, fra, vision, train, alice, lena
):
    shown = preview(by=alice, team=vision, cluster=fra, profile=train, devices=2)
    assert (shown.match.matching, shown.match.free, shown.match.nodes_that_fit) == (4, 4, 2)
    assert shown.match.fits
    claim = ask(devices=2)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    allocate(fleet, claim.name, "gpu-0", "gpu-1")
    sync_once(fra, fleet)
    shown = preview(by=alice, team=vision, cluster=fra, profile=train, devices=2, name="sam")
    assert (shown.match.free, shown.match.nodes_that_fit) == (2, 1)
    assert (
        shown.quota_lines[0].sentence == "vision holds 2 of 8 gpu.nvidia.com devices; this request needs 2."
    )
    assert "\n  name: sam\n  namespace: vision\n" in shown.manifest


def test_the_manifest_of_the_preview_is_what_is_written_but_for_the_id(ask, fra, vision, train, alice, quota):
    for delivery in Delivery:
        shown = preview(
            by=alice, team=vision, cluster=fra, profile=train, delivery=delivery, name=f"my-{delivery}"
        )
        written = claim_manifest(ask(delivery=delivery, name=f"my-{delivery}"))
        assert f"kind: {written['kind']}\n" in shown.manifest
        assert shown.plan.spec == Claim.objects.get(name=f"my-{delivery}").spec


def test_a_class_that_the_cluster_lacks_is_said_before_it_is_asked_for(ask, fleet, fra, vision, alice):
    other = make_profile("amd", spec=make_spec(device_class="gpu.amd.com"))
    shown = preview(by=alice, team=vision, cluster=fra, profile=other)
    assert any("gpu.amd.com" in problem for problem in shown.problems)
    assert shown.match.problem == "The cluster has no device class gpu.amd.com."


def test_the_catalogue_counts_what_is_there_and_free(fresh_availability, ask, fleet, fra, alice, lena):
    claim = ask(devices=2)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    allocate(fleet, claim.name, "gpu-0", "gpu-1")
    sync_once(fra, fleet)
    entry = catalogue(alice)[0]
    assert (entry.free, entry.total, entry.products) == (2, 4, ["NVIDIA H100 80GB HBM3"])
    assert entry.approval_sentence == "A lead of your team approves."


def test_what_cannot_be_told_is_unknown_and_not_none(ask, fleet, alice, vision, fra, quota):
    selector = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName.matches2('H')"}}
    make_profile("odd", spec=make_spec(selectors=[selector]))
    entry = next(entry for entry in catalogue(alice) if entry.profile.slug == "odd")
    assert (entry.free, entry.total) == (None, None)
