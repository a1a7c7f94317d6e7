"""Several specs become one claim that takes them all, or a sentence says why they cannot."""

import pytest

from dra import quota
from dra.combination import CannotCombineError, combine_specs, request_names
from dra.match import preview
from dra.validation import problems
from tests.dra.clusters import NVIDIA, PCIE, exactly, given, gpu, holds, resource_slice, snapshot, spec

BIG = f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("79Gi")) >= 0'
SMALL = f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("79Gi")) < 0'


def test_all_are_taken_or_none():
    made = combine_specs([("train-80", spec(exactly(2, BIG))), ("any_gpu", spec(exactly(1, SMALL)))])
    assert problems(made, {NVIDIA}) == []
    assert [one["name"] for one in made["devices"]["requests"]] == ["train-80", "any-gpu"]
    slices = [resource_slice(devices=[gpu(0, memory="24Gi"), gpu(1), gpu(2)])]
    assert sorted(given(snapshot(slices), made)[0]) == ["gpu-0", "gpu-1", "gpu-2"]
    assert not preview(snapshot(slices, holds("gpu-0")), made).fits
    assert quota.charge(made) == {NVIDIA: 3}


def test_constraints_and_configuration_stay_with_their_part():
    opaque = {"driver": NVIDIA, "parameters": {"sharing": "TimeSlicing"}}
    pair = spec(exactly(2), constraints=[PCIE], config=[{"opaque": opaque, "requests": ["gpu"]}])
    made = combine_specs([("pair", pair), ("apart", spec(exactly(1)))])
    assert problems(made, {NVIDIA}) == []
    assert made["devices"]["constraints"] == [{**PCIE, "requests": ["pair"]}]
    assert made["devices"]["config"] == [{"opaque": opaque, "requests": ["pair"]}]


def test_the_requests_of_a_part_with_several_are_called_after_it():
    two = spec(exactly(1), exactly(1, name="nic"), constraints=[{**PCIE, "requests": ["gpu", "nic"]}])
    made = combine_specs([("train", two), ("more", spec(exactly(1)))])
    assert [one["name"] for one in made["devices"]["requests"]] == ["train-gpu", "train-nic", "more"]
    assert made["devices"]["constraints"][0]["requests"] == ["train-gpu", "train-nic"]
    assert problems(made, {NVIDIA}) == []


def test_alternatives_of_a_part_keep_their_names():
    either = {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": NVIDIA}]}
    made = combine_specs(
        [("a", spec(either, constraints=[{**PCIE, "requests": ["gpu/big"]}])), ("b", spec(exactly()))]
    )
    assert made["devices"]["constraints"][0]["requests"] == ["a/big"]
    assert problems(made, {NVIDIA}) == []


def test_names_stay_labels_however_long_they_are():
    names = request_names("s" * 40, spec(exactly(1, name="a" * 63), exactly(1, name="b" * 62)))
    assert all(len(name) <= 63 and not name.startswith("-") for name in names.values())


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([("a", spec(exactly())), ("A", spec(exactly()))], "A is listed twice"),
        ([("a", spec(exactly(20))), ("b", spec(exactly(13)))], "The profiles have 33 devices in total"),
        ([(f"p{number}", spec(exactly())) for number in range(33)], "The profiles have 33 requests in total"),
    ],
)
def test_invalid_combination_is_refused(parts, said):
    with pytest.raises(CannotCombineError, match=said):
        combine_specs(parts)
