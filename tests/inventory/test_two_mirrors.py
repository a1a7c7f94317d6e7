"""Two clusters that look alike, down to the uids of their objects: what happens in one leaves the other."""

import pytest
from django.utils import timezone

from cluster.protocol import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE_VERSIONS,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from inventory.models import Cluster, Device, Freshness, ObjectEvent
from inventory.sync.list_watch import follow, list_all, sync_once
from inventory.sync.session import MODELS, inspect, mirrored_kind, mirrored_kinds, take
from tests.fakes import FakeGateway
from tests.inventory.conftest import device_class, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db
RULE = DEVICE_TAINT_RULE_VERSIONS[0]


def named(kind, manifest):
    """The same uid in every cluster, as after one has been restored from a backup of the other."""
    metadata = manifest["metadata"]
    metadata.setdefault("uid", f"{kind.plural}-{metadata['name']}")
    metadata.setdefault("creationTimestamp", "2026-11-20T10:00:00Z")
    return manifest


def pod(name, phase="Running", **spec):
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}], **spec},
        "status": {"phase": phase},
    }


def half(name, amount):
    counters = [{"counterSet": "gpu-0", "counters": {"slices": {"value": str(amount)}}}]
    return gpu(0, consumesCounters=counters) | {"name": name}


def cut(name, held_generation=1):
    """The slices of a GPU that is whole or two halves."""
    shared = slice_of(name, [], name=f"{name}-counters", generation=held_generation, count=2)
    del shared["spec"]["devices"]
    shared["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    devices = [half("whole", 2), half("half-a", 1), half("half-b", 1)]
    return [shared, slice_of(name, devices, generation=held_generation, count=2)]


def rule(name, **selector):
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


def cluster_named(name):
    gateway = FakeGateway(name=name)
    things = [
        (NAMESPACE, {"metadata": {"name": "vision"}}),
        (NODE, node("node-a")),
        (NODE, node("node-b")),
        (RESOURCE_SLICE, slice_of("node-a", [gpu(0), gpu(1, allowMultipleAllocations=True)])),
        *((RESOURCE_SLICE, one) for one in cut("node-b")),
        (DEVICE_CLASS, device_class()),
        (RULE, rule("drain", pool="node-a", device="gpu-0")),
        (RESOURCE_CLAIM, resource_claim("mine", "gpu-0")),
        (RESOURCE_CLAIM, resource_claim("shared", "gpu-1")),
        (RESOURCE_CLAIM, resource_claim("small", "half-a", pool="node-b")),
        (
            RESOURCE_CLAIM_TEMPLATE,
            {"metadata": {"name": "batch", "namespace": "default"}, "spec": {"spec": {}}},
        ),
        (POD, pod("train")),
    ]
    for kind, manifest in things:
        gateway.put(kind, named(kind, manifest))
    return gateway


@pytest.fixture
def fra_1(db):
    return cluster_named("fra-1")


@pytest.fixture
def both(fra_1):
    found = []
    for gateway in (fra_1, cluster_named("ber-1")):
        name = "fra-1" if gateway is fra_1 else "ber-1"
        cluster = Cluster.objects.create(name=name, uid=gateway.uid, credentials=b"")
        sync_once(cluster, gateway)
        cluster.refresh_from_db()
        found.append(cluster)
    return found


def everything(cluster):
    """Every row of the mirror of a cluster, with every column."""
    rows = {
        model.__name__: list(model._default_manager.filter(cluster=cluster).order_by("pk").values())
        for model in (*MODELS.values(), Device, ObjectEvent, Freshness)
    }
    return rows | {"Cluster": Cluster.objects.filter(pk=cluster.pk).values().get()}


def change_everything(gateway):
    """Something new, changed and gone of every kind."""
    gateway.put(NAMESPACE, {"metadata": {"name": "vision", "labels": {"gpu": "yes"}}})
    gateway.remove(NODE, "node-b")
    gateway.put(NODE, node("node-a", ready=False))
    gateway.put(DEVICE_CLASS, device_class("any"))
    gateway.remove(DEVICE_CLASS, "gpu.nvidia.com")
    gateway.put(
        RESOURCE_SLICE,
        slice_of("node-a", [gpu(1, allowMultipleAllocations=True), gpu(2)], generation=2),
    )
    gateway.remove(RULE, "drain")
    gateway.put(RULE, rule("window", pool="node-b"))
    gateway.remove(RESOURCE_CLAIM, "mine", namespace="default")
    gateway.put(RESOURCE_CLAIM, resource_claim("shared"))
    gateway.put(RESOURCE_CLAIM, resource_claim("small", "half-b", pool="node-b"))
    gateway.put(RESOURCE_CLAIM, resource_claim("late", "gpu-2"))
    gateway.remove(RESOURCE_CLAIM_TEMPLATE, "batch", namespace="default")
    gateway.remove(POD, "train", namespace="default")


def differences(before, after):
    return [kind for kind in before if before[kind] != after[kind]]


@pytest.mark.parametrize("how", ["listed", "watched"])
def test_what_happens_in_one_cluster_leaves_its_twin_as_it_was(both, fra_1, how):
    fra, ber = both
    before, own = everything(ber), everything(fra)
    change_everything(fra_1)
    for kind in mirrored_kinds(fra):
        lease = take(fra.pk, kind.plural)
        if how == "listed":
            list_all(lease, fra_1, kind)
        else:
            version = Freshness.objects.get(cluster=fra, resource=kind.plural).resource_version
            follow(lease, fra_1, kind, version=version, seconds=1)
        lease.drop()
    assert differences(before, everything(ber)) == []
    assert differences(own, everything(fra)) == list(own)
    devices = Device.objects.present().with_state().filter(cluster=fra).order_by("pool", "name")
    columns = ("pool", "name", "state", "held_by__name")
    assert list(devices.values_list(*columns)) == [
        ("node-a", "gpu-1", "not-ready", None),
        ("node-a", "gpu-2", "in-use", "late"),
        ("node-b", "half-a", "tainted", None),
        ("node-b", "half-b", "in-use", "small"),
        ("node-b", "whole", "tainted", None),
    ]
    blocked = Device.objects.filter(cluster=fra, blocked=True, gone_at=None).values_list("name", flat=True)
    assert list(blocked) == ["whole"]
    classes = Device.objects.filter(cluster=fra, gone_at=None).values_list("classes", flat=True)
    assert set(map(tuple, classes)) == {("any",)}
    nodes = Device.objects.filter(cluster=fra, gone_at=None).values_list("pool", "node__name").distinct()
    assert set(nodes) == {("node-a", "node-a"), ("node-b", None)}


def test_an_identity_that_is_lost_halts_one_cluster_only(both, fra_1):
    fra, ber = both
    fra_1._objects["namespaces", "", "kube-system"]["metadata"]["uid"] = "another"
    with pytest.raises(Exception, match="another cluster"):
        list_all(take(fra.pk, "nodes"), fra_1, mirrored_kind(fra, "nodes"))
    fra.refresh_from_db()
    ber.refresh_from_db()
    assert fra.halt_reason == (
        "The credentials of fra-1 lead to another cluster: its kube-system namespace has UID another instead "
        f"of {fra.uid}. The sync is halted until the credentials are fixed."
    )
    assert ber.halt_reason == ""
    Cluster.objects.update(halt_reason="stopped")
    fra_1._objects["namespaces", "", "kube-system"]["metadata"]["uid"] = fra_1.uid
    list_all(take(fra.pk, "pods"), fra_1, mirrored_kind(fra, "pods"))
    assert dict(Cluster.objects.values_list("name", "halt_reason")) == {"fra-1": "", "ber-1": "stopped"}


def test_an_inspection_records_what_one_cluster_is_and_forgets_only_its_own_old_kinds(both, fra_1):
    fra, ber = both
    Cluster.objects.update(version="v1.0.0", discovery={}, simulated=True, missing=["x"], checked_at=None)
    for cluster in both:
        Freshness.objects.create(cluster=cluster, resource="widgets")
    before = everything(ber)
    fra_1.denied = {("list", "nodes"), ("watch", "pods"), ("list", "events"), ("watch", "events")}
    fra.refresh_from_db()
    started = timezone.now()
    inspect(fra, fra_1)
    assert differences(before, everything(ber)) == []
    stored = Cluster.objects.get(pk=fra.pk)
    for row in (fra, stored):
        assert (row.version, row.simulated, row.missing) == (
            "v1.37.1",
            False,
            ["list nodes", "watch pods", "list events"],
        )
        assert row.discovery["taint_rules"] == "v1"
        assert row.discovery["kinds"] == sorted(row.discovery["kinds"])
        assert "resource.k8s.io/v1/resourceslices" in row.discovery["kinds"]
    assert stored.checked_at is not None
    assert stored.checked_at > started
    assert set(Freshness.objects.filter(cluster=fra).values_list("resource", flat=True)) == set(MODELS)


def test_a_cluster_without_taint_rules_is_inspected_and_asked_for_all_the_rest(both, fra_1, monkeypatch):
    fra, _ = both
    discover = fra_1.discover
    monkeypatch.setattr(
        fra_1, "discover", lambda: discover().__class__("v1.34.1", (1, 34), None, frozenset(), simulated=True)
    )
    inspect(fra, fra_1)
    fra.refresh_from_db()
    assert (fra.version, fra.discovery, fra.simulated) == (
        "v1.34.1",
        {"taint_rules": None, "kinds": []},
        True,
    )
    kept = set(Freshness.objects.filter(cluster=fra).values_list("resource", flat=True))
    assert kept == set(MODELS) - {"devicetaintrules"}
