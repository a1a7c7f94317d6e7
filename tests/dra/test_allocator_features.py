"""The allocator does with each feature off what Kubernetes does: refuse the claim, or overlook the device."""

import pytest

from dra.allocator import AllocationError, allocate
from dra.features import NEWEST, Features
from tests.dra.clusters import NODE, claim, exactly, given, gpu, node, resource_slice, snapshot, spec

INCUBATING = Features(device_binding_and_status=True)
SHARED = {"allowMultipleAllocations": True}


def seen(devices, features, **more):
    return snapshot([resource_slice(devices=devices)], features=features, **more)


def one_of(devices, features, **more):
    return given(seen(devices, features), spec(exactly(**more)))


@pytest.mark.parametrize(
    ("claim_spec", "features", "said"),
    [
        (exactly(adminAccess=True), Features(), "AdminAccess is off"),
        (exactly(adminAccess=False), Features(), "AdminAccess is off"),
        ({"name": "gpu", "firstAvailable": [exactly()["exactly"]]}, Features(), "PrioritizedList is off"),
        (exactly(capacity={}), INCUBATING, "ConsumableCapacity is off"),
        (
            exactly(derivedAttributes=[{"name": "a/b", "expression": "1"}]),
            NEWEST,
            "DerivedAttributes is off",
        ),
    ],
)
def test_asking_for_what_is_off_is_an_error(claim_spec, features, said):
    with pytest.raises(AllocationError, match=said):
        given(seen([gpu(0)], features), spec(claim_spec))


def test_the_stable_allocator_overlooks_capacity_and_sharing():
    shareable = gpu(0, **SHARED)
    claim_spec = spec(exactly(capacity={"requests": {"memory": "1Gi"}}))
    (result,) = allocate(seen([shareable], Features()), NODE, [claim(claim_spec)])
    assert "shareID" not in result.as_dict()["devices"]["results"][0]
    assert given(seen([shareable], Features()), claim_spec, claim_spec) is None
    assert given(seen([shareable], NEWEST), claim_spec, claim_spec) == [["gpu-0"], ["gpu-0"]]


def test_the_stable_allocator_shows_selectors_no_sharing():
    devices = [gpu(0, **SHARED), gpu(1)]
    claim_spec = spec(exactly(1, "!device.allowMultipleAllocations"))
    assert given(seen(devices, Features()), claim_spec) == [["gpu-0"]]
    assert given(seen(devices, NEWEST), claim_spec) == [["gpu-1"]]


def test_the_stable_allocator_does_not_know_distinct_attributes():
    constraint = {"distinctAttribute": "gpu.nvidia.com/uuid"}
    claim_spec = spec(exactly(2), constraints=[constraint])
    assert given(seen([gpu(0), gpu(1)], INCUBATING), claim_spec) == [["gpu-0", "gpu-1"]]
    with pytest.raises(AllocationError, match="names no attribute"):
        given(seen([gpu(0), gpu(1)], Features()), claim_spec)


def test_taints_count_where_they_are_known():
    devices = [gpu(0, taints=[{"key": "k", "effect": "NoSchedule"}]), gpu(1)]
    assert one_of(devices, Features()) == [["gpu-0"]]
    assert one_of(devices, Features(device_taints=True)) == [["gpu-1"]]


def test_devices_with_binding_conditions_need_the_feature():
    devices = [gpu(0, bindingConditions=["ready"]), gpu(1)]
    assert one_of(devices, Features(consumable_capacity=True)) == [["gpu-1"]]
    (result,) = allocate(seen(devices, INCUBATING), NODE, [claim(spec(exactly()))])
    assert result.as_dict()["devices"]["results"][0]["bindingConditions"] == ["ready"]


def test_devices_that_take_counters_need_partitioning():
    sets = [{"name": "s", "counters": {"memory": {"value": "3"}}}]
    takes = [{"counterSet": "s", "counters": {"memory": {"value": "2"}}}]
    slices = [
        resource_slice(name="a", slices=2, devices=[gpu(0, consumesCounters=takes), gpu(1)]),
        resource_slice(name="b", slices=2, sharedCounters=sets),
    ]
    claim_spec = spec(exactly())
    assert given(snapshot(slices, features=Features(partitionable_devices=True)), claim_spec) == [["gpu-0"]]
    assert given(snapshot(slices, features=Features()), claim_spec) == [["gpu-1"]]


def test_devices_that_are_placed_one_by_one_need_partitioning():
    slices = [resource_slice(devices=[gpu(0, allNodes=True)], perDeviceNodeSelection=True)]
    claim_spec = spec(exactly())
    assert given(snapshot(slices), claim_spec) == [["gpu-0"]]
    assert given(snapshot(slices, features=Features()), claim_spec) is None


def test_bindings_to_a_node_are_written_by_all_but_the_stable_allocator():
    slices = [resource_slice("p", [gpu(0, bindsToNode=True)], allNodes=True)]
    (result,) = allocate(snapshot(slices), NODE, [claim(spec(exactly()))])
    assert "nodeSelector" in result.as_dict()
    (result,) = allocate(snapshot(slices, features=Features()), NODE, [claim(spec(exactly()))])
    assert "nodeSelector" not in result.as_dict()


def linked(number, *links):
    return gpu(number, attributes={"links": {"ints": list(links)}})


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [("matchAttribute", ["gpu-0", "gpu-1", "gpu-3"]), ("distinctAttribute", None)],
)
def test_list_attributes_are_compared_as_sets(constraint, expected):
    devices = [linked(0, 1, 2), linked(1, 2, 3), linked(2, 1), linked(3, 2)]
    claim_spec = spec(exactly(3), constraints=[{constraint: "gpu.nvidia.com/links"}])
    with_lists = Features(list_type_attributes=True)
    assert given(seen(devices, with_lists), claim_spec) == (expected and [expected])
    pair = spec(exactly(2), constraints=[{"distinctAttribute": "gpu.nvidia.com/links"}])
    assert given(seen(devices, with_lists), pair) == [["gpu-1", "gpu-2"]]
    assert given(seen(devices, NEWEST), claim_spec) is None


def derived(expression, **more):
    attribute = {"name": "own/kind", "expression": expression}
    return spec(
        exactly(2, derivedAttributes=[attribute]), constraints=[{"matchAttribute": "own/kind"} | more]
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.attributes['gpu.nvidia.com'].productName", [["gpu-0", "gpu-2"]]),
        ("size(device.attributes['gpu.nvidia.com'].productName)", [["gpu-0", "gpu-1"]]),
        ("semver('1.0.0')", [["gpu-0", "gpu-1"]]),
        ("device.attributes['gpu.nvidia.com'].uuid // of each its own", None),
        ("[1, 2]", None),  # a list, where lists are off
    ],
)
def test_attributes_may_be_derived_by_the_request(expression, expected):
    devices = [gpu(0, product="A"), gpu(1, product="B"), gpu(2, product="A")]
    on = Features(derived_attributes=True)
    assert given(seen(devices, on), derived(expression)) == expected
    listed = Features(derived_attributes=True, list_type_attributes=True)
    assert given(seen(devices, listed), derived("[1, 2]")) == [["gpu-0", "gpu-1"]]
    assert given(seen(devices, listed), derived("[]")) is None


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("device.attributes['gpu.nvidia.com'].nope", "no such key: nope"),
        ("1.5", "1.5 is not a string, int, bool or version"),
        ("[dyn(1), dyn('a')]", "a list of int and string"),
        ("device.attributes[", "compilation failed"),
        ("", "compilation failed"),
    ],
)
def test_a_derived_attribute_that_cannot_be_told_is_an_error(expression, said):
    with pytest.raises(AllocationError, match=said):
        given(seen([gpu(0), gpu(1)], Features(derived_attributes=True)), derived(expression))


def test_a_derived_attribute_that_no_constraint_names_is_not_evaluated():
    claim_spec = derived("device.nonsense", matchAttribute="gpu.nvidia.com/productName")
    assert given(seen([gpu(0), gpu(1)], Features(derived_attributes=True)), claim_spec) == [
        ["gpu-0", "gpu-1"]
    ]


def test_what_is_stored_may_use_what_is_off():
    claim_spec = spec(exactly(1, "device.allowMultipleAllocations || [1].includes(1)"))
    assert given(seen([gpu(0)], Features(consumable_capacity=True)), claim_spec) == [["gpu-0"]]


def grouped(number, *groups):
    takes = {"counterSet": "s", "counters": {"memory": {"value": "1"}}}
    return gpu(number, consumesCounters=[takes | ({"compatibilityGroups": list(groups)} if groups else {})])


def test_devices_of_a_counter_set_need_a_compatibility_group_in_common():
    sets = [{"name": "s", "counters": {"memory": {"value": "9"}}}]
    slices = [
        resource_slice(name="a", slices=2, devices=[grouped(0, "x"), grouped(1, "y"), grouped(2, "x", "y")]),
        resource_slice(name="b", slices=2, sharedCounters=sets),
    ]
    on = Features(partitionable_devices=True, compatibility_groups=True)
    assert given(snapshot(slices, features=on), spec(exactly(2))) == [["gpu-0", "gpu-2"]]
    assert given(snapshot(slices, features=on), spec(exactly(3))) is None
    assert given(snapshot(slices), spec(exactly())) is None  # off: the pool counts as incomplete
    with pytest.raises(AllocationError, match="1 of 2 slices"):
        given(snapshot(slices), spec(exactly(0, allocationMode="All")))


def test_operations_that_are_left_out_need_a_node_that_says_so():
    slices = [resource_slice(devices=[gpu(0)], skipNodeOperations=["NodePrepareResources"])]
    on = snapshot(slices, features=Features(optional_node_operations=True))
    able = node() | {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    assert given(on, spec(exactly())) is None
    (result,) = allocate(on, able, [claim(spec(exactly()))])
    assert result.as_dict()["devices"]["results"][0]["skipNodeOperations"] == ["NodePrepareResources"]
    assert given(snapshot(slices), spec(exactly())) == [["gpu-0"]]
