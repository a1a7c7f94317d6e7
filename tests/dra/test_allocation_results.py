"""The allocator: nodes, order of pools, configuration, and how a result is written."""

import pytest

from dra.allocator import AllocationError, allocate
from tests.dra.clusters import (
    NODE,
    NVIDIA,
    claim,
    device_class,
    eight,
    exactly,
    given,
    gpu,
    holds,
    node,
    resource_slice,
    snapshot,
    spec,
)


def test_devices_that_several_nodes_reach_are_given_on_each_of_them():
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    slices = [
        resource_slice("pool-z", [gpu(0)], nodeSelector=zone),
        resource_slice("pool-all", [gpu(5)], allNodes=True),
    ]
    both = spec(exactly(2))
    (result,) = allocate(snapshot(slices), node("node-a", {"zone": "a"}), [claim(both)])
    assert result.as_dict()["nodeSelector"] == zone
    assert given(snapshot(slices), both, on=node("node-b", {"zone": "b"})) is None
    (anywhere,) = allocate(snapshot(slices), node("node-b"), [claim(spec(exactly()))])
    assert "nodeSelector" not in anywhere.as_dict()


def test_a_local_device_pins_the_claim_to_its_node():
    (result,) = allocate(snapshot(eight()), NODE, [claim(spec(exactly()))])
    (term,) = result.as_dict()["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}


def test_devices_placed_one_by_one_are_asked_before_their_place_is():
    devices = [gpu(0, nodeName="node-b"), gpu(1, nodeName="node-a")]
    seen = snapshot([resource_slice("pool", devices, perDeviceNodeSelection=True)])
    assert given(seen, spec(exactly())) == [["gpu-1"]]
    del devices[0]["attributes"]["productName"]
    with pytest.raises(AllocationError, match="gpu-0"):
        given(seen, spec(exactly(1, 'device.attributes["gpu.nvidia.com"].productName != ""')))


@pytest.mark.parametrize("conditions", [["ready"], []])
def test_pools_with_binding_conditions_are_tried_last(conditions):
    late = resource_slice(devices=[gpu(0, bindingConditions=conditions)], pool="a-first-by-name")
    seen = snapshot([late, resource_slice(devices=[gpu(1)], pool="b")])
    assert given(seen, spec(exactly(2))) == [["gpu-1", "gpu-0"]]


def test_configuration_of_class_and_claim_goes_along():
    mps = {"opaque": {"driver": NVIDIA, "parameters": {"sharing": "mps"}}}
    own = {"requests": ["gpu"], "opaque": {"driver": NVIDIA, "parameters": {"own": True}}}
    claim_spec = spec(exactly(), exactly(name="more"), config=[own, {"requests": ["nobody"], **mps}])
    seen = snapshot(eight(), classes=[device_class(config=[mps])])
    (result,) = allocate(seen, NODE, [claim(claim_spec)])
    assert result.as_dict()["devices"]["config"] == [
        {"source": "FromClass", **mps},
        {"source": "FromClaim", **own},
    ]


def test_tolerations_are_written_into_the_result():
    claim_spec = spec(exactly(tolerations=[{"operator": "Exists"}]))
    (result,) = allocate(snapshot(eight()), NODE, [claim(claim_spec)])
    assert result.as_dict()["devices"]["results"] == [
        {
            "request": "gpu",
            "driver": NVIDIA,
            "pool": "node-a",
            "device": "gpu-0",
            "tolerations": [{"operator": "Exists"}],
        }
    ]


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["a", "b"], True),
        ("NotIn", ["a"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
        ("Gt", ["1"], False),
    ],
)
def test_node_selectors_are_understood(operator, values, fits):
    requirement = {"key": "zone", "operator": operator, "values": values}
    slices = [
        resource_slice(
            "p", [gpu(0)], nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        )
    ]
    assert (given(snapshot(slices), spec(exactly()), on=node("n", {"zone": "a"})) is not None) is fits


def test_numbers_in_node_selectors_are_compared_as_numbers():
    requirement = {"key": "rank", "operator": "Gt", "values": ["9"]}
    slices = [
        resource_slice(
            "p", [gpu(0)], nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        )
    ]
    assert given(snapshot(slices), spec(exactly()), on=node("n", {"rank": "10"})) == [["gpu-0"]]
    assert given(snapshot(slices), spec(exactly()), on=node("n", {"rank": "9"})) is None


def test_a_picture_after_a_change_keeps_its_devices():
    before = snapshot(eight())
    assert len(before.free) == 8
    after = before.after(claims=[holds("gpu-0")])
    assert after.device_index is before.device_index
    assert len(after.free) == 7
    assert after.device_holder(after.devices[0]) == "vision/theirs"
    assert after.device_holder(after.devices[1]) == ""
    assert len(before.free) == 8
