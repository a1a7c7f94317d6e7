"""Whole rows: every column that a change of an object writes, and those that it must leave alone."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from cluster.protocol import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE_VERSIONS,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Event,
)
from dra.price_facts import labels_key
from inventory.models import (
    Cluster,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Namespace,
    Node,
    ObjectEvent,
    Ownership,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from inventory.sync.list_watch import apply_events, list_all, sync_once
from inventory.sync.session import take
from tests.inventory.conftest import DRIVER, device_class, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db
RULE = DEVICE_TAINT_RULE_VERSIONS[0]
BORN, BORN_AT = "2026-11-20T10:00:00Z", datetime(2026, 11, 20, 10, tzinfo=UTC)
HELD, HELD_AT = "2026-11-20T11:30:00Z", datetime(2026, 11, 20, 11, 30, tzinfo=UTC)
LEFT, LEFT_AT = "2026-11-21T12:45:00Z", datetime(2026, 11, 21, 12, 45, tzinfo=UTC)
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
LABELS = {"gpu.dragoman.dev/claim": "42", "team": "vision"}


def metadata(name, uid, **more):
    return {"name": name, "uid": uid, "creationTimestamp": BORN, "labels": LABELS, **more}


def inside(name, uid, **more):
    return metadata(name, uid, namespace="default", **more)


ALLOCATION = {"allocationTimestamp": HELD, "devices": {"results": []}}
CLAIM_SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
SPEC_OF_POD = {
    "nodeName": "node-a",
    "resourceClaims": [{"name": "a", "resourceClaimName": "mine"}, {"name": "b"}],
    "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
}
STATUS_OF_POD = {
    "phase": "Pending",
    "conditions": [
        {"type": "Ready", "status": "False", "message": "not this one"},
        {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"},
    ],
}

OBJECTS = [
    (NAMESPACE, Namespace, {"metadata": metadata("vision", "u1")}, {}),
    (
        NODE,
        Node,
        {
            "metadata": metadata("node-x", "u2"),
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True"},
                ]
            },
        },
        {
            "ready": True,
            "unschedulable": True,
            "node_pool": "",
            "plugin_devices": {},
            "labels_key": labels_key(LABELS, "node-x"),
        },
    ),
    (
        DEVICE_CLASS,
        DeviceClass,
        {"metadata": metadata("c", "u3"), "spec": {"extendedResourceName": "nvidia.com/gpu"}},
        {"extended_resource": "nvidia.com/gpu"},
    ),
    (
        RESOURCE_SLICE,
        ResourceSlice,
        slice_of("node-x", [], generation=7, count=3) | {"metadata": metadata("s", "u4")},
        {
            "driver": DRIVER,
            "pool": "node-x",
            "generation": 7,
            "pool_slices": 3,
            "node_name": "node-x",
        },
    ),
    (
        RULE,
        DeviceTaintRule,
        {
            "metadata": metadata("r", "u5"),
            "spec": {"deviceSelector": {"pool": "nope"}, "taint": {"key": "k", "effect": "None"}},
        },
        {},
    ),
    (
        RESOURCE_CLAIM,
        ResourceClaim,
        {
            "metadata": inside("mine", "u6", deletionTimestamp=LEFT, finalizers=["test/keep"]),
            "spec": CLAIM_SPEC,
            "status": {"allocation": ALLOCATION},
        },
        {
            "namespace": "default",
            "state": "deleted,allocated",
            "origin": "portal",
            "owner": "42",
            "ownership": Ownership.UNMANAGED,
            "deleting_since": LEFT_AT,
            "allocated_at": HELD_AT,
        },
    ),
    (
        RESOURCE_CLAIM_TEMPLATE,
        ResourceClaimTemplate,
        {"metadata": inside("batch", "u7"), "spec": {"spec": CLAIM_SPEC}},
        {"namespace": "default", "owner": "42", "ownership": Ownership.UNMANAGED},
    ),
    (
        POD,
        Pod,
        {
            "metadata": inside("train", "u8", deletionTimestamp=LEFT, finalizers=["test/keep"]),
            "spec": SPEC_OF_POD,
            "status": STATUS_OF_POD,
        },
        {
            "namespace": "default",
            "node_name": "node-a",
            "phase": "Pending",
            "message": "0/2 nodes are available",
            "claims": ["mine"],
            "templates": [],
            "extended": {"nvidia.com/gpu": 2},
            "deleting_since": LEFT_AT,
            "events_at": None,
        },
    ),
]


def row_of(model, uid):
    row = model._default_manager.filter(uid=uid).values().get()
    return {name: value for name, value in row.items() if name not in ("id", "raw")}


@pytest.mark.parametrize(
    ("kind", "model", "manifest", "own"), OBJECTS, ids=[kind.plural for kind, *_ in OBJECTS]
)
@pytest.mark.parametrize("how", ["listed", "watched"])
def test_object_fills_every_column_and_gets_gone_at(mirrored, fake, kind, model, manifest, own, how):
    uid = manifest["metadata"]["uid"]
    with time_machine.travel(NOW, tick=False) as clock:
        stored = fake.put(kind, manifest)
        version = stored["metadata"]["resourceVersion"]
        lease = take(mirrored.pk, kind.plural)
        if how == "listed":
            list_all(lease, fake, kind)
        else:
            apply_events(lease, kind, [Event("ADDED", stored, version)], version=version)
        expected = {
            "cluster_id": mirrored.pk,
            "uid": uid,
            "name": manifest["metadata"]["name"],
            "labels": LABELS,
            "resource_version": version,
            "created_at": BORN_AT,
            "seen_at": NOW,
            "gone_at": None,
            "revision": mirrored.revision + 1,
        } | own
        assert row_of(model, uid) == expected

        clock.shift(timedelta(minutes=10))
        revision = Cluster.objects.get().revision
        later = NOW + timedelta(minutes=10)
        fake.remove(kind, manifest["metadata"]["name"], namespace=manifest["metadata"].get("namespace"))
        if how == "listed":
            list_all(lease, fake, kind)
        else:
            gone = str(int(version) + 1)
            apply_events(lease, kind, [Event("DELETED", stored, gone)], version=gone)
            expected["resource_version"] = gone
        expected |= {"seen_at": later, "gone_at": later, "revision": revision + 1}
        assert row_of(model, uid) == expected


def test_an_object_that_changes_has_its_row_replaced_with_the_revision_of_the_change(mirrored, fake):
    row = Node.objects.get(name="node-a")
    fake.put(NODE, node("node-a", ready=False) | {"metadata": {"name": "node-a", "labels": {"zone": "b"}}})
    with time_machine.travel(NOW, tick=False):
        list_all(take(mirrored.pk, "nodes"), fake, NODE)
    after = Node.objects.get(pk=row.pk)
    assert (after.ready, after.labels, after.seen_at, after.revision) == (
        False,
        {"zone": "b"},
        NOW,
        mirrored.revision + 1,
    )
    untouched = Node.objects.get(name="node-b")
    assert untouched.revision < mirrored.revision + 1
    assert untouched.seen_at != NOW


def test_a_listing_without_news_writes_no_row_and_no_line_of_history(mirrored, fake):
    before = list(Node.objects.order_by("pk").values())
    list_all(take(mirrored.pk, "nodes"), fake, NODE)
    assert list(Node.objects.order_by("pk").values()) == before
    assert not ObjectEvent.objects.exists()


def history(**wanted):
    found = ObjectEvent.objects.filter(**wanted).order_by("pk")
    return list(found.values_list("kind", "name", "uid", "change", "detail"))


def test_history_starts_after_the_first_listing(fra, fake):
    sync_once(fra, fake)
    assert history() == []
    uids = {row.name: row.uid for row in Node.objects.all()}
    fake.put(NODE, node("node-a", ready=False, unschedulable=True))
    made = fake.put(NODE, node("node-c"))
    fake.remove(NODE, "node-b")
    lease = take(fra.pk, "nodes")
    list_all(lease, fake, NODE)
    assert history(kind="Node") == [
        (
            "Node",
            "node-a",
            uids["node-a"],
            "changed",
            {"ready": [True, False], "unschedulable": [False, True]},
        ),
        ("Node", "node-c", made["metadata"]["uid"], "appeared", {}),
        ("Node", "node-b", uids["node-b"], "gone", {}),
    ]


def test_irrelevant_node_change_is_not_in_the_history(mirrored, fake):
    fake.put(NODE, node("node-a", podCIDR="10.0.0.0/24"))
    list_all(take(mirrored.pk, "nodes"), fake, NODE)
    assert Node.objects.get(name="node-a").raw["spec"] == {"podCIDR": "10.0.0.0/24"}
    assert history() == []


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (DEVICE_CLASS, device_class("x"), device_class("x", kind="mig")),
        (
            RULE,
            {"metadata": {"name": "x"}, "spec": {"taint": {"key": "a", "effect": "None"}}},
            {"metadata": {"name": "x"}, "spec": {"taint": {"key": "b", "effect": "None"}}},
        ),
    ],
)
def test_history_of_classes_and_rules_shows_the_spec_before_and_after(mirrored, fake, kind, first, second):
    lease = take(mirrored.pk, kind.plural)
    list_all(lease, fake, kind)
    uid = fake.put(kind, first)["metadata"]["uid"]
    list_all(lease, fake, kind)
    fake.put(kind, second)
    list_all(lease, fake, kind)
    relabelled = {**second, "metadata": {"name": "x", "labels": {"a": "b"}}}
    fake.put(kind, relabelled)
    list_all(lease, fake, kind)
    fake.remove(kind, "x")
    list_all(lease, fake, kind)
    assert history(kind=kind.kind) == [
        (kind.kind, "x", uid, "appeared", {}),
        (kind.kind, "x", uid, "changed", {"spec": [first["spec"], second["spec"]]}),
        (kind.kind, "x", uid, "gone", {}),
    ]


def test_pods_claims_and_slices_leave_no_lines_of_history_of_their_own(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0), gpu(1)], generation=2))
    for plural in ("resourceclaims", "resourceslices"):
        run_session(plural)
    fake.remove(RESOURCE_CLAIM, "mine", namespace="default")
    run_session("resourceclaims")
    assert history() == []


def test_an_object_deleted_before_it_was_seen_leaves_a_row_that_is_gone(mirrored, fake):
    lease = take(mirrored.pk, "resourceclaims")
    unseen = resource_claim("short", uid="u-short", resourceVersion="800", creationTimestamp=BORN)
    with time_machine.travel(NOW, tick=False):
        apply_events(lease, RESOURCE_CLAIM, [Event("DELETED", unseen, "900")], version="900")
    assert row_of(ResourceClaim, "u-short") == {
        "cluster_id": mirrored.pk,
        "uid": "u-short",
        "name": "short",
        "labels": {},
        "resource_version": "800",
        "created_at": BORN_AT,
        "seen_at": NOW,
        "gone_at": NOW,
        "revision": mirrored.revision + 1,
        "namespace": "default",
        "state": "pending",
        "origin": "foreign",
        "owner": "",
        "ownership": Ownership.NOT_COMPARED,
        "deleting_since": None,
        "allocated_at": None,
    }


def test_deleted_pod_without_claims_has_no_row(mirrored, fake):
    lease = take(mirrored.pk, "pods")
    web = {"metadata": inside("web", "u-web", resourceVersion="800"), "spec": {}, "status": {}}
    train = {"metadata": inside("train", "u-t", resourceVersion="801"), "spec": SPEC_OF_POD, "status": {}}
    events = [Event("DELETED", web, "900"), Event("DELETED", train, "901"), Event("ADDED", web, "899")]
    apply_events(lease, POD, events, version="901")
    assert list(Pod.objects.values_list("name", flat=True)) == ["train"]


@pytest.mark.parametrize(("deleted", "later"), [("900", "901"), ("", "899"), ("abc", "abd")])
def test_nothing_follows_the_deletion_of_an_object_in_its_batch(mirrored, fake, deleted, later):
    """A uid never comes back, whatever version an event claims to have."""
    lease = take(mirrored.pk, "nodes")
    gone = fake.get(NODE, "node-a")
    changed = gone | {"metadata": gone["metadata"] | {"resourceVersion": later}}
    apply_events(
        lease, NODE, [Event("DELETED", gone, deleted), Event("MODIFIED", changed, later)], version="999"
    )
    assert Node.objects.filter(gone_at=None, name="node-a").count() == 0


def test_a_deletion_keeps_the_higher_version_of_the_object(mirrored, fake):
    """So an event of before that arrives late is still known to be old."""
    lease = take(mirrored.pk, "nodes")
    old = {name: fake.get(NODE, name) for name in ("node-a", "node-b")}
    Node.objects.filter(name="node-b").update(resource_version="9000")
    events = [Event("DELETED", old["node-a"], "5000"), Event("DELETED", old["node-b"], "5001")]
    apply_events(lease, NODE, events, version="5001")
    assert list(Node.objects.order_by("name").values_list("name", "resource_version")) == [
        ("node-a", "5000"),
        ("node-b", "9000"),
    ]


def test_many_objects_that_go_at_once_are_all_closed(mirrored, fake):
    lease, many = take(mirrored.pk, "namespaces"), 1200
    for number in range(many):
        fake.put(NAMESPACE, {"metadata": {"name": f"n{number}", "uid": f"n{number}"}})
    list_all(lease, fake, NAMESPACE)
    for number in range(many):
        fake.remove(NAMESPACE, f"n{number}")
    list_all(lease, fake, NAMESPACE)
    left = Namespace.objects.filter(gone_at=None).order_by("name").values_list("name", flat=True)
    assert list(left) == ["default", "kube-system"]


def test_allocation_without_a_timestamp_begins_when_first_seen(mirrored, fake):
    lease = take(mirrored.pk, "resourceclaims")

    def allocated_at(at, manifest):
        fake.put(RESOURCE_CLAIM, manifest)
        with time_machine.travel(at, tick=False):
            list_all(lease, fake, RESOURCE_CLAIM)
        return ResourceClaim.objects.get(name="mine").allocated_at

    said = resource_claim("mine", "gpu-0")
    said["status"]["allocation"]["allocationTimestamp"] = HELD
    hour = timedelta(hours=1)
    assert allocated_at(NOW, resource_claim("mine")) is None
    assert allocated_at(NOW + hour, resource_claim("mine", "gpu-0")) == NOW + hour
    reserved = resource_claim("mine", "gpu-0", labels={"changed": "yes"})
    assert allocated_at(NOW + 2 * hour, reserved) == NOW + hour
    assert allocated_at(NOW + 3 * hour, said) == HELD_AT
    assert allocated_at(NOW + 4 * hour, resource_claim("mine")) is None


def devices_row(**wanted):
    row = dict(Device.objects.filter(**wanted).values().get())
    del row["id"]
    return row


def test_a_device_fills_every_column_of_its_row(fra, fake):
    taint = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoSchedule"}
    counters = [{"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}}]
    rich = gpu(3, taints=[taint], allowMultipleAllocations=True, consumesCounters=counters)
    rich["attributes"] |= {
        "type": {"string": "mig"},
        "profile": {"string": "1g.10gb"},
        "parentUUID": {"string": "GPU-parent"},
    }
    fake.put(NODE, node("node-x"))
    shared = slice_of("node-x", [], name="counters", count=2)
    del shared["spec"]["devices"]
    shared["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    fake.put(RESOURCE_SLICE, shared)
    fake.put(RESOURCE_SLICE, slice_of("node-x", [rich], name="rich", count=2))
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-3", pool="node-x"))
    fake.put(
        RULE,
        {
            "metadata": {"name": "drain"},
            "spec": {
                "deviceSelector": {"pool": "node-x"},
                "taint": {"key": "maintenance", "effect": "NoExecute"},
            },
        },
    )
    with time_machine.travel(NOW, tick=False):
        sync_once(fra, fake)
    row = devices_row(pool="node-x")
    taints = row.pop("taints")
    assert [(one["key"], one["effect"], one["source"]) for one in taints] == [
        ("gpu.nvidia.com/xid", "NoSchedule", "slice"),
        ("maintenance", "NoExecute", "drain"),
    ]
    assert row == {
        "cluster_id": fra.pk,
        "slice_id": ResourceSlice.objects.get(name="rich").pk,
        "node_id": Node.objects.get(name="node-x").pk,
        "driver": DRIVER,
        "pool": "node-x",
        "name": "gpu-3",
        "node_name": "node-x",
        "product": "NVIDIA H100 80GB HBM3",
        "kind": "mig",
        "partition": "1g.10gb",
        "uuid": "GPU-3",
        "parent_uuid": "GPU-parent",
        "search": "gpu-3 node-x node-x nvidia h100 80gb hbm3 gpu-3 gpu-parent 1g.10gb",
        "memory_bytes": 81559 * 2**20,
        "attributes": rich["attributes"],
        "capacity": rich["capacity"],
        "counters": counters,
        "condition": "unhealthy",
        "shareable": True,
        "blocked": False,
        "pool_complete": True,
        "classes": [],
        "held_by_id": ResourceClaim.objects.get(name="mine").pk,
        "appeared_at": NOW,
        "changed_at": NOW,
        "gone_at": None,
    }


def test_returning_device_keeps_its_row(mirrored, fake):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-1"))
    list_all(take(mirrored.pk, "resourceclaims"), fake, RESOURCE_CLAIM)
    lease = take(mirrored.pk, "resourceslices")
    born = Device.objects.get(pool="node-a", name="gpu-1")
    assert born.held_by.name == "mine"

    def at(hours, *gpus):
        generation = 2 + hours
        fake.put(RESOURCE_SLICE, slice_of("node-a", list(gpus), generation=generation))
        with time_machine.travel(NOW + timedelta(hours=hours), tick=False):
            list_all(lease, fake, RESOURCE_SLICE)
        row = Device.objects.get(pk=born.pk)
        holder = row.held_by.name if row.held_by else None
        return row.product, holder, row.appeared_at, row.changed_at, row.gone_at

    hour = timedelta(hours=1)
    newer = gpu(1, product="NVIDIA H200")
    assert at(0, gpu(0), newer) == ("NVIDIA H200", "mine", born.appeared_at, NOW, None)
    assert at(1, gpu(0), newer) == ("NVIDIA H200", "mine", born.appeared_at, NOW, None)
    gone = NOW + 2 * hour
    assert at(2, gpu(0)) == ("NVIDIA H200", None, born.appeared_at, gone, gone)
    assert at(3, gpu(0)) == ("NVIDIA H200", None, born.appeared_at, gone, gone)
    back = NOW + 4 * hour
    assert at(4, gpu(0), newer) == ("NVIDIA H200", "mine", back, back, None)
    name = f"{DRIVER}/node-a/gpu-1"
    assert history() == [
        (
            "Device",
            name,
            "GPU-1",
            "changed",
            {
                "product": ["NVIDIA H100 80GB HBM3", "NVIDIA H200"],
                "attributes.productName": [{"string": "NVIDIA H100 80GB HBM3"}, {"string": "NVIDIA H200"}],
            },
        ),
        ("Device", name, "GPU-1", "gone", {}),
        ("Device", name, "GPU-1", "appeared", {}),
    ]
    other = Device.objects.get(pool="node-a", name="gpu-0")
    assert other.changed_at == other.appeared_at


def test_derived_columns_are_not_in_the_history(mirrored, fake):
    fake.put(DEVICE_CLASS, device_class("any"))
    with time_machine.travel(NOW, tick=False):
        list_all(take(mirrored.pk, "deviceclasses"), fake, DEVICE_CLASS)
    assert set(Device.objects.values_list("changed_at", flat=True)) == {NOW}
    assert history(kind="Device") == []


def test_a_change_with_the_version_that_is_mirrored_is_no_news(mirrored, fake):
    seen = fake.get(NODE, "node-a")
    seen["spec"] = {"unschedulable": True}
    version = seen["metadata"]["resourceVersion"]
    apply_events(take(mirrored.pk, "nodes"), NODE, [Event("MODIFIED", seen, version)], version=version)
    assert Node.objects.get(name="node-a").unschedulable is False
