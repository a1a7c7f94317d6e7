"""Devices derived from more than one pool, driver, claim or rule: only what is meant changes, all of it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import time_machine
from django.utils import timezone

from cluster.protocol import DEVICE_TAINT_RULE_VERSIONS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from dra.pools import gather_pools
from dra.price_facts import labels_key
from inventory.models import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    Node,
    ObjectEvent,
    Pod,
    ResourceClaim,
    ResourceSlice,
)
from inventory.signals import mirror_changed
from inventory.sync import derive, pools, session
from inventory.sync.columns import columns, instant, requested_resources, trim, uses_claims
from inventory.sync.list_watch import list_all, sync_once
from inventory.sync.pools import class_book, condition, pools_meant, refresh_pools
from inventory.sync.rows import writing
from inventory.sync.session import take
from tests.inventory.conftest import DRIVER, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db
RULE = DEVICE_TAINT_RULE_VERSIONS[0]
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def of_driver(driver, name, devices, **options):
    made = slice_of(name, devices, name=f"{name}-{driver}", **options)
    made["spec"]["driver"] = driver
    return made


def rule(name, *, key="maintenance", effect="NoSchedule", **selector):
    taint = {"key": key, "effect": effect}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


@pytest.fixture
def two_drivers(mirrored, fake, run_session):
    """node-a publishes a pool of the same name by another driver, with a device of the same name."""
    fake.put(RESOURCE_SLICE, of_driver("other", "node-a", [gpu(0), gpu(1)]))
    run_session("resourceslices")


def held():
    return {
        (device.driver, device.pool, device.name): device.held_by.name
        for device in Device.objects.exclude(held_by=None).select_related("held_by")
    }


def claim_on(name, *devices, driver=DRIVER, **more):
    """devices as "pool/device"."""
    made = resource_claim(name, **more)
    results = [
        {"request": "gpu", "driver": driver, "pool": one.split("/")[0], "device": one.split("/")[1]}
        for one in devices
    ]
    made["status"] = {"allocation": {"devices": {"results": results}}}
    return made


def test_a_claim_holds_the_device_of_its_driver_and_pool_and_no_other(two_drivers, fake, run_session):
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/gpu-1", "node-b/gpu-0"))
    fake.put(RESOURCE_CLAIM, claim_on("b", "node-a/gpu-0", driver="other"))
    run_session("resourceclaims")
    expected = {
        (DRIVER, "node-a", "gpu-1"): "a",
        (DRIVER, "node-b", "gpu-0"): "a",
        ("other", "node-a", "gpu-0"): "b",
    }
    assert held() == expected
    fake.remove(RESOURCE_CLAIM, "b", namespace="default")
    run_session("resourceclaims")
    expected.pop(("other", "node-a", "gpu-0"))
    assert held() == expected


def test_removed_driver_closes_only_its_devices(two_drivers, fake, run_session):
    before = list(Device.objects.filter(driver=DRIVER).order_by("pk").values())
    fake.remove(RESOURCE_SLICE, "node-a-other")
    run_session("resourceslices")
    assert list(Device.objects.filter(driver=DRIVER).order_by("pk").values()) == before
    assert not Device.objects.filter(driver="other", gone_at=None).exists()


def test_two_pools_that_change_in_one_batch_are_updated(mirrored, fake, run_session):
    for pool in ("node-a", "node-b"):
        fake.put(RESOURCE_SLICE, slice_of(pool, [gpu(5)], generation=2))
    run_session("resourceslices")
    present = Device.objects.present().order_by("pool").values_list("pool", "name")
    assert list(present) == [("node-a", "gpu-5"), ("node-b", "gpu-5")]


def test_claims_that_change_in_one_batch_are_all_followed(mirrored, fake, run_session):
    for name, place in (("a", "node-a/gpu-0"), ("b", "node-a/gpu-1"), ("c", "node-b/gpu-0")):
        fake.put(RESOURCE_CLAIM, claim_on(name, place))
    run_session("resourceclaims")
    assert sorted(held().values()) == ["a", "b", "c"]
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-b/gpu-0"))
    fake.put(RESOURCE_CLAIM, resource_claim("b"))
    fake.put(RESOURCE_CLAIM, claim_on("c", "node-a/gpu-0"))
    run_session("resourceclaims")
    assert held() == {(DRIVER, "node-b", "gpu-0"): "a", (DRIVER, "node-a", "gpu-0"): "c"}


def test_older_of_two_claims_on_one_device_is_the_holder(mirrored, fake, run_session):
    """Only after a cluster was damaged: a device that is not shareable is held once."""
    for name in ("z-first", "a-second"):
        fake.put(RESOURCE_CLAIM, claim_on(name, "node-a/gpu-0"))
        run_session("resourceclaims")
    assert held() == {(DRIVER, "node-a", "gpu-0"): "a-second"}
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0, allowMultipleAllocations=True)], generation=2))
    run_session("resourceslices")
    fake.put(RESOURCE_CLAIM, claim_on("c-third", "node-a/gpu-0"))
    run_session("resourceclaims")
    assert held() == {(DRIVER, "node-a", "gpu-0"): "a-second"}
    fake.remove(RESOURCE_CLAIM, "a-second", namespace="default")
    run_session("resourceclaims")
    assert held() == {(DRIVER, "node-a", "gpu-0"): "z-first"}


def test_a_device_that_comes_back_finds_the_oldest_of_its_holders_again(mirrored, fake, run_session):
    shared = gpu(0, allowMultipleAllocations=True)
    for name in ("b", "a"):
        fake.put(RESOURCE_CLAIM, claim_on(name, "node-b/gpu-0"))
        run_session("resourceclaims")
    fake.remove(RESOURCE_SLICE, "node-b-slice")
    run_session("resourceslices")
    assert held() == {}
    ResourceClaim.objects.filter(name="b").update(gone_at=timezone.now())
    fake.put(RESOURCE_SLICE, slice_of("node-b", [shared], generation=2))
    run_session("resourceslices")
    assert held() == {(DRIVER, "node-b", "gpu-0"): "a"}


@pytest.fixture
def heard():
    told = []

    def hear(sender, *, kind, names, **rest):
        told.append((kind, sorted(names)))

    mirror_changed.connect(hear)
    yield told
    mirror_changed.disconnect(hear)


def test_signal_names_devices_held_freed_new_or_gone(
    mirrored, fake, run_session, heard, django_capture_on_commit_callbacks
):
    def follow(plural):
        heard.clear()
        with django_capture_on_commit_callbacks(execute=True):
            run_session(plural)
        return [names for kind, names in heard if kind == "Device"]

    both = [f"{DRIVER}/node-a/gpu-0", f"{DRIVER}/node-a/gpu-1"]
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/gpu-0", "node-a/gpu-1"))
    assert follow("resourceclaims") == [both]
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/gpu-0", "node-a/gpu-1", labels={"x": "y"}))
    assert follow("resourceclaims") == []
    fake.remove(RESOURCE_CLAIM, "a", namespace="default")
    assert follow("resourceclaims") == [both]
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0), gpu(2)], generation=2))
    assert follow("resourceslices") == [[both[1], f"{DRIVER}/node-a/gpu-2"]]


def tainted():
    found = Device.objects.present().exclude(condition="good").order_by("driver", "pool", "name")
    return [(device.driver, device.pool, device.name) for device in found]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"driver": "other"}, [("other", "node-a", "gpu-0"), ("other", "node-a", "gpu-1")]),
        ({"driver": DRIVER, "pool": "node-b"}, [(DRIVER, "node-b", "gpu-0")]),
        ({"driver": "nobody's"}, []),
    ],
)
def test_taint_rule_created_changed_and_deleted(two_drivers, fake, run_session, selector, expected):
    fake.put(RULE, rule("one", **selector))
    fake.put(RULE, rule("two", pool="node-b", key="other"))
    run_session("devicetaintrules")
    everywhere = sorted({*expected, (DRIVER, "node-b", "gpu-0")})
    assert tainted() == everywhere
    fake.put(RULE, rule("one", driver="nobody's"))
    run_session("devicetaintrules")
    assert tainted() == [(DRIVER, "node-b", "gpu-0")]
    fake.remove(RULE, "two")
    run_session("devicetaintrules")
    assert tainted() == []


def test_changed_rule_affects_pools_selected_now_and_before(two_drivers, fake, mirrored):
    fake.put(RULE, rule("one", pool="node-b"))
    lease = take(mirrored.pk, "devicetaintrules")
    list_all(lease, fake, RULE)

    def meant(*specs):
        rules = [
            DeviceTaintRule(name=name, raw={"spec": {"deviceSelector": selector}}) for name, selector in specs
        ]
        with writing(lease) as write:
            return pools_meant(write, rules)

    every = [(DRIVER, "node-a"), (DRIVER, "node-b"), ("other", "node-a")]
    assert meant(("one", None)) == every  # up to Kubernetes 1.37.0
    assert meant(("new", None)) == every
    assert meant(("new", {})) == every
    assert meant(("new", {"device": "gpu-0"})) == every
    assert meant(("new", {"driver": "other"})) == [("other", "node-a")]
    assert meant(("one", {"driver": "other"})) == [(DRIVER, "node-b"), ("other", "node-a")]
    assert meant(("new", {"driver": "other", "pool": "node-b"})) == []
    assert meant(("new", {"pool": "node-b"}), ("more", {"driver": "other"})) == [
        (DRIVER, "node-b"),
        ("other", "node-a"),
    ]
    assert meant() == []


def test_incomplete_pool_keeps_its_devices_unchanged(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, claim_on("mine", "node-a/gpu-0"))
    run_session("resourceclaims")
    before = Device.objects.filter(pool="node-a", name="gpu-0").values().get()
    newer = gpu(0, product="NVIDIA H200")
    fake.put(RESOURCE_SLICE, slice_of("node-a", [newer], name="node-a-new", generation=2, count=2))
    with time_machine.travel(NOW, tick=False):
        run_session("resourceslices")
    after = Device.objects.filter(pool="node-a", name="gpu-0").values().get()
    assert after == before | {"pool_complete": False, "changed_at": NOW}
    told = ObjectEvent.objects.filter(kind="Device", name=f"{DRIVER}/node-a/gpu-0").get()
    assert (told.change, told.detail) == ("changed", {"pool_complete": [True, False]})


def halves(pool, generation=1):
    """A GPU that is whole or two halves, and a device without counters beside it."""

    def taking(name, amount):
        counters = [{"counterSet": "gpu-0", "counters": {"slices": {"value": str(amount)}}}]
        return gpu(0, consumesCounters=counters) | {"name": name}

    shared = slice_of(pool, [], name=f"{pool}-counters", generation=generation, count=2)
    del shared["spec"]["devices"]
    shared["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    devices = [taking("whole", 2), taking("half-a", 1), taking("half-b", 1), gpu(9)]
    return shared, slice_of(pool, devices, generation=generation, count=2)


def blocked():
    found = Device.objects.present().filter(blocked=True).order_by("pool", "name")
    return [f"{device.pool}/{device.name}" for device in found]


def test_partitions_are_blocked_in_their_own_pool_only(mirrored, fake, run_session):
    for pool in ("node-a", "node-b"):
        for one in halves(pool, generation=2):
            fake.put(RESOURCE_SLICE, one)
    run_session("resourceslices")
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/half-a"))
    fake.put(RESOURCE_CLAIM, claim_on("plain", "node-b/gpu-9"))
    run_session("resourceclaims")
    assert blocked() == ["node-a/whole"]
    fake.put(RESOURCE_CLAIM, claim_on("b", "node-b/whole"))
    run_session("resourceclaims")
    assert blocked() == ["node-a/whole", "node-b/half-a", "node-b/half-b"]
    fake.remove(RESOURCE_CLAIM, "b", namespace="default")
    fake.remove(RESOURCE_CLAIM, "a", namespace="default")
    run_session("resourceclaims")
    assert blocked() == []


def test_device_that_takes_no_counters_any_more_is_not_blocked(mirrored, fake, run_session):
    for one in halves("node-a", generation=2):
        fake.put(RESOURCE_SLICE, one)
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/half-a"))
    for resource in ("resourceslices", "resourceclaims"):
        run_session(resource)
    assert blocked() == ["node-a/whole"]
    names = ("whole", "half-a", "half-b")
    alone = [gpu(number) | {"name": name} for number, name in enumerate(names)]
    fake.put(RESOURCE_SLICE, slice_of("node-a", alone, generation=3))
    run_session("resourceslices")
    assert blocked() == []


def test_partitions_listed_after_their_claims_are_blocked_at_once(fra, fake, run_session):
    for one in halves("node-a", generation=2):
        fake.put(RESOURCE_SLICE, one)
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/half-a"))
    sync_once(fra, fake)
    assert blocked() == ["node-a/whole"]
    Device.objects.update(blocked=False)
    list_all(take(fra.pk, "resourceslices"), fake, RESOURCE_SLICE)
    assert blocked() == ["node-a/whole"]


def test_devices_of_a_heartbeat_are_not_joined_and_those_of_a_change_are(
    mirrored, fake, run_session, monkeypatch
):
    joined = []
    refresh = refresh_pools
    monkeypatch.setattr(
        derive, "refresh_pools", lambda *args, **how: joined.append(set(args[1])) or refresh(*args, **how)
    )
    stored = ResourceSlice.objects.get(pool="node-a")
    heartbeat = {"metadata": {**stored.raw["metadata"], "annotations": {"beat": "1"}}}
    fake.put(RESOURCE_SLICE, {**stored.raw, **heartbeat})
    run_session("resourceslices")
    assert joined == []
    assert ResourceSlice.objects.get(pool="node-a").raw["metadata"]["annotations"] == {"beat": "1"}
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0)], name=stored.name))
    run_session("resourceslices")
    assert joined == [{(DRIVER, "node-a")}]


def test_of_a_claim_with_the_same_allocation_no_device_is_looked_up(mirrored, fake, run_session, monkeypatch):
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/gpu-0"))
    run_session("resourceclaims")
    followed = []
    follow = derive.follow_claims
    monkeypatch.setattr(
        derive, "follow_claims", lambda write, claims: followed.append(len(claims)) or follow(write, claims)
    )
    stored = ResourceClaim.objects.get(name="a")
    fake.put(
        RESOURCE_CLAIM, {**stored.raw, "metadata": {**stored.raw["metadata"], "annotations": {"n": "1"}}}
    )
    run_session("resourceclaims")
    assert followed == []
    assert held() == {(DRIVER, "node-a", "gpu-0"): "a"}
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-a/gpu-1"))
    run_session("resourceclaims")
    assert followed == [1]
    assert held() == {(DRIVER, "node-a", "gpu-1"): "a"}


def test_a_first_sync_stores_holders_with_the_devices(fra, fake, monkeypatch):
    fake.put(RESOURCE_SLICE, slice_of("node-z", [gpu(0), gpu(1)]))
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-z/gpu-1"))
    monkeypatch.setattr(derive, "find_holders", lambda *args: None)
    sync_once(fra, fake)
    assert held()[DRIVER, "node-z", "gpu-1"] == "a"
    assert (DRIVER, "node-z", "gpu-0") not in held()


def test_a_claim_that_is_released_while_slices_are_listed_holds_nothing(fra, fake, monkeypatch):
    """Its holders were read before, and its deletion came before the device was there."""
    fake.put(RESOURCE_SLICE, slice_of("node-z", [gpu(0)]))
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-z/gpu-0"))
    read = derive.holders_of_devices
    reads: list[dict[tuple[str, str, str], int]] = []

    def holders_of_devices(write):
        holders = read(write)
        if not reads:
            ResourceClaim.objects.filter(name="a").update(gone_at=timezone.now())
        reads.append(holders)
        return holders

    monkeypatch.setattr(derive, "holders_of_devices", holders_of_devices)
    sync_once(fra, fake)
    assert (DRIVER, "node-z", "gpu-0") in reads[0]
    assert (DRIVER, "node-z", "gpu-0") not in held()


def listed_one_by_one(fake, monkeypatch):
    """Let the gateway send every object on a page of its own."""
    whole = fake.list

    def pages(kind):
        for page in whole(kind):
            for item in page.items or [None]:
                yield replace(page, items=[item] if item else [])

    monkeypatch.setattr(fake, "list", pages)


def test_pools_that_span_pages_of_a_first_listing_are_joined_when_they_are_complete(fra, fake, monkeypatch):
    fake.put(RESOURCE_SLICE, slice_of("node-x", [gpu(0)], name="x-1", count=2))
    fake.put(RESOURCE_SLICE, slice_of("node-x", [gpu(1)], name="x-2", count=2))
    fake.put(RESOURCE_SLICE, slice_of("node-y", [gpu(0), gpu(1)], name="y-1", generation=2))
    fake.put(RESOURCE_SLICE, slice_of("node-y", [gpu(0), gpu(2)], name="y-2", generation=1))
    fake.put(RESOURCE_CLAIM, claim_on("a", "node-x/gpu-1"))
    refreshed = []
    refresh = refresh_pools
    monkeypatch.setattr(
        derive, "refresh_pools", lambda *args, **how: refreshed.extend(args[1]) or refresh(*args, **how)
    )
    listed_one_by_one(fake, monkeypatch)
    sync_once(fra, fake)
    present = Device.objects.present().filter(pool__in=("node-x", "node-y"))
    assert sorted(present.values_list("pool", "name", "pool_complete")) == [
        ("node-x", "gpu-0", True),
        ("node-x", "gpu-1", True),
        ("node-y", "gpu-0", True),
        ("node-y", "gpu-1", True),
    ]
    assert refreshed == [(DRIVER, "node-x"), (DRIVER, "node-y")]  # the others with their page
    assert held() == {(DRIVER, "node-x", "gpu-1"): "a"}
    assert not ObjectEvent.objects.exists()


def test_many_pools_are_joined_in_parts(mirrored, fake, monkeypatch):
    monkeypatch.setattr(derive, "POOLS_AT_ONCE", 2)
    for number in range(5):
        fake.put(RESOURCE_SLICE, slice_of(f"n{number}", [gpu(0)]))
        fake.put(RESOURCE_CLAIM, claim_on(f"c{number}", f"n{number}/gpu-0"))
    for kind in (RESOURCE_CLAIM, RESOURCE_SLICE):
        list_all(take(mirrored.pk, kind.plural), fake, kind)
    assert Device.objects.present().count() == 8
    assert sorted(held().values()) == [f"c{number}" for number in range(5)]


def test_stopping_worker_ends_the_join_between_parts(mirrored, fake, monkeypatch):
    monkeypatch.setattr(derive, "POOLS_AT_ONCE", 1)
    parts = []
    refresh = refresh_pools
    monkeypatch.setattr(
        derive, "refresh_pools", lambda *args, **how: parts.append(args[1]) or refresh(*args, **how)
    )

    def go_on():
        if parts:
            raise session.Stopping

    monkeypatch.setattr(derive, "go_on", go_on)
    with pytest.raises(session.Stopping):
        derive.join_all(take(mirrored.pk, "resourceslices"), first=False)
    assert parts == [[(DRIVER, "node-a")]]


def test_a_node_that_comes_back_and_one_that_leaves_change_their_own_devices_only(
    mirrored, fake, run_session
):
    def nodes():
        rows = Device.objects.order_by("pool", "name").values_list("pool", "node__uid")
        return dict(rows)

    first = nodes()
    assert None not in first.values()
    fake.remove(NODE, "node-a")
    run_session("nodes")
    assert nodes() == {"node-a": None, "node-b": first["node-b"]}
    uid = fake.put(NODE, node("node-a"))["metadata"]["uid"]
    run_session("nodes")
    assert nodes() == {"node-a": uid, "node-b": first["node-b"]}


# Classes.


def book(*selectors):
    rows = [
        DeviceClass(name=name, raw={"spec": {"selectors": [{"cel": {"expression": text}} for text in texts]}})
        for name, *texts in selectors
    ]
    return class_book(rows)


def test_device_belongs_to_a_class_if_all_selectors_match(mirrored):
    [pool] = gather_pools([slice_of("n", [gpu(0), gpu(1)])])
    first = f"device.attributes['{DRIVER}'].uuid == 'GPU-0'"
    ours = f"device.driver == '{DRIVER}'"
    found = book(
        ("z-all",),
        ("both", ours, first),
        ("one", ours),
        ("none", "device.driver == 'x'", ours),
        ("broken", "this is no CEL ("),
        ("half broken", ours, "this is no CEL ("),
        ("fails", "device.attributes['x'].y == 1"),
    ).of(pool.devices)
    assert found == [["both", "one", "z-all"], ["one", "z-all"]]


def test_cache_of_shapes_is_cleared_when_it_is_too_large(monkeypatch):
    monkeypatch.setattr(pools, "SHAPES", 2)
    [pool] = gather_pools([slice_of("n", [gpu(index) for index in range(4)])])
    texts = [(f"c{index}", f"device.attributes['{DRIVER}'].uuid == 'GPU-{index}'") for index in range(4)]
    made = book(*texts)
    for _ in range(2):
        assert made.of(pool.devices) == [["c0"], ["c1"], ["c2"], ["c3"]]
        assert len(made._known) <= 2


# Columns and trimming.


def test_object_with_only_a_name_has_a_row():
    metadata = {"name": "n", "uid": "u"}
    common = {
        "uid": "u",
        "name": "n",
        "labels": {},
        "resource_version": "",
        "created_at": None,
    }

    def row(model, **more):
        found = columns(model, {"metadata": metadata, **more})
        del found["raw"]
        return found

    assert row(Node) == common | {
        "ready": False,
        "unschedulable": False,
        "node_pool": "",
        "labels_key": labels_key({}, "n"),
        "plugin_devices": {},
    }
    assert row(DeviceClass) == common | {"extended_resource": ""}
    assert row(ResourceClaim) == common | {
        "state": "pending",
        "origin": "foreign",
        "owner": "",
        "deleting_since": None,
        "allocated_at": None,
    }
    assert row(ResourceSlice, spec={"driver": "d", "pool": {"name": "p"}}) == common | {
        "driver": "d",
        "pool": "p",
        "generation": 0,
        "pool_slices": 1,
        "node_name": "",
    }
    assert row(Pod) == common | {
        "node_name": "",
        "phase": "",
        "message": "",
        "claims": [],
        "templates": [],
        "extended": {},
        "deleting_since": None,
    }
    assert instant("") is instant(None) is None


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "True"}], False),
        ([{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}], True),
    ],
)
def test_node_is_ready_by_its_condition(conditions, ready):
    manifest = {"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": conditions}}
    assert columns(Node, manifest)["ready"] is ready


def test_raw_keeps_only_fields_that_are_read():
    noisy = {
        "name": "n",
        "managedFields": [1],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"},
    }
    quiet = {"name": "n", "annotations": {"mine": "1"}}
    assert trim(ResourceClaim, {"metadata": noisy, "spec": {"a": 1}, "status": {"b": 2}}) == {
        "metadata": quiet,
        "spec": {"a": 1},
        "status": {"b": 2},
    }
    assert trim(Node, {"metadata": noisy, "status": {"images": [1], "nodeInfo": {"a": 1}}}) == {
        "metadata": quiet,
        "status": {"nodeInfo": {"a": 1}},
    }
    container = {"name": "c", "image": "i", "resources": {}, "env": [1], "args": ["secret"]}
    state = {"name": "c", "ready": True, "state": {}, "imageID": "x"}
    pod = {
        "metadata": noisy,
        "spec": {
            "nodeName": "n", "resourceClaims": [], "schedulerName": "s", "priority": 1, "volumes": [1],
            "containers": [container, container], "initContainers": [container],
        },
        "status": {
            "phase": "p", "reason": "r", "message": "m", "conditions": [], "startTime": "t", "podIP": "1",
            "resourceClaimStatuses": [], "extendedResourceClaimStatus": {},
            "containerStatuses": [state], "initContainerStatuses": [state],
        },
    }  # fmt: skip
    kept = {"name": "c", "image": "i", "resources": {}}
    kept_state = {"name": "c", "ready": True, "state": {}}
    assert trim(Pod, pod) == {
        "metadata": quiet,
        "spec": {
            "nodeName": "n", "resourceClaims": [], "schedulerName": "s", "priority": 1,
            "containers": [kept, kept], "initContainers": [kept],
        },
        "status": {
            "phase": "p", "reason": "r", "message": "m", "conditions": [], "startTime": "t",
            "resourceClaimStatuses": [], "extendedResourceClaimStatus": {},
            "containerStatuses": [kept_state], "initContainerStatuses": [kept_state],
        },
    }  # fmt: skip
    assert noisy["managedFields"] == [1]


@pytest.mark.parametrize(
    ("pod", "used"),
    [
        ({}, False),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}]}}, False),
        ({"spec": {"resourceClaims": [{"name": "a"}]}}, True),
        ({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}}, True),
        ({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}, True),
    ],
)
def test_which_pods_are_mirrored(pod, used):
    assert uses_claims(pod) is used


def test_fractional_quantity_is_ignored_and_requests_precede_limits():
    resources = {
        "limits": {"a.com/x": "2", "a.com/y": "1.5", "a.com/z": "1k", "requests.a.com/x": "1"},
        "requests": {"a.com/x": "3"},
    }
    assert requested_resources({"containers": [{"resources": resources}]}) == {"a.com/x": 3}


def taint(key, blocks=True):
    return type("Taint", (), {"key": key, "blocks": blocks})


@pytest.mark.parametrize(
    ("published", "ruled", "expected"),
    [
        ([], [], "good"),
        ([taint("a/xid", blocks=False)], [taint("k", blocks=False)], "good"),
        ([taint("k")], [], "tainted"),
        ([], [taint("k")], "tainted"),
        ([], [taint("gpu.nvidia.com/xid")], "tainted"),
        ([taint("gpu.nvidia.com/xid")], [], "unhealthy"),
        ([taint("k"), taint("HealthIssues-memory")], [], "unhealthy"),
        ([taint("gpu-lost")], [], "unhealthy"),
        ([taint("gpu-lost-not")], [], "tainted"),
        ([taint("fluxid")], [], "tainted"),
    ],
)
def test_the_condition_of_a_device_by_its_taints(published, ruled, expected):
    assert condition(published, ruled) == expected
