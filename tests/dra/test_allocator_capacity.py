"""Amounts of capacity are rounded and refused as upstream does it, thousandths and 64 bits included."""

import pytest

from dra.allocator import AllocationError, allocate
from dra.features import NEWEST, Features
from tests.dra.clusters import NODE, claim, exactly, gpu, resource_slice, snapshot, spec

FRACTIONAL = Features(consumable_capacity=True, fractional_capacity_range=True)
WHOLE = Features(consumable_capacity=True)


def taken(policy, asked, value="40", features=NEWEST):
    device = gpu(0, allowMultipleAllocations=True)
    device["capacity"] = {"slots": {"value": value, "requestPolicy": policy}}
    requests = {} if asked is None else {"slots": asked}
    claim_spec = spec(exactly(1, capacity={"requests": requests}))
    results = allocate(
        snapshot([resource_slice(devices=[device])], features=features), NODE, [claim(claim_spec)]
    )
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


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        ({}, "0", "0"),
        ({}, "10E", "10E"),
        ({}, "10000000000000000001", None),
        ({"validValues": ["5", "10"]}, "5", "5"),
        ({"validValues": ["5", "10"]}, "5001m", "10"),
        ({"validValues": ["5", "10"]}, "10001m", None),
        ({"validValues": ["5", "10"]}, None, None),
        ({"validRange": {"min": "1k"}}, "1e3", "1e3"),
        ({"validRange": {"min": "1k"}}, "999", "1k"),
        ({"validRange": {"min": "2", "max": "8", "step": "3"}}, "2", "2"),
        ({"validRange": {"min": "2", "max": "8", "step": "3"}}, "5001m", "8"),
        ({"validRange": {"min": "2", "max": "8", "step": "3"}}, "8001m", None),
        ({"validRange": {"min": "1", "step": "1"}}, "9223372036854775807", "9223372036854775807"),
        ({"default": "8Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}, "7200Mi", "8Gi"),
        ({"default": "8Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}, "7Gi", None),
        ({"default": "8Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}, None, "8Gi"),
        ({"default": "1.5Gi", "validValues": ["1Gi"]}, "1.5Gi", None),  # neither form equals any other
        ({"default": "1.00000000001", "validRange": {"min": "1", "step": "1"}}, None, "1000000001n"),
    ],
)
def test_an_amount_is_rounded_up_to_what_the_policy_allows_and_no_further(policy, asked, expected):
    assert taken(policy, asked, value="10E") == expected


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        ({"validRange": {"min": "0", "step": "500m"}}, "1200m", "1500m"),
        ({"validRange": {"min": "1", "step": "1m"}}, "1500m", "1500m"),
        ({"validRange": {"min": "1u", "step": "500m"}}, "1500m", "2"),  # a bound that is finer
        ({"validRange": {"min": "1", "max": "10E", "step": "500m"}}, "1500m", "2"),  # one beyond 64 bits
        ({"validRange": {"min": "1", "max": "9223372036854775808m", "step": "500m"}}, "1500m", "2"),
        ({"validRange": {"min": "1", "max": "9223372036854775807m", "step": "500m"}}, "1500m", "1500m"),
        ({"default": "0.250", "validRange": {"min": "50m", "max": "200m", "step": "50m"}}, "201m", "250m"),
        ({"default": "250m", "validRange": {"min": "50m", "max": "200m", "step": "50m"}}, "201m", None),
        ({"default": "1.00000000001", "validRange": {"min": "1", "step": "1m"}}, None, None),
        ({"default": "1.5Ei", "validRange": {"min": "1", "step": "1m"}}, None, None),
        ({"default": "1.5Ki", "validRange": {"min": "1", "step": "1m"}}, None, "1536"),
    ],
)
def test_amounts_are_counted_in_thousandths_only_where_all_bounds_are_whole_ones(policy, asked, expected):
    assert taken(policy, asked, value="7Ei", features=FRACTIONAL) == expected


def test_every_capacity_of_a_device_is_looked_at():
    device = gpu(0, allowMultipleAllocations=True)
    device["capacity"] = {
        "memory": {"value": "40Gi"},
        "slots": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    }
    seen = snapshot([resource_slice(devices=[device])])

    def consumed(**asked):
        results = allocate(seen, NODE, [claim(spec(exactly(1, capacity={"requests": asked})))])
        return results and results[0].as_dict()["devices"]["results"][0]["consumedCapacity"]

    assert consumed(memory="1Gi") == {"memory": "1Gi", "slots": "1"}
    assert consumed(slots="2") == {"memory": "40Gi", "slots": "2"}
    assert consumed(memory="1Gi", slots="3") is None
    assert consumed(memory="41Gi", slots="1") is None
    assert consumed(memory="1Gi", bandwidth="1") is None


def test_a_device_without_capacity_is_given_to_who_asks_for_none():
    device = gpu(0)
    del device["capacity"]
    seen = snapshot([resource_slice(devices=[device])])
    assert allocate(seen, NODE, [claim(spec(exactly()))]) is not None
    assert allocate(seen, NODE, [claim(spec(exactly(1, capacity={"requests": {"memory": "0"}})))]) is None
