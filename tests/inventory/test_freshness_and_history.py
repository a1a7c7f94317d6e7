"""How old the mirror is, how long it remembers, and what its figures and its history say."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.conf import settings
from django.utils import timezone
from prometheus_client import CollectorRegistry

from inventory.freshness import COLUMNS, Age, MirrorCollector, ages, is_stale
from inventory.history import (
    MAX_LINES,
    Fact,
    HistoryLine,
    attribute_rows,
    capacity_rows,
    device_history,
    history_line,
    object_history,
    readable_bytes,
    recent_changes,
    value_text,
)
from inventory.models import (
    Cluster,
    Device,
    DeviceClass,
    Freshness,
    Namespace,
    Node,
    ObjectEvent,
    Pod,
    ResourceClaim,
    ResourceSlice,
)
from inventory.states import DeviceState
from inventory.tasks import prune_history

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def cluster(name, **fields):
    return Cluster.objects.create(name=name, uid=name, credentials=b"", **fields)


def fresh(of, resource, ago=None, **fields):
    seen = None if ago is None else NOW - timedelta(minutes=ago)
    return Freshness.objects.create(cluster=of, resource=resource, seen_at=seen, **fields)


def test_the_age_of_a_page_is_that_of_the_oldest_resource_it_shows():
    ber, fra, off = cluster("ber-1"), cluster("fra-1"), cluster("off-1", enabled=False)
    for of in (ber, fra, off):
        fresh(of, "pods", 90, error="not asked for")
    fresh(ber, "nodes", 5, error="first")
    fresh(ber, "resourceslices", 7, error="second")
    fresh(fra, "nodes", 3)
    fresh(fra, "resourceslices", 1, error="third")
    assert ages(("nodes", "resourceslices")) == [
        Age(ber, NOW - timedelta(minutes=7), "first"),
        Age(fra, NOW - timedelta(minutes=3), "third"),
    ]
    assert ages(("nodes",), cluster=fra) == [Age(fra, NOW - timedelta(minutes=3), "")]
    assert ages(("resourceslices",), cluster=off) == [Age(off, None, "")]


def test_each_column_of_a_cluster_with_an_age_is_its_own():
    fra = cluster(
        "fra-1",
        title="Frankfurt",
        simulated=True,
        halt_reason="The cluster has another uid.",
        prometheus_url="http://prometheus:9090",
        metrics_url="http://metrics:8080",
    )
    (age,) = ages(("nodes",))
    assert {name: getattr(age.cluster, name) for name in COLUMNS} == {
        name: getattr(fra, name) for name in COLUMNS
    }


def test_resource_that_was_never_listed_has_no_age():
    fra = cluster("fra-1")
    fresh(fra, "nodes", 3)
    assert ages(("nodes", "pods")) == [Age(fra, None, "")]
    fresh(fra, "pods", None, error="No answer.")
    assert ages(("nodes", "pods")) == [Age(fra, None, "No answer.")]


def test_the_mirror_is_stale_after_the_time_that_is_set():
    with time_machine.travel(NOW, tick=False):
        assert not is_stale(NOW - settings.STALE_AFTER)
        assert is_stale(NOW - settings.STALE_AFTER - timedelta(seconds=1))
        assert is_stale(None)
        fra = cluster("fra-1")
        assert (Age(fra, NOW, "").is_stale, Age(fra, NOW, "failed").why) == (False, "failed")
        fra.halt_reason = "halted"
        assert (Age(fra, NOW, "").is_stale, Age(fra, NOW, "failed").why) == (True, "halted")


def mirrored_row(model, of, name, gone_for, **fields):
    gone = None if gone_for is None else NOW - gone_for
    return model.objects.create(cluster=of, uid=name, name=name, gone_at=gone, **fields)


def test_prune_deletes_only_old_rows():
    fra = cluster("fra-1")
    week, quarter, second = timedelta(days=7), timedelta(days=90), timedelta(seconds=1)
    pool = {"driver": "d", "pool": "p", "generation": 1, "pool_slices": 1}
    inside = {"namespace": "vision"}
    for model, limit, more in (
        (Node, quarter, {}),
        (Namespace, quarter, {}),
        (DeviceClass, quarter, {}),
        (Pod, week, inside),
        (ResourceClaim, week, inside),
        (ResourceSlice, week, pool),
    ):
        for name, gone_for in (("present", None), ("kept", limit), ("forgotten", limit + second)):
            mirrored_row(model, fra, name, gone_for, **more)
    used = mirrored_row(ResourceSlice, fra, "stood on", week + second, **pool)
    for name, gone_for in (("present", None), ("kept", quarter), ("forgotten", quarter + second)):
        gone = None if gone_for is None else NOW - gone_for
        Device.objects.create(cluster=fra, slice=used, driver="d", pool="p", name=name, gone_at=gone)
    for name, ago in (("kept", quarter), ("forgotten", quarter + second)):
        ObjectEvent.objects.create(cluster=fra, kind="Node", name=name, change="gone", at=NOW - ago)
    with time_machine.travel(NOW, tick=False):
        assert prune_history() == 8
    left = {
        model.__name__: sorted(model.objects.values_list("name", flat=True))
        for model in (Node, Namespace, DeviceClass, Pod, ResourceClaim, ResourceSlice, Device, ObjectEvent)
    }
    both = ["kept", "present"]
    assert left == {
        "Node": both,
        "Namespace": both,
        "DeviceClass": both,
        "Pod": both,
        "ResourceClaim": both,
        "ResourceSlice": [*both, "stood on"],
        "Device": both,
        "ObjectEvent": ["kept"],
    }


def test_metrics_tell_age_failures_halts_and_devices_of_clusters_that_are_followed(mirrored):
    off = cluster("off-1", enabled=False, halt_reason="x")
    fresh(off, "nodes", 3)
    ber = cluster("ber-1", halt_reason="Another cluster answers.")
    Freshness.objects.filter(cluster=mirrored).exclude(resource="nodes").delete()
    Freshness.objects.update(seen_at=NOW - timedelta(seconds=40), listed_at=NOW - timedelta(seconds=90))
    Freshness.objects.filter(cluster=mirrored).update(failures=4)
    Freshness.objects.create(cluster=ber, resource="pods")
    gone = Device.objects.get(pool="node-b")
    Device.objects.filter(pk=gone.pk).update(gone_at=NOW)
    registry = CollectorRegistry()
    registry.register(MirrorCollector())
    with time_machine.travel(NOW, tick=False):
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in registry.collect()
            for sample in metric.samples
        }
    never = float("inf")
    expected: dict[tuple[str, ...], float] = {
        ("dragoman_sync_age_seconds", "fra-1", "nodes"): 40,
        ("dragoman_sync_age_seconds", "ber-1", "pods"): never,
        ("dragoman_sync_listing_age_seconds", "fra-1", "nodes"): 90,
        ("dragoman_sync_listing_age_seconds", "ber-1", "pods"): never,
        ("dragoman_sync_failures", "fra-1", "nodes"): 4,
        ("dragoman_sync_failures", "ber-1", "pods"): 0,
        ("dragoman_cluster_halted", "fra-1"): 0,
        ("dragoman_cluster_halted", "ber-1"): 1,
        **{
            ("dragoman_devices", name, state): 2 if (name, state) == ("fra-1", "free") else 0
            for name in ("fra-1", "ber-1", off.name)
            for state in DeviceState.values
        },
        **{
            ("dragoman_held_devices", name, use): 0
            for name in ("fra-1", "ber-1", off.name)
            for use in ("idle", "no-telemetry")
        },
    }
    assert found == expected
    assert {type(value) for value in found.values()} <= {float, int, Decimal}


WORST = {
    "held_by": "claim",
    "condition": "unhealthy",
    "pool_complete": False,
    "blocked": True,
    "ready": False,
}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, DeviceState.FREE),
        ({"blocked": True}, DeviceState.BLOCKED),
        ({"blocked": True, "ready": False}, DeviceState.NOT_READY),
        ({"blocked": True, "unschedulable": True}, DeviceState.CORDONED),
        ({"blocked": True, "ready": False, "condition": "tainted"}, DeviceState.TAINTED),
        (
            {"blocked": True, "ready": False, "condition": "tainted", "pool_complete": False},
            DeviceState.INCOMPLETE,
        ),
        (
            {"blocked": True, "ready": False, "condition": "unhealthy", "pool_complete": False},
            DeviceState.UNHEALTHY,
        ),
        (WORST, DeviceState.IN_USE),
    ],
)
def test_first_matching_condition_is_the_device_state(mirrored, facts, state):
    facts = dict(facts)
    if facts.pop("held_by", None):
        facts["held_by"] = mirrored_row(ResourceClaim, mirrored, "mine", None, namespace="vision")
    for name in ("ready", "unschedulable"):
        if name in facts:
            Node.objects.filter(name="node-b").update(**{name: facts.pop(name)})
    Device.objects.filter(pool="node-b").update(**facts)
    assert Device.objects.with_state().get(pool="node-b").state == state
    expected = {(DeviceState.FREE, 2), (state, 1)} if state != DeviceState.FREE else {(DeviceState.FREE, 3)}
    assert set(Device.objects.count_by("state")) == expected


def told(of, name, change="changed", minutes=0, kind="Device", **detail):
    at = NOW + timedelta(minutes=minutes)
    return ObjectEvent.objects.create(cluster=of, kind=kind, name=name, change=change, at=at, detail=detail)


def test_the_history_of_a_device_is_its_own_and_newest_first(mirrored):
    device = Device.objects.get(pool="node-b")
    name = "gpu.nvidia.com/node-b/gpu-0"
    other = cluster("ber-1")
    told(other, name, minutes=9)
    told(mirrored, "gpu.nvidia.com/node-a/gpu-0", minutes=8)
    told(mirrored, name, minutes=7, kind="Node")
    told(mirrored, name, minutes=1, product=["A", "B"], memory_bytes=[None, 5])
    told(mirrored, name, "gone", minutes=2)
    since = HistoryLine(device.appeared_at, "held", "First seen by this portal", [])
    later = [
        HistoryLine(NOW + timedelta(minutes=2), "wait", "Gone", []),
        HistoryLine(
            NOW + timedelta(minutes=1), "work", "Changed", ["product: A → B", "memory_bytes: none → 5"]
        ),
    ]
    assert device_history(device) == [*later, since]
    assert object_history(mirrored, "Device", name) == later
    told(mirrored, name, "appeared", minutes=3)
    assert device_history(device) == [HistoryLine(NOW + timedelta(minutes=3), "held", "Appeared", []), *later]


def test_a_long_history_is_cut_at_thirty_lines(mirrored):
    device = Device.objects.get(pool="node-b")
    name = "gpu.nvidia.com/node-b/gpu-0"
    for minutes in range(MAX_LINES - 1):
        told(mirrored, name, minutes=minutes)
    assert [line.change for line in device_history(device)] == ["Changed"] * 29 + [
        "First seen by this portal"
    ]
    for minutes in range(100, 102):
        told(mirrored, name, minutes=minutes)
    lines = device_history(device)
    assert [line.change for line in lines] == ["Changed"] * 30
    assert lines[-1].at == NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        ("", "none"),
        ([], "none"),
        ({}, "none"),
        (0, "0"),
        (False, "false"),
        (True, "true"),
        ({"version": "580.95.5"}, "580.95.5"),
        ({"bool": True}, "true"),
        ({"strings": ["a", "b"]}, "a, b"),
        ([{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "l", "effect": "None"}],
         "k (NoSchedule), l (None)"),
    ],
)  # fmt: skip
def test_history_values_are_readable(value, text):
    assert value_text(value) == text
    event = ObjectEvent(change="changed", detail={"attributes.x": [value, "new"]}, at=NOW)
    assert history_line(event).details == [f"x: {text} → new"]


def tainted(pool, device, *, seconds, kind="Device", effect="NoSchedule"):
    taints = [{"key": "maintenance", "effect": effect}]
    return ObjectEvent(
        kind=kind,
        name=f"gpu.nvidia.com/{pool}/{device}",
        change="changed",
        detail={"taints": [[], taints]},
        at=NOW - timedelta(seconds=seconds),
    )


def test_devices_of_a_pool_that_change_alike_are_one_recent_change():
    events = [
        tainted("node-a", "gpu-0", seconds=0),
        tainted("node-b", "gpu-0", seconds=1),
        tainted("node-a", "gpu-1", seconds=2),
        tainted("node-a", "gpu-2", seconds=3, effect="NoExecute"),
        tainted("node-a", "gpu-3", seconds=61),
        tainted("node-a", "gpu-4", seconds=62, kind="Node"),
    ]
    changes = recent_changes(events)
    assert [change.what for change in changes] == [
        "2 devices of gpu.nvidia.com/node-a",
        "Device gpu.nvidia.com/node-b/gpu-0",
        "Device gpu.nvidia.com/node-a/gpu-2",
        "Device gpu.nvidia.com/node-a/gpu-3",
        "Node gpu.nvidia.com/node-a/gpu-4",
    ]
    assert changes[0].line.details == ["taints: none → maintenance (NoSchedule)"]


def test_devices_that_came_and_devices_that_went_are_two_recent_changes():
    events = [
        ObjectEvent(
            kind="Device", name=f"gpu.nvidia.com/node-a/gpu-{number}", change=change, detail={}, at=NOW
        )
        for number, change in enumerate(("appeared", "gone", "appeared"))
    ]
    assert [(change.line.change, change.what) for change in recent_changes(events)] == [
        ("Appeared", "2 devices of gpu.nvidia.com/node-a"),
        ("Gone", "Device gpu.nvidia.com/node-a/gpu-1"),
    ]


def test_attributes_and_capacities_are_rows_in_order_of_their_names():
    attributes = {
        "gpu.nvidia.com/type": {"string": "gpu"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
        "index": {"int": 0},
        "ecc": {"bool": False},
        "numa": {"ints": [0, 1]},
        "plain": "text",
    }
    assert attribute_rows("gpu.nvidia.com", attributes) == [
        Fact("ecc", "false"),
        Fact("type", "gpu"),
        Fact("index", "0"),
        Fact("numa", "0, 1"),
        Fact("plain", "text"),
        Fact("resource.kubernetes.io/pcieRoot", "pci0000:01"),
    ]
    capacity = {"memory": {"value": "80Gi"}, "copyEngines": {"value": "7"}, "bare": "2Gi", "empty": {}}
    assert capacity_rows("gpu.nvidia.com", capacity) == [
        Fact("bare", "2Gi", "2 GiB"),
        Fact("copyEngines", "7", ""),
        Fact("empty", "", ""),
        Fact("memory", "80Gi", "80 GiB"),
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("1Gi", "1 GiB"), ("1073741823", ""), ("81559Mi", "79.6 GiB"), ("nonsense", ""), ("-2Gi", "")],
)
def test_bytes_are_shown_in_gibibytes_from_one_on(text, plain):
    assert readable_bytes(text) == plain


def test_a_device_that_was_seen_a_second_ago_is_not_stale(mirrored):
    assert [age.is_stale for age in ages(("nodes", "resourceslices"))] == [False]
    Freshness.objects.filter(resource="nodes").update(seen_at=timezone.now() - timedelta(days=1))
    assert [age.is_stale for age in ages(("nodes", "resourceslices"))] == [True]
    assert [age.is_stale for age in ages(("resourceslices",))] == [False]
