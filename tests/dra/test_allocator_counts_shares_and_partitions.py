"""The allocator: devices that are taken in part, or at the expense of others."""

import pytest

from dra.allocator import allocate
from tests.dra.clusters import (
    NODE,
    claim,
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


def mig(manifests, *claims):
    return snapshot(
        [manifests["ResourceSlice/node-b-counters"], manifests["ResourceSlice/node-b-devices"]], *claims
    )


def test_partitions_and_the_whole_gpu_exclude_each_other(manifests):
    whole, part = spec(exactly()), spec(exactly(1, class_name="mig.nvidia.com"))
    on = node("node-b")
    assert given(mig(manifests), whole, on=on) == [["gpu-0"]]
    assert given(mig(manifests), part, part, on=on) == [["gpu-0-mig-1g5gb-19-0"], ["gpu-0-mig-1g5gb-19-1"]]
    assert given(mig(manifests), part, whole, on=on) is None
    taken = holds("gpu-0-mig-1g5gb-19-0", pool="node-b")
    assert given(mig(manifests, taken), whole, on=on) is None
    assert given(mig(manifests, taken), part, on=on) == [["gpu-0-mig-1g5gb-19-1"]]
    assert given(mig(manifests, holds("gpu-0", pool="node-b")), part, on=on) is None


def test_an_overdrawn_counter_blocks_all_that_take_any():
    def part(number, **takes):
        counters = {name: {"value": value} for name, value in takes.items()}
        return gpu(number, consumesCounters=[{"counterSet": "s", "counters": counters}])

    sets = [{"name": "s", "counters": {"a": {"value": "1"}, "b": {"value": "9"}}}]
    devices = [part(0, a="1"), part(1, a="1"), part(2, b="1"), gpu(3)]
    slices = [
        resource_slice(slices=2, name="counters", sharedCounters=sets),
        resource_slice(devices=devices, slices=2, name="devices"),
    ]
    seen = snapshot(slices, holds("gpu-0", "gpu-1"))
    assert given(seen, spec(exactly())) == [["gpu-3"]]
    assert [device.name for device in seen.free] == ["gpu-3"]


def shared(policy=None, **more):
    capacity = {"memory": {"value": "40Gi"} | ({"requestPolicy": policy} if policy else {})}
    return gpu(0, **more) | {"allowMultipleAllocations": True, "capacity": capacity}


def take(amount):
    return exactly(1, capacity={"requests": {"memory": amount}})


def test_shares_of_one_device_add_up_to_the_whole():
    seen = snapshot([resource_slice(devices=[shared()])])
    assert given(seen, spec(take("20Gi")), spec(take("20Gi"))) == [["gpu-0"], ["gpu-0"]]
    assert given(seen, spec(take("20Gi")), spec(take("21Gi"))) is None
    part = {"shareID": "0d6b4a8e-0000-4000-8000-000000000001", "consumedCapacity": {"memory": "30Gi"}}
    partly = snapshot(seen.slices, holds("gpu-0", **part))
    assert given(partly, spec(take("10Gi"))) == [["gpu-0"]]
    assert given(partly, spec(take("11Gi"))) is None
    assert [device.name for device in partly.free] == ["gpu-0"]


def test_a_share_is_written_with_its_id_and_what_it_takes():
    seen = snapshot(
        [resource_slice(devices=[shared({"default": "40Gi", "validRange": {"min": "1Gi", "step": "1Gi"}})])]
    )
    (result,) = allocate(seen, NODE, [claim(spec(take("1500Mi")))])
    (written,) = result.as_dict()["devices"]["results"]
    assert written["consumedCapacity"] == {"memory": "2Gi"}
    assert len(written["shareID"]) == 36


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        (None, None, "40Gi"),
        (None, "3", "3"),
        ({"default": "5"}, None, "5"),
        ({"default": "5", "validValues": ["5", "10"]}, "6", "10"),
        ({"default": "5", "validValues": ["5", "10"]}, "11", None),
        ({"default": "5", "validRange": {"min": "2", "max": "4"}}, "1", "2"),
        ({"default": "5", "validRange": {"min": "2", "max": "4"}}, "5", "5"),
        ({"default": "5", "validRange": {"min": "2", "max": "4"}}, "5000m", None),
        ({"default": "2", "validRange": {"min": "2", "step": "3"}}, "6", "8"),
        ({"default": "2", "validRange": {"min": "2", "step": "500m"}}, "2100m", "3"),
    ],
)
def test_an_amount_is_rounded_to_the_policy(policy, asked, taken):
    claim_spec = spec(take(asked) if asked else exactly())
    results = allocate(snapshot([resource_slice(devices=[shared(policy)])]), NODE, [claim(claim_spec)])
    amounts = [str(one.consumed["memory"]) for result in results or () for one in result.devices]
    assert amounts == ([taken] if taken else [])


def test_names_of_capacities_are_compared_as_written():
    claim_spec = spec(exactly(1, capacity={"requests": {"gpu.nvidia.com/memory": "1Gi"}}))
    assert given(snapshot(eight()), claim_spec) is None
    assert given(snapshot(eight()), spec(take("79Gi"))) == [["gpu-0"]]
    assert given(snapshot(eight()), spec(take("80Gi"))) is None


def test_one_request_takes_several_shares_from_several_devices():
    other = shared() | {"name": "gpu-1"}
    seen = snapshot([resource_slice(devices=[shared(), other])])
    assert given(seen, spec(exactly(2, capacity={"requests": {"memory": "1Gi"}}))) == [["gpu-0", "gpu-1"]]
