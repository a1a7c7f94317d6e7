"""Pools: only the newest complete generation counts, and a contradiction makes all of it unusable."""

from contextlib import suppress

import pytest

from dra.allocator import NodeFailed
from dra.match import preview
from dra.pools import PoolDevice, gather_pools
from dra.quantity import Quantity
from dra.taints import Taint
from tests.dra.clusters import exactly, given, gpu, holds, node, resource_slice, snapshot, spec


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


def shared(node, *devices, count=1, generation=1, **spec):
    name = f"{node}-{generation}"
    return resource_slice(
        node, [*devices], pool="gpus", slices=count, generation=generation, name=name, **spec
    )


A, B = node("a"), node("b")
# what the nodes publish → the devices that each node's pods get, and problems of parts of the pool
VIEWS = {
    "each says one": ([shared("a", gpu(0)), shared("b", gpu(1))], ["gpu-0"], ["gpu-1"], []),
    "equal names": ([shared("a", gpu(0)), shared("b", gpu(0))], ["gpu-0"], ["gpu-0"], []),
    "one of both renewed": (
        [shared("a", gpu(0)), shared("b", gpu(1), generation=2)], ["gpu-0"], ["gpu-1"], []
    ),
    "both of one pool": (
        [shared("a", gpu(0), count=2), shared("b", gpu(1), count=2)], ["gpu-0"], ["gpu-1"], []
    ),
    "equal names in one pool": (
        [shared("a", gpu(0), count=2), shared("b", gpu(0), count=2)], ["gpu-0"], ["gpu-0"], []
    ),
    "a third is missing": (
        [shared("a", gpu(0), count=3), shared("b", gpu(1), count=3)], [], [], ["incomplete: 2 of 3"] * 2
    ),
    "one is missing on one node": (
        [shared("a", gpu(0)), shared("b", gpu(1), count=3)], ["gpu-0"], [], ["incomplete: 2 of 3"]
    ),
    "a new generation on one node only": (
        [shared("a", gpu(0), count=2), shared("b", gpu(1), count=2, generation=2)],
        [], [], ["out of date: generation 2 replaces 1", "incomplete: 1 of 2"],
    ),
    "with a slice for all nodes": (
        [
            *(shared(name, gpu(number), count=2) for number, name in enumerate("ab")),
            shared("all", gpu(2), count=2, allNodes=True),
        ],
        ["gpu-0", "gpu-2"], ["gpu-1", "gpu-2"], [],
    ),
    "a twice": ([shared("a", gpu(0), gpu(0)), shared("b", gpu(1))], [], ["gpu-1"], ["gpu-0 more than once"]),
}  # fmt: skip


@pytest.mark.parametrize("case", VIEWS)
def test_a_pool_whose_name_nodes_share_is_what_each_node_sees(case):
    slices, on_a, on_b, problems = VIEWS[case]
    seen = snapshot(slices, nodes=[A, B])
    told = [pool.problem for pool in seen.pools if not pool.usable]
    assert len(told) == len(problems)
    assert all(problem in text for problem, text in zip(problems, told, strict=True))
    for one, names in ((A, on_a), (B, on_b)):
        assert sorted(seen.devices[index].name for index in seen.indices_on(one)) == names
        for count in (1, 2, 3):
            with suppress(NodeFailed):
                assert (given(seen, spec(exactly(count)), on=one) is not None) == (count <= len(names))
    fits = sum(count > 0 for count in (len(on_a), len(on_b)))
    assert preview(seen, spec(exactly(1))).nodes_that_fit == fits


def test_a_device_that_nodes_share_by_name_is_held_on_all_of_them():
    seen = snapshot([shared("a", gpu(0)), shared("b", gpu(0), gpu(1))], nodes=[A, B])
    assert preview(seen, spec(exactly(1)), claims=2).claims_that_fit == 2
    assert [device.node_name for device in seen.free] == ["a", "b", "b"]
    _ = seen.held, seen.available
    holder = holds("gpu-0", pool="gpus")
    for held in (
        snapshot(seen.slices, holder, nodes=[A, B]),
        seen.after(claims=[holder], changed_claims=[(None, holder)]),
    ):
        assert [device.name for device in held.free] == ["gpu-1"]
        assert held.available.bit_count() == 1
        assert given(held, spec(exactly(1)), on=A) is None
        assert given(held, spec(exactly(1)), on=B) == [["gpu-1"]]


INCOMPLETE = "Pool node-a of gpu.nvidia.com is incomplete: 2 of 3 slices of generation 3."
TOO_MANY = "Pool node-a of gpu.nvidia.com is invalid: it has 2 slices of generation 3 and declares 1."
DISAGREE = "Pool node-a of gpu.nvidia.com is invalid: its slices say that there are {} of them."


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([2, 2], ""),
        ([3, 3], INCOMPLETE),
        ([1, 1], TOO_MANY),
        ([1, 2], DISAGREE.format("1 and 2")),
        ([2, 1], DISAGREE.format("1 and 2")),
        ([3, 2], DISAGREE.format("2 and 3")),
    ],
)
def test_a_pool_is_complete_if_all_slices_declare_their_number(said, problem):
    slices = [
        resource_slice(devices=[gpu(number)], slices=count, name=f"s{number}", generation=3)
        for number, count in enumerate(said)
    ]
    old = resource_slice(devices=[gpu(9)], slices=7, name="old", generation=2)
    (pool,) = gather_pools([*slices, old])
    assert (pool.usable, pool.problem) == (not problem, problem)
    assert (given(snapshot(slices), spec(exactly(2))) is None) == bool(problem)
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
