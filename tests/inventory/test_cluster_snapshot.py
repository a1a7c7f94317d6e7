"""The allocator's picture is as new as the mirror, and costs a query while nothing moves."""

import gc
import weakref

import pytest
from django.db import OperationalError
from django.db.models import F

from cluster.protocol import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from dra.match import preview
from inventory import cluster_snapshot
from inventory.models import Cluster
from inventory.sync import list_watch
from tests.inventory.conftest import DRIVER, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _as_after_a_restart():
    cluster_snapshot.forget()


def names(devices):
    return sorted(str(device) for device in devices)


def test_snapshot_has_free_devices(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")
    found = cluster_snapshot.current_snapshot(mirrored)
    assert names(found.free) == ["gpu.nvidia.com/node-a/gpu-1", "gpu.nvidia.com/node-b/gpu-0"]
    assert [found.device_holder(device) for device in found.devices] == ["default/mine", "", ""]


def test_unchanged_snapshot_is_the_same_object_for_one_query(mirrored, django_assert_num_queries):
    first = cluster_snapshot.current_snapshot(mirrored)
    with django_assert_num_queries(1):
        assert cluster_snapshot.current_snapshot(mirrored) is first


def test_snapshot_of_a_revision_just_read_takes_no_query(
    mirrored, fake, run_session, django_assert_num_queries
):
    first = cluster_snapshot.current_snapshot(mirrored)
    mirrored.refresh_from_db()
    read = (mirrored.revision, mirrored.version)
    with django_assert_num_queries(0):
        assert cluster_snapshot.current_snapshot(mirrored, read) is first
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")
    newest = cluster_snapshot.current_snapshot(mirrored)
    assert len(newest.claims) == 1
    assert cluster_snapshot.current_snapshot(mirrored, read) is newest  # what was read is older


def test_snapshot_follows_every_kind_of_change(mirrored, fake, run_session):
    before = cluster_snapshot.current_snapshot(mirrored)
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    fake.put(RESOURCE_SLICE, slice_of("node-b", [gpu(0), gpu(1)], generation=2))
    run_session("resourceclaims")
    run_session("resourceslices")
    after = cluster_snapshot.current_snapshot(mirrored)
    assert (len(before.devices), len(after.devices), len(after.claims)) == (3, 4, 1)

    fake.remove(RESOURCE_CLAIM, "mine", namespace="default")
    run_session("resourceclaims")
    assert cluster_snapshot.current_snapshot(mirrored).claims == []


def test_snapshot_ignores_changes_outside_devices(mirrored, fake, run_session):
    first = cluster_snapshot.current_snapshot(mirrored)
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"resourceClaims": [{"name": "g"}]}}
    fake.put(POD, pod)
    run_session("pods")
    assert cluster_snapshot.current_snapshot(mirrored) is first


def test_snapshot_keeps_only_what_the_allocator_reads(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    fake.put(RESOURCE_CLAIM, resource_claim("waits"))
    tainted = [{"key": "k", "effect": "NoSchedule"}]
    fake.put(NODE, node("node-a", podCIDR="10.0.0.0/24", taints=tainted))
    run_session("resourceclaims")
    run_session("nodes")
    found = cluster_snapshot.current_snapshot(mirrored)
    assert [claim["metadata"] for claim in found.claims] == [{"namespace": "default", "name": "mine"}]
    seen = {one["metadata"]["name"]: one for one in found.nodes}
    assert seen["node-a"]["spec"] == {"taints": tainted}
    assert "status" not in seen["node-a"]
    first, second, *_ = found.devices
    assert first.raw["attributes"]["productName"] is second.raw["attributes"]["productName"]


def test_node_heartbeat_does_not_change_the_snapshot(mirrored, fake, run_session):
    first = cluster_snapshot.current_snapshot(mirrored)
    fake.put(NODE, node("node-a", ready=False))
    run_session("nodes")
    assert cluster_snapshot.current_snapshot(mirrored) is first


def test_changed_claim_keeps_the_device_index(mirrored, fake, run_session):
    before = cluster_snapshot.current_snapshot(mirrored)
    assert before.free
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")
    after = cluster_snapshot.current_snapshot(mirrored)
    assert after.device_index is before.device_index
    assert names(after.free) == names(before.free)[1:]


def test_features_follow_the_version_of_the_cluster(mirrored):
    assert not cluster_snapshot.cluster_features("v1.34.2").consumable_capacity
    assert cluster_snapshot.cluster_features("v1.36.0+k3s1").consumable_capacity
    assert cluster_snapshot.cluster_features("") == cluster_snapshot.cluster_features("v1.37.1")
    Cluster.objects.filter(pk=mirrored.pk).update(version="v1.35.0", revision=F("revision") + 1)
    assert cluster_snapshot.current_snapshot(mirrored).features == cluster_snapshot.cluster_features(
        "v1.35.0"
    )


def test_snapshot_is_read_again_after_a_failure(mirrored, fake, run_session, monkeypatch):
    cluster_snapshot.current_snapshot(mirrored)
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")

    def broken(*_):
        raise OperationalError("canceling statement due to statement timeout")

    with monkeypatch.context() as patched:
        patched.setattr(cluster_snapshot, "_next", broken)
        with pytest.raises(OperationalError):
            cluster_snapshot.current_snapshot(mirrored)
    found = cluster_snapshot.current_snapshot(mirrored)
    assert [found.device_holder(device) for device in found.devices] == ["default/mine", "", ""]


def test_previous_snapshot_is_returned_during_an_update(mirrored, fake, run_session):
    first = cluster_snapshot.current_snapshot(mirrored)
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")
    with cluster_snapshot._caches[mirrored.pk].lock:
        assert cluster_snapshot.current_snapshot(mirrored) is first
    assert cluster_snapshot.current_snapshot(mirrored) is not first


@pytest.mark.parametrize(("least", "visited"), [(3, False), (4, True)])
def test_only_a_large_snapshot_is_exempt_from_garbage_collection(mirrored, monkeypatch, least, visited):
    monkeypatch.setattr(cluster_snapshot, "MIN_FROZEN_DEVICES", least)
    try:
        devices = cluster_snapshot.current_snapshot(mirrored).devices
        assert any(item is devices for item in gc.get_objects()) is visited
    finally:
        gc.unfreeze()


def test_frozen_snapshot_is_freed_when_the_next_one_replaces_it(mirrored, fake, run_session, monkeypatch):
    monkeypatch.setattr(cluster_snapshot, "MIN_FROZEN_DEVICES", 1)
    try:
        before = weakref.ref(cluster_snapshot.current_snapshot(mirrored).device_index)
        fake.put(RESOURCE_SLICE, slice_of("node-b", [gpu(0), gpu(1)], generation=2))
        run_session("resourceslices")
        assert len(cluster_snapshot.current_snapshot(mirrored).devices) == 4
        assert before() is None
    finally:
        gc.unfreeze()


def test_features_that_slices_use_are_on_whatever_the_version(mirrored, fake):
    Cluster.objects.filter(pk=mirrored.pk).update(version="v1.35.0")
    assert not cluster_snapshot.current_snapshot(mirrored).features.partitionable_devices
    counters = slice_of("node-a", [], name="node-a-counters", generation=2, count=2)
    counters["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"slices": {"value": "2"}}}]
    halves = [gpu(number) for number in range(2)]
    for half in halves:
        half["consumesCounters"] = [{"counterSet": "gpu", "counters": {"slices": {"value": "1"}}}]
    fake.put(RESOURCE_SLICE, counters)
    fake.put(RESOURCE_SLICE, slice_of("node-a", halves, generation=2, count=2))
    list_watch.sync_once(mirrored, fake)
    Cluster.objects.filter(pk=mirrored.pk).update(version="v1.35.0")
    snapshot = cluster_snapshot.current_snapshot(mirrored)
    assert snapshot.features.partitionable_devices
    assert not snapshot.features.consumable_capacity
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 2}}
    assert preview(snapshot, {"devices": {"requests": [request]}}).nodes_that_fit == 1
