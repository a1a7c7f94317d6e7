"""Which lines of a ResourceQuota count nothing, and what should stand there instead."""

import pytest

from dra import quota

RIGHT = [
    quota.CLAIMS,
    quota.TEMPLATES,
    quota.class_quota_key("gpu.nvidia.com"),
    quota.implicit_quota_key("gpu.nvidia.com"),
    quota.extended_quota_key("nvidia.com/gpu"),
    "requests.cpu",
    "pods",
    "count/deployments.apps",
    "count/pods",
]


@pytest.mark.parametrize("key", RIGHT)
def test_a_key_that_counts_has_no_fault(key):
    assert quota.ignored_reason(key, "8") == ""


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("count/resourceclaims", "count/resourceclaims.resource.k8s.io"),
        ("count/resourceclaimtemplates", "count/resourceclaimtemplates.resource.k8s.io"),
        ("limits.nvidia.com/gpu", "requests.nvidia.com/gpu"),
        ("gpu.nvidia.com.resource.k8s.io/count", "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"),
        (
            "gpu.nvidia.com.deviceclass.resource.k8s.io/bogus",
            "gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
        ),
    ],
)
def test_a_key_without_effect_is_told_with_the_right_one(key, instead):
    said = quota.ignored_reason(key, "8")
    assert said.startswith(f"{key} counts nothing")
    assert said.endswith(f"{instead}.")


@pytest.mark.parametrize("value", ["1.5", "500m", "-1", "", "eight", "1e3"])
def test_devices_are_whole_numbers(value):
    assert "not a whole number" in quota.ignored_reason(quota.class_quota_key("gpu.nvidia.com"), value)


@pytest.mark.parametrize("name", ["gpu.nvidia.com", "mig", "a.b-c.d"])
def test_a_name_may_be_that_of_a_class(name):
    assert quota.no_class_reason(name) == ""


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        ("nvidia.com/gpu", "is not a DeviceClass"),
        ("limits.nvidia.com/gpu", "counts nothing"),
        ("count/resourceclaims", "counts nothing"),
        ("gpu.nvidia.com.deviceclass.resource.k8s.io/devices", "the class is gpu.nvidia.com."),
        ("gpu.nvidia.com.resource.k8s.io", "the class is gpu.nvidia.com."),
    ],
)
def test_a_key_typed_for_a_class_is_told(typed, part):
    assert part in quota.no_class_reason(typed)
