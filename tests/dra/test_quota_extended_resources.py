"""Which class an extended resource stands for."""

import pytest

from dra.quota import claimed_extended_resources, class_of_resource, extended_resource_names


@pytest.mark.parametrize(
    ("resource", "device_class"),
    [
        ("nvidia.com/gpu", "gpu.nvidia.com"),
        ("nvidia.com/gpu.shared", "gpu.nvidia.com"),
        ("nvidia.com/mig-1g.10gb.me", "mig.nvidia.com"),
        ("amd.com/gpu", "gpu.amd.com"),
        ("gpu.intel.com/xe", "gpu.intel.com"),
        ("deviceclass.resource.kubernetes.io/part.example.com", "part.example.com"),
        ("example.com/card", "card.example.com"),
        ("gpu.intel.com/i915", "gpu.intel.com"),
        ("gpu.intel.com/xe_monitoring", ""),
        ("nvidia.com/gpu.shared.more", ""),
        ("nvidia.com/mig-", ""),
        ("vpc.amazonaws.com/pod-eni", ""),
    ],
)
def test_a_resource_stands_for_a_class(resource, device_class):
    assert class_of_resource(resource, {"example.com/card": "card.example.com"}) == device_class


def test_of_classes_that_share_a_name_the_newest_is_taken_and_of_one_age_the_first():
    old, new = "2026-01-01T00:00:00", "2026-02-01T00:00:00"
    assert extended_resource_names([("b", "x/y", old), ("a", "x/y", old)]) == {"x/y": "a"}
    assert extended_resource_names([("a", "x/y", old), ("b", "x/y", new), ("c", "", new)]) == {"x/y": "b"}


def test_what_the_scheduler_made_a_claim_for_is_known():
    mapped = {"requestMappings": [{"containerName": "c", "resourceName": "x/y", "requestName": "r"}]}
    assert claimed_extended_resources({"status": {"extendedResourceClaimStatus": mapped}}) == {"x/y"}
    assert claimed_extended_resources({"status": None}) == frozenset()


def test_the_name_that_a_class_carries_counts_before_what_plugins_call_their_devices():
    assert class_of_resource("nvidia.com/gpu", {"nvidia.com/gpu": "own"}) == "own"
    assert (
        class_of_resource(
            "deviceclass.resource.kubernetes.io/a", {"deviceclass.resource.kubernetes.io/a": "b"}
        )
        == "a"
    )


def test_every_resource_of_a_pod_with_a_claim_is_known():
    mapped = {"requestMappings": [{"resourceName": "x/y"}, {"resourceName": "x/z"}]}
    assert claimed_extended_resources({"status": {"extendedResourceClaimStatus": mapped}}) == {"x/y", "x/z"}
    assert (
        claimed_extended_resources({})
        == claimed_extended_resources({"status": {"extendedResourceClaimStatus": {}}})
        == frozenset()
    )
