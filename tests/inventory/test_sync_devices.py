"""Device rows: pools, classes, taints, nodes and holders joined into one line each."""

import pytest

from cluster.protocol import DEVICE_CLASS, DEVICE_TAINT_RULE_VERSIONS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Cluster, Device, ObjectEvent
from inventory.states import DeviceState
from inventory.sync import list_watch
from tests.inventory.conftest import DRIVER, device_class, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db
RULE = DEVICE_TAINT_RULE_VERSIONS[0]


def device(name="gpu-0", pool="node-a"):
    return Device.objects.with_state().get(pool=pool, name=name)


def rule(name="drain", effect="NoSchedule", **selector):
    taint = {"key": "gpu.dragoman.dev/maintenance", "value": "true", "effect": effect}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


def test_a_device_is_described_in_words_that_pages_use(mirrored):
    gpu_0 = device()
    assert gpu_0.product == "NVIDIA H100 80GB HBM3"
    assert gpu_0.memory_bytes == 81559 * 2**20
    assert (gpu_0.uuid, gpu_0.kind, gpu_0.node_name, gpu_0.node.name) == ("GPU-0", "gpu", "node-a", "node-a")
    assert (gpu_0.classes, gpu_0.condition, gpu_0.state) == ([DRIVER], "good", DeviceState.FREE)


def test_incomplete_generation_keeps_the_devices_of_the_last_one(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(7)], name="node-a-new", generation=2, count=2))
    run_session("resourceslices")
    assert set(Device.objects.filter(pool="node-a", gone_at=None).values_list("name", "pool_complete")) == {
        ("gpu-0", False),
        ("gpu-1", False),
        ("gpu-7", False),
    }
    assert device().state == DeviceState.INCOMPLETE

    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(8)], generation=2, count=2))
    run_session("resourceslices")
    present = Device.objects.filter(pool="node-a", gone_at=None)
    assert set(present.values_list("name", "pool_complete")) == {("gpu-7", True), ("gpu-8", True)}


def test_an_incomplete_generation_does_not_bring_back_what_was_gone_before(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0)], generation=2))
    run_session("resourceslices")
    assert device("gpu-1").gone_at is not None
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0)], generation=3, count=2))
    run_session("resourceslices")
    assert not device("gpu-0").pool_complete
    assert device("gpu-1").gone_at is not None


def test_slices_of_an_older_generation_do_not_count(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(5)], name="node-a-new", generation=2))
    run_session("resourceslices")
    assert list(Device.objects.filter(pool="node-a", gone_at=None).values_list("name", flat=True)) == [
        "gpu-5"
    ]


def test_rule_taints_selected_devices_until_it_is_deleted(mirrored, fake, run_session):
    fake.put(RULE, rule(driver=DRIVER, pool="node-a", device="gpu-1"))
    run_session("devicetaintrules")
    tainted = device("gpu-1")
    assert [(t["key"], t["source"]) for t in tainted.taints] == [("gpu.dragoman.dev/maintenance", "drain")]
    assert tainted.state == DeviceState.TAINTED
    assert device("gpu-0").state == DeviceState.FREE

    fake.remove(RULE, "drain")
    run_session("devicetaintrules")
    assert (device("gpu-1").taints, device("gpu-1").state) == ([], DeviceState.FREE)
    told = ObjectEvent.objects.filter(kind="Device", name=f"{DRIVER}/node-a/gpu-1", change="changed")
    assert [list(event.detail) for event in told] == [["taints"], ["taints"]]


def test_rule_with_another_selector_releases_the_first_device(mirrored, fake, run_session):
    fake.put(RULE, rule(pool="node-a", device="gpu-1"))
    run_session("devicetaintrules")
    fake.put(RULE, rule(pool="node-b", device="gpu-0"))
    run_session("devicetaintrules")
    assert (device("gpu-1").state, device("gpu-0", "node-b").state) == (DeviceState.FREE, DeviceState.TAINTED)


def test_a_rule_without_a_pool_taints_every_device(mirrored, fake, run_session):
    fake.put(RULE, rule())
    run_session("devicetaintrules")
    assert {one.state for one in Device.objects.with_state()} == {DeviceState.TAINTED}


@pytest.mark.parametrize(
    ("version", "state"), [("v1.37.0", DeviceState.TAINTED), ("v1.37.1", DeviceState.FREE)]
)
def test_rule_without_a_selector_taints_all_devices_up_to_1_37_0(mirrored, fake, run_session, version, state):
    Cluster.objects.update(version=version)
    bare = rule()
    del bare["spec"]["deviceSelector"]
    fake.put(RULE, bare)
    run_session("devicetaintrules")
    assert device().state == state
    snapshot = current_snapshot(mirrored)
    assert bool(snapshot.untainted([])) == (state == DeviceState.FREE)


def test_dry_run_rule_has_no_effect(mirrored, fake, run_session):
    fake.put(RULE, rule(effect="None"))
    run_session("devicetaintrules")
    assert device().taints[0]["effect"] == "None"
    assert device().state == DeviceState.FREE


def test_a_device_that_its_driver_reports_broken_is_unhealthy(mirrored, fake, run_session):
    lost = [{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}]
    noted = [{"key": "gpu.nvidia.com/xid", "value": "43", "effect": "None"}]
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0, taints=lost), gpu(1, taints=noted)]))
    run_session("resourceslices")
    assert (device("gpu-0").state, device("gpu-1").state) == (DeviceState.UNHEALTHY, DeviceState.FREE)


def test_a_new_class_is_joined_to_the_devices_that_meet_its_selectors(mirrored, fake, run_session):
    fake.put(DEVICE_CLASS, device_class("mig.nvidia.com", kind="mig"))
    fake.put(DEVICE_CLASS, device_class("any-gpu"))
    run_session("deviceclasses")
    assert device().classes == ["any-gpu", DRIVER]
    fake.remove(DEVICE_CLASS, "any-gpu")
    run_session("deviceclasses")
    assert device().classes == [DRIVER]


def test_a_class_whose_selector_cannot_be_decided_has_no_members(mirrored, fake, run_session):
    broken = device_class("broken")
    broken["spec"]["selectors"][0]["cel"]["expression"] = f"device.attributes['{DRIVER}'].nope == 'x'"
    fake.put(DEVICE_CLASS, broken)
    run_session("deviceclasses")
    assert device().classes == [DRIVER]


def test_allocated_claim_holds_its_devices_until_release(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")
    assert device("gpu-0").held_by.name == "mine"
    assert device("gpu-0").state == DeviceState.IN_USE
    assert device("gpu-1").held_by is None

    fake.put(RESOURCE_CLAIM, resource_claim("mine"))
    run_session("resourceclaims")
    assert device("gpu-0").held_by is None


def test_a_claim_that_is_gone_holds_nothing(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0", "gpu-1"))
    run_session("resourceclaims")
    assert Device.objects.exclude(held_by=None).count() == 2
    fake.remove(RESOURCE_CLAIM, "mine", namespace="default")
    run_session("resourceclaims")
    assert not Device.objects.exclude(held_by=None).exists()


def test_a_device_handed_from_one_claim_to_another_in_one_batch_belongs_to_the_new_one(
    mirrored, fake, run_session
):
    fake.put(RESOURCE_CLAIM, resource_claim("first", "gpu-0"))
    run_session("resourceclaims")
    fake.put(RESOURCE_CLAIM, resource_claim("second", "gpu-0"))
    fake.put(RESOURCE_CLAIM, resource_claim("first"))
    run_session("resourceclaims")
    assert device("gpu-0").held_by.name == "second"


def test_a_device_that_is_mirrored_after_its_claim_finds_its_holder(fra, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")
    run_session("resourceslices")
    assert device("gpu-0").held_by.name == "mine"


def test_shared_device_is_held_until_the_last_release(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0, allowMultipleAllocations=True)]))
    run_session("resourceslices")
    for name in ("first", "second"):
        fake.put(RESOURCE_CLAIM, resource_claim(name, "gpu-0"))
    run_session("resourceclaims")
    assert device().held_by.name == "first"
    fake.put(RESOURCE_CLAIM, resource_claim("first"))
    run_session("resourceclaims")
    assert device().held_by.name == "second"
    fake.put(RESOURCE_CLAIM, resource_claim("second"))
    run_session("resourceclaims")
    assert device().held_by is None


def test_admin_access_holds_nothing(mirrored, fake, run_session):
    watcher = resource_claim("watcher", "gpu-0")
    (seen,) = watcher["status"]["allocation"]["devices"]["results"]
    for is_admin, holder in ((False, "watcher"), (True, None)):
        seen["adminAccess"] = is_admin
        fake.put(RESOURCE_CLAIM, watcher)
        run_session("resourceclaims")
        held_by = device().held_by
        assert (held_by and held_by.name) == holder


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (node("node-a", ready=False), DeviceState.NOT_READY),
        (node("node-a", unschedulable=True), DeviceState.CORDONED),
        (node("node-a", ready=False, unschedulable=True), DeviceState.NOT_READY),
    ],
)
def test_device_of_node_down_or_cordoned_says_which(mirrored, fake, run_session, now, state):
    fake.put(NODE, now)
    run_session("nodes")
    assert device().state == state


def test_a_device_of_a_node_that_is_gone_is_not_free(mirrored, fake):
    assert device().node.name == "node-a"
    fake.remove(NODE, "node-a")
    fake.put(RESOURCE_SLICE, slice_of("ghost", [gpu(3)]))  # of a node that never was
    list_watch.sync_once(mirrored, fake)
    assert device().node is None
    assert device(pool="node-b").node.name == "node-b"
    states = {one.pool: one.state for one in Device.objects.with_state()}
    assert states == {
        "node-a": DeviceState.NOT_READY,
        "node-b": DeviceState.FREE,
        "ghost": DeviceState.NOT_READY,
    }
    assert set(Device.objects.in_state(DeviceState.FREE).values_list("pool", flat=True)) == {"node-b"}
    assert current_snapshot(mirrored).available.bit_count() == 1


def test_devices_are_free_where_no_nodes_are_mirrored(fra, fake):
    for name in ("node-a", "node-b"):
        fake.remove(NODE, name)
    list_watch.sync_once(fra, fake)
    assert Device.objects.in_state(DeviceState.FREE).count() == 3


def named(pool, item, **changed):
    """Return the slice with the pool name that nodes share."""
    item["spec"]["pool"] |= {"name": pool, **changed}
    return item


def both(fake, *, equal, nodes=("node-a", "node-b")):
    """Publish a pool "gpus" on two nodes, with equal device names or different ones."""
    for name in nodes:
        fake.put(RESOURCE_SLICE, named("gpus", slice_of(name, [gpu(int(name == "node-b" and not equal))])))


def rows_of_pool():
    rows = Device.objects.present().filter(pool="gpus").with_state().order_by("node_name", "name")
    return [(row.node_name, row.name, row.state, row.pool_complete) for row in rows]


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("listed_first", [False, True])
def test_pool_name_shared_by_nodes_keeps_the_devices_of_both(fra, fake, run_session, equal, listed_first):
    if listed_first:
        both(fake, equal=equal)
    list_watch.sync_once(fra, fake)
    both(fake, equal=equal)
    expected = [
        ("node-a", "gpu-0", DeviceState.FREE, True),
        ("node-b", "gpu-0" if equal else "gpu-1", DeviceState.FREE, True),
    ]
    known = set()
    for touched in ("node-a", "node-b", "node-a"):  # whichever slice comes last
        both(fake, equal=equal, nodes=[touched])
        run_session("resourceslices")
        assert rows_of_pool() == expected
        known.add(frozenset(Device.objects.present().filter(pool="gpus").values_list("pk", flat=True)))
    assert len(known) == 1


def test_device_of_equal_name_on_another_node_is_blocked_while_one_is_held(fra, fake, run_session):
    both(fake, equal=True)
    list_watch.sync_once(fra, fake)
    claim = resource_claim("mine", "gpu-0", pool="gpus")
    field = {"key": "metadata.name", "operator": "In", "values": ["node-b"]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    fake.put(RESOURCE_CLAIM, claim)
    run_session("resourceclaims")
    held = [
        ("node-a", "gpu-0", DeviceState.BLOCKED, True),
        ("node-b", "gpu-0", DeviceState.IN_USE, True),
    ]
    assert rows_of_pool() == held
    run_session("resourceslices", seconds=1)
    list_watch.sync_once(fra, fake)
    assert rows_of_pool() == held
    fake.put(RESOURCE_CLAIM, resource_claim("mine"))
    run_session("resourceclaims")
    assert [state for _, _, state, _ in rows_of_pool()] == [DeviceState.FREE, DeviceState.FREE]


def test_only_the_node_whose_part_is_incomplete_keeps_its_last_devices(mirrored, fake, run_session):
    both(fake, equal=False)
    list_watch.sync_once(mirrored, fake)
    fake.put(RESOURCE_SLICE, named("gpus", slice_of("node-b", [gpu(7)]), generation=2, resourceSliceCount=2))
    run_session("resourceslices")
    assert rows_of_pool() == [
        ("node-a", "gpu-0", DeviceState.FREE, True),
        ("node-b", "gpu-1", DeviceState.INCOMPLETE, False),
        ("node-b", "gpu-7", DeviceState.INCOMPLETE, False),
    ]


def test_generation_that_is_complete_but_invalid_keeps_the_last_devices(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(7), gpu(7)], generation=2))
    run_session("resourceslices")
    present = Device.objects.present().filter(pool="node-a")
    assert set(present.values_list("name", "pool_complete")) == {
        ("gpu-0", False),
        ("gpu-1", False),
        ("gpu-7", False),
    }


def test_history_shows_the_changed_driver_version(mirrored, fake, run_session):
    newer = gpu(0)
    newer["attributes"]["driverVersion"] = {"version": "590.1.0"}
    fake.put(RESOURCE_SLICE, slice_of("node-b", [newer], generation=2))
    run_session("resourceslices")
    event = ObjectEvent.objects.get(kind="Device", change="changed")
    assert event.detail == {"attributes.driverVersion": [{"version": "580.95.5"}, {"version": "590.1.0"}]}


def sliceable():
    """A GPU with counters for two halves: whole, or a, or b."""

    def taking(name, amount):
        counters = [{"counterSet": "gpu-0", "counters": {"slices": {"value": str(amount)}}}]
        return gpu(0, consumesCounters=counters) | {"name": name}

    counters = slice_of("node-a", [], name="node-a-counters", generation=2, count=2)
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    devices = [taking("whole", 2), taking("half-a", 1), taking("half-b", 1)]
    return counters, slice_of("node-a", devices, generation=2, count=2)


def test_partition_blocked_by_others_is_not_free(mirrored, fake, run_session):
    for item in sliceable():
        fake.put(RESOURCE_SLICE, item)
    run_session("resourceslices")
    assert device("whole").state == DeviceState.FREE

    fake.put(RESOURCE_CLAIM, resource_claim("mine", "half-a"))
    run_session("resourceclaims")
    states = {name: device(name).state for name in ("whole", "half-a", "half-b")}
    assert states == {
        "whole": DeviceState.BLOCKED,
        "half-a": DeviceState.IN_USE,
        "half-b": DeviceState.FREE,
    }

    fake.put(RESOURCE_CLAIM, resource_claim("mine"))
    run_session("resourceclaims")
    assert device("whole").state == DeviceState.FREE
