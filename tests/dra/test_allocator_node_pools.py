"""The allocator sees pools as the node does: its own slices decide, those for others are asked if need be."""

import pytest

from dra.allocator import AllocationError, NodeFailed
from dra.features import NEWEST, Features
from tests.dra.clusters import exactly, given, gpu, node, resource_slice, snapshot, spec

ONE = spec(exactly())
EVERY = spec(exactly(0, allocationMode="All"))
B = node("node-b")


def part(place, numbers, **more):
    """A slice of the pool that the nodes share."""
    more.setdefault("name", f"{place}-{more.get('generation', 1)}")
    return resource_slice(place, [gpu(number) for number in numbers], pool="shared", **more)


def test_a_node_goes_on_with_the_old_generation_while_its_slices_are_all_there():
    slices = [part("node-a", [0]), part("node-b", [1], generation=2)]
    assert given(snapshot(slices), ONE) == [["gpu-0"]]
    assert given(snapshot(slices), ONE, on=B) == [["gpu-1"]]


def test_a_node_whose_slices_are_not_all_there_ignores_an_old_generation():
    slices = [part("node-a", [0], slices=2), part("node-b", [1], generation=2)]
    assert given(snapshot(slices), ONE) is None
    assert given(snapshot(slices), EVERY) is None  # and does not count it as a pool that is being updated


def test_a_pool_may_be_complete_through_slices_for_other_nodes():
    slices = [part("node-a", [0], slices=2), part("node-b", [1], slices=2)]
    assert given(snapshot(slices), ONE) == [["gpu-0"]]
    assert given(snapshot(slices[:1]), ONE) is None


def test_an_incomplete_pool_is_an_error_for_mode_all_on_the_nodes_that_it_reaches():
    slices = [part("node-a", [0], slices=2), resource_slice("node-b", [gpu(1)])]
    with pytest.raises(AllocationError, match="1 of 2 slices"):
        given(snapshot(slices), EVERY)
    assert given(snapshot(slices), EVERY, on=B) == [["gpu-1"]]


def test_a_name_given_twice_matters_where_both_devices_are_reached():
    apart = [part("node-a", [0], slices=2), part("node-b", [0], slices=2)]
    assert given(snapshot(apart), ONE) == [["gpu-0"]]
    together = [part("node-a", [0], slices=2), part("node-a", [0], slices=2, name="other")]
    with pytest.raises(NodeFailed, match="gpu-0 more than once"):
        given(snapshot(together), ONE)
    beside = [*together, resource_slice("node-a", [gpu(7)])]
    assert given(snapshot(beside), ONE) == [["gpu-7"]]


def test_counters_of_a_slice_for_another_node_count():
    sets = [{"name": "s", "counters": {"memory": {"value": "3"}}}]

    def half(number):
        takes = [{"counterSet": "s", "counters": {"memory": {"value": "2"}}}]
        return gpu(number, consumesCounters=takes)

    slices = [
        resource_slice("node-a", [half(0)], pool="shared", name="a", slices=3),
        resource_slice("node-b", [half(1)], pool="shared", name="b", slices=3),
        resource_slice("node-b", pool="shared", name="c", slices=3, sharedCounters=sets),
    ]
    assert given(snapshot(slices), ONE) == [["gpu-0"]]
    taken = {"driver": "gpu.nvidia.com", "pool": "shared", "device": "gpu-1"}
    holder = {"status": {"allocation": {"devices": {"results": [taken]}}}}
    assert given(snapshot(slices, holder), ONE) is None


def test_a_slice_that_is_placed_in_no_way_known_is_left_out():
    nowhere = resource_slice("node-a", [gpu(0)])
    del nowhere["spec"]["nodeName"]
    assert given(snapshot([nowhere]), ONE) is None
    assert given(snapshot([nowhere]), EVERY) is None


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "zone", "operator": "Near", "values": ["a"]},
        {"key": "zone", "operator": "In", "values": []},
        {"key": "zone", "operator": "Exists", "values": ["a"]},
        {"key": "cores", "operator": "Gt", "values": ["many"]},
        {"key": "-", "operator": "Exists"},
        {"key": "zone", "operator": "In", "values": ["not a label"]},
    ],
)
def test_a_node_selector_against_the_rules_stops_every_claim(requirement):
    term = {"matchExpressions": [requirement]}
    slices = [resource_slice("p", [gpu(0)], nodeSelector={"nodeSelectorTerms": [term]})]
    with pytest.raises(AllocationError, match="node selector"):
        given(snapshot([*slices, resource_slice()]), ONE)


def test_pools_with_binding_conditions_come_last_even_if_the_list_is_empty():
    slices = [
        resource_slice(pool="a", devices=[gpu(0, bindingConditions=[])]),
        resource_slice(devices=[gpu(1)]),
    ]
    assert given(snapshot(slices), ONE) == [["gpu-1"]]
    stable = Features(device_taints=True)
    assert given(snapshot(slices, features=stable), ONE) == [["gpu-0"]]


def test_the_stable_allocator_takes_slices_as_they_are_listed():
    slices = [part("node-a", [0], slices=2, name="z"), part("node-a", [1], slices=2, name="a")]
    assert given(snapshot(slices, features=NEWEST), ONE) == [["gpu-1"]]
    assert given(snapshot(slices, features=Features()), ONE) == [["gpu-0"]]


def test_a_device_placed_by_itself_against_the_rules_is_an_error_once_it_is_asked():
    broken = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "-", "operator": "Exists"}]}]}
    devices = [gpu(0, nodeName="node-a"), gpu(1, nodeSelector=broken)]
    seen = snapshot([resource_slice("p", devices, perDeviceNodeSelection=True)])
    assert given(seen, ONE) == [["gpu-0"]]
    with pytest.raises(AllocationError, match="gpu-1: The node selector names label “-”"):
        given(seen, spec(exactly(2)))
