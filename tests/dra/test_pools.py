"""Pools: only the newest complete generation counts, and a contradiction makes all of it unusable."""

import pytest

from dra.pools import PoolDevice, gather_pools
from dra.quantity import Quantity
from dra.taints import Taint
from tests.dra.clusters import gpu, resource_slice


def test_only_the_newest_generation_counts():
    old = resource_slice(devices=[gpu(0), gpu(1)], generation=1)
    new = resource_slice(devices=[gpu(7)], generation=2)
    (pool,) = gather_pools([new, old])
    assert (pool.generation, [device.name for device in pool.devices]) == (2, ["gpu-7"])
    assert pool.usable


def test_a_pool_with_missing_slices_is_listed_and_not_usable():
    (pool,) = gather_pools([resource_slice(devices=[gpu(0)], generation=4, slices=2)])
    assert not pool.complete
    assert not pool.usable
    assert [device.name for device in pool.devices] == ["gpu-0"]
    assert pool.problem == "Pool node-a of gpu.nvidia.com is incomplete: 1 of 2 slices of generation 4."


def test_slices_of_one_pool_are_read_by_name():
    first = resource_slice(devices=[gpu(0)], slices=2, name="a")
    second = resource_slice(devices=[gpu(1)], slices=2, name="b")
    (pool,) = gather_pools([second, first])
    assert [device.name for device in pool.devices] == ["gpu-0", "gpu-1"]
    assert [device.slice_name for device in pool.devices] == ["a", "b"]


def test_pools_come_by_driver_and_name():
    slices = [
        resource_slice("b", [gpu(0)]),
        resource_slice("a", [gpu(0)]),
        resource_slice("c", [gpu(0)], driver="gpu.amd.com"),
    ]
    assert [(pool.driver, pool.name) for pool in gather_pools(slices)] == [
        ("gpu.amd.com", "c"),
        ("gpu.nvidia.com", "a"),
        ("gpu.nvidia.com", "b"),
    ]


def test_a_device_published_twice_makes_the_pool_unusable():
    (pool,) = gather_pools([resource_slice(devices=[gpu(0), gpu(0)])])
    assert pool.complete
    assert not pool.usable
    assert "gpu-0 more than once" in pool.problem


def counted(*, has, takes, sets=("s",)):
    shared = [{"name": name, "counters": {"memory": {"value": has}}} for name in sets]
    device = gpu(0, consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": takes}}}])
    return resource_slice(devices=[device], sharedCounters=shared)


def test_counters_are_read_whether_they_have_a_slice_of_their_own_or_not(manifests):
    (split,) = gather_pools(
        [manifests["ResourceSlice/node-b-counters"], manifests["ResourceSlice/node-b-devices"]]
    )
    assert split.usable
    assert split.counters["gpu-0-counter-set", "memory"] == Quantity.parse("40192Mi")
    (joined,) = gather_pools([counted(has="8", takes="2")])
    assert dict(joined.devices[0].counters) == {("s", "memory"): Quantity.parse("2")}


def test_counters_that_the_pool_lacks_make_it_unusable():
    slice_ = counted(has="8", takes="2", sets=("other",))
    assert "counter s/memory" in gather_pools([slice_])[0].problem


def test_a_counter_set_given_twice_makes_the_pool_unusable():
    assert "s more than once" in gather_pools([counted(has="8", takes="2", sets=("s", "s"))])[0].problem


def test_an_amount_that_is_none_makes_the_pool_unusable():
    (pool,) = gather_pools([counted(has="plenty", takes="2")])
    assert not pool.usable
    assert "plenty" in pool.problem


@pytest.mark.parametrize(
    ("place", "expected"),
    [({"nodeName": "node-z"}, ("node-z", False)), ({"allNodes": True}, ("", True))],
)
def test_a_device_may_be_placed_by_itself(place, expected):
    (pool,) = gather_pools([resource_slice(devices=[gpu(0, **place)], perDeviceNodeSelection=True)])
    (device,) = pool.devices
    assert device.per_device_node_selection
    assert (device.node_name, device.all_nodes) == expected


def test_devices_of_a_local_slice_are_on_its_node(manifests):
    (pool,) = gather_pools([manifests["ResourceSlice/node-a-gpu.nvidia.com-abc12"]])
    assert [(device.node_name, str(device)) for device in pool.devices] == [
        ("node-a", "gpu.nvidia.com/node-a/gpu-0")
    ]


def test_no_slices_are_no_pools():
    assert gather_pools([]) == []


def test_a_device_is_read_with_all_that_its_slice_says():
    taint = {"key": "k", "effect": "NoSchedule"}
    raw = gpu(0, taints=[taint], allowMultipleAllocations=True, bindingConditions=[])
    raw["consumesCounters"] = [
        {"counterSet": "s", "counters": {"a": {"value": "1"}, "b": {"value": "2Gi"}}},
        {"counterSet": "t", "counters": {"a": {"value": "3"}}},
    ]
    sets = [{"name": name, "counters": {one: {"value": "4Gi"} for one in "ab"}} for name in "st"]
    where: dict[str, list[str]] = {"nodeSelectorTerms": []}
    slice_ = resource_slice(
        "p", [raw, gpu(1)], nodeSelector=where, sharedCounters=sets, skipNodeOperations=["x", "y"], name="n"
    )
    (pool,) = gather_pools([slice_])
    first, second = pool.devices
    counters = (("s", "a"), "1"), (("s", "b"), "2Gi"), (("t", "a"), "3")
    assert first == PoolDevice(
        driver="gpu.nvidia.com",
        pool="p",
        name="gpu-0",
        raw=raw,
        node_name="",
        node_selector=where,
        all_nodes=False,
        per_device_node_selection=False,
        taints=(Taint("k", "NoSchedule"),),
        slice_name="n",
        counters=tuple((key, Quantity.parse(value)) for key, value in counters),
        skipped=("x", "y"),
    )
    assert (first.key, first.shareable, first.has_binding_conditions) == (
        ("gpu.nvidia.com", "p", "gpu-0"),
        True,
        True,
    )
    assert (second.shareable, second.has_binding_conditions, second.counters) == (False, False, ())
    assert (pool.problem, pool.expected, pool.generation, pool.slices) == ("", 1, 1, [slice_])


@pytest.mark.parametrize(
    ("said", "complete", "problem"),
    [
        ([2, 2], True, ""),
        ([1, 2], True, ""),
        ([1, 1], False, "Pool node-a of gpu.nvidia.com is incomplete: 2 of 1 slices of generation 3."),
        ([2, 3], False, "Pool node-a of gpu.nvidia.com is incomplete: 2 of 3 slices of generation 3."),
    ],
)
def test_a_pool_is_complete_with_just_as_many_slices_as_the_largest_count(said, complete, problem):
    slices = [
        resource_slice(devices=[gpu(number)], slices=count, name=f"s{number}", generation=3)
        for number, count in enumerate(said)
    ]
    old = resource_slice(devices=[gpu(9)], slices=7, name="old", generation=2)
    (pool,) = gather_pools([*slices, old])
    assert (pool.complete, pool.usable, pool.problem, pool.expected) == (
        complete,
        complete,
        problem,
        max(said),
    )
    assert [device.name for device in pool.devices] == ["gpu-0", "gpu-1"]


def test_every_contradiction_of_a_pool_is_a_sentence_that_names_it():
    takes = [{"counterSet": "s", "counters": {}}, {"counterSet": "t", "counters": {}}]
    sets = [{"name": "s", "counters": {"a": {"value": "1"}}}]
    of_set = resource_slice(devices=[gpu(0), gpu(1, consumesCounters=takes)], sharedCounters=sets)
    takes_b = [{"counterSet": "s", "counters": {"a": {"value": "1"}, "b": {"value": "1"}}}]
    of_counter = resource_slice(devices=[gpu(1, consumesCounters=takes_b)], sharedCounters=sets)
    twice = resource_slice(devices=[gpu(2), gpu(1), gpu(2), gpu(1)])
    broken = resource_slice(
        devices=[gpu(2)], sharedCounters=[{"name": "s", "counters": {"a": {"value": "x"}}}]
    )
    assert [gather_pools([one])[0].problem for one in (of_set, of_counter, twice, broken)] == [
        "Device gpu-1 of pool node-a consumes counter set t, which the pool does not define.",
        "Device gpu-1 of pool node-a consumes counter s/b, which the pool does not define.",
        "Pool node-a of gpu.nvidia.com publishes gpu-1 more than once, so none of its devices are allocated.",
        "Pool node-a of gpu.nvidia.com is invalid: “x” is not a quantity such as 80Gi, 500m or 4.",
    ]
    assert not any(gather_pools([one])[0].usable for one in (of_set, of_counter, twice, broken))
