"""Features: what each Kubernetes version has on, and which allocator of upstream runs with it."""

import pytest

from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features, Implementation, newer_than_known


@pytest.mark.parametrize(
    ("minor", "on"),
    [
        (34, {"AdminAccess", "PrioritizedList"}),
        (35, {"AdminAccess", "PrioritizedList"}),
        (
            36,
            {
                "AdminAccess",
                "ConsumableCapacity",
                "DeviceBindingAndStatus",
                "DeviceTaints",
                "PartitionableDevices",
                "PrioritizedList",
            },
        ),
    ],
)
def test_a_version_has_the_switches_that_were_on_by_default(minor, on):
    features = Features.of_version(minor)
    assert {name for name, field in Features.switches().items() if getattr(features, field)} == on


def test_37_leaves_fractional_ranges_off_and_later_versions_count_as_37():
    now = Features.of_version(37)
    assert not now.fractional_capacity_range
    assert Features.of_version(38) == now
    assert Features.of_version(31) == Features.of_version(34)


@pytest.mark.parametrize(
    ("switch", "implementation"),
    [
        ("AdminAccess", Implementation.STABLE),
        ("PrioritizedList", Implementation.STABLE),
        ("PartitionableDevices", Implementation.STABLE),
        ("DeviceTaints", Implementation.STABLE),
        ("ConsumableCapacity", Implementation.INCUBATING),
        ("FractionalCapacityRange", Implementation.INCUBATING),
        ("DeviceBindingAndStatus", Implementation.INCUBATING),
        ("ListTypeAttributes", Implementation.EXPERIMENTAL),
        ("DerivedAttributes", Implementation.EXPERIMENTAL),
        ("CompatibilityGroups", Implementation.EXPERIMENTAL),
        ("OptionalNodeOperations", Implementation.EXPERIMENTAL),
    ],
)
def test_the_first_implementation_that_knows_every_switch_runs(switch, implementation):
    assert Features.of_switches({switch: True}).implementation is implementation
    assert Features.of_switches({switch: False}) == Features()


def test_a_switch_that_upstream_does_not_have_is_refused():
    with pytest.raises(KeyError):
        Features.of_switches({"Teleportation": True})


def test_a_picture_has_the_newest_features_and_carries_others_on():
    assert ClusterSnapshot().features == Features.of_version(37)
    assert ClusterSnapshot(features=Features()).after(claims=[]).features == Features()


def published(**spec):
    return {"spec": {"devices": [spec.pop("device", {})], **spec}}


SEEN = [
    (published(sharedCounters=[{"name": "s"}]), "PartitionableDevices"),
    (published(perDeviceNodeSelection=True), "PartitionableDevices"),
    (published(device={"consumesCounters": [{"counterSet": "s"}]}), "PartitionableDevices"),
    (published(device={"taints": [{"key": "k", "effect": "None"}]}), "DeviceTaints"),
    (published(device={"bindingConditions": ["c"]}), "DeviceBindingAndStatus"),
    (published(device={"bindsToNode": True}), "DeviceBindingAndStatus"),
    (published(device={"allowMultipleAllocations": True}), "ConsumableCapacity"),
    (
        published(device={"capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}),
        "ConsumableCapacity",
    ),
    (published(device={"attributes": {"a": {"strings": ["x"]}}}), "ListTypeAttributes"),
    (published(skipNodeOperations=["NodePrepareResources"]), "OptionalNodeOperations"),
]


@pytest.mark.parametrize(("resource_slice", "switch"), SEEN)
def test_a_feature_whose_field_a_slice_has_is_on(resource_slice, switch):
    assert getattr(Features.seen_in([resource_slice]), Features.switches()[switch])
    assert (
        Features.seen_in([published(device={"attributes": {"a": {"string": "x"}}, "taints": []})])
        == Features()
    )


@pytest.mark.parametrize(
    ("field", "switch"),
    [("shareID", "ConsumableCapacity"), ("adminAccess", "AdminAccess"), ("tolerations", "DeviceTaints")],
)
def test_a_feature_whose_field_an_allocated_claim_has_is_on(field, switch):
    claim = {"status": {"allocation": {"devices": {"results": [{"device": "d", field: ["x"]}]}}}}
    assert Features.seen_in(claims=[{}, claim]) == Features.of_switches({switch: True})


@pytest.mark.parametrize(
    ("version", "told"),
    [("v1.38.0-beta.0", True), ("v2.0", False), ("v1.37.9", False), ("", False), ("v1.40", True)],
)
def test_a_version_newer_than_the_known_ones_is_told(version, told):
    sentence = newer_than_known(version)
    assert bool(sentence) == told
    assert not told or ("up to 1.37" in sentence and version[1:5] in sentence)
