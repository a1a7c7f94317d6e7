"""Features: what each Kubernetes version has on, and which allocator of upstream runs with it."""

import pytest

from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features, Implementation


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
