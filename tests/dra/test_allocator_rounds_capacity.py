"""Amounts of capacity are rounded and refused as upstream does it, thousandths and 64 bits included."""

import pytest

from dra.allocator import AllocationError, allocate
from dra.features import NEWEST, Features
from tests.dra.clusters import NODE, claim, exactly, gpu, picture, resource_slice, spec

FRACTIONAL = Features(consumable_capacity=True, fractional_capacity_range=True)
WHOLE = Features(consumable_capacity=True)


def taken(policy, asked, value="40", features=NEWEST):
    device = gpu(0, allowMultipleAllocations=True)
    device["capacity"] = {"slots": {"value": value, "requestPolicy": policy}}
    wish = spec(exactly(1, capacity={"requests": {"slots": asked}}))
    results = allocate(picture([resource_slice(devices=[device])], features=features), NODE, [claim(wish)])
    written = results[0].as_dict()["devices"]["results"][0] if results else {}
    return written.get("consumedCapacity", {}).get("slots")


@pytest.mark.parametrize(
    ("asked", "whole", "fractional"),
    [("1", "1500m", "1500m"), ("1600m", "2", "2"), ("2100m", "3", "2500m"), ("2500m", "3", "2500m")],
)
def test_fractional_steps_need_the_feature(asked, whole, fractional):
    policy = {"validRange": {"min": "1500m", "step": "500m"}}
    assert taken(policy, asked, features=WHOLE) == whole
    assert taken(policy, asked, features=FRACTIONAL) == fractional


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        ({"default": "5", "validValues": ["1", "2"]}, "5", "5"),
        ({"default": "5", "validValues": ["1", "2"]}, "5.0", None),
        ({"default": "8Gi", "validValues": ["1"]}, "8192Mi", "8Gi"),  # neither is kept as text
        ({"default": "1Gi", "validValues": ["1"]}, "1024Mi", None),
        ({"validValues": []}, "7", "7"),
        ({"validRange": {"max": "3"}, "validValues": ["2", "4"]}, "1", "2"),
        ({"validRange": {"min": "1", "max": "3"}}, "3", "3"),
        ({"validRange": {"min": "1", "max": "3"}}, "4", None),
        ({"validRange": {"max": "3"}, "validValues": ["2", "4"]}, "3", None),
        ({}, "7", "7"),
    ],
)
def test_a_default_passes_whatever_the_policy_says_if_it_is_written_alike(policy, asked, expected):
    assert taken(policy, asked, value="40Gi") == expected


@pytest.mark.parametrize(
    ("policy", "asked", "said"),
    [
        ({"validRange": {"min": "1", "step": "1"}}, "9223372036854775808", "64 bits"),
        ({"validRange": {"min": "0", "step": "4"}}, "9223372036854775807", "64 bits"),
        ({"validRange": {"min": "1", "step": "0"}}, "2", "cannot be counted in"),
        ({"validRange": {"step": "2"}}, "2", "no minimum"),
        ({}, "-1", "negative"),
    ],
)
def test_what_cannot_be_rounded_is_an_error(policy, asked, said):
    with pytest.raises(AllocationError, match=said):
        taken(policy, asked, value="100E")


def test_thousandths_are_as_fine_as_fractional_ranges_go():
    policy = {"validRange": {"min": "1", "step": "500m"}}
    with pytest.raises(AllocationError, match="thousandths"):
        taken(policy, "1500001u", features=FRACTIONAL)
    assert taken({"validRange": {"min": "1", "step": "1"}}, "1500001u", features=WHOLE) == "2"
