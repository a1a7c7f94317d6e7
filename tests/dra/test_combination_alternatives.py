"""Several specs become the alternatives of one request, or a sentence says why they cannot."""

import pytest

from dra import quota
from dra.combination import CannotCombineError, alternative_name, first_available, select_alternatives
from dra.match import preview
from dra.validation import problems
from tests.dra.clusters import NVIDIA, PCIE, exactly, given, gpu, holds, resource_slice, snapshot, spec

BIG = f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("79Gi")) >= 0'


def test_the_first_that_fits_is_taken():
    made = first_available([("train-80", spec(exactly(2, BIG))), ("any_gpu", spec(exactly(1)))])
    assert problems(made, {NVIDIA}) == []
    (request,) = made["devices"]["requests"]
    assert [one["name"] for one in request["firstAvailable"]] == ["train-80", "any-gpu"]
    slices = [resource_slice(devices=[gpu(0, memory="24Gi"), gpu(1), gpu(2)])]
    assert given(snapshot(slices), made) == [["gpu-1", "gpu-2"]]
    assert given(snapshot(slices, holds("gpu-2")), made) == [["gpu-0"]]


def test_constraints_and_configuration_stay_with_their_alternative():
    opaque = {"driver": NVIDIA, "parameters": {"sharing": "TimeSlicing"}}
    pair = spec(exactly(2), constraints=[PCIE], config=[{"opaque": opaque}])
    made = first_available([("pair", pair), ("apart", spec(exactly(2)))])
    assert problems(made, {NVIDIA}) == []
    assert made["devices"]["constraints"] == [{**PCIE, "requests": ["gpu/pair"]}]
    assert made["devices"]["config"] == [{"opaque": opaque, "requests": ["gpu/pair"]}]
    apart = snapshot([resource_slice(devices=[gpu(0), gpu(2)])])
    assert given(apart, made) == [["gpu-0", "gpu-2"]]
    assert not preview(apart, pair).fits


def test_the_worst_alternative_is_charged_until_one_is_chosen():
    made = first_available(
        [("two", spec(exactly(2))), ("part", spec(exactly(1, class_name="mig.nvidia.com")))]
    )
    assert quota.charge(made) == {NVIDIA: 2, "mig.nvidia.com": 1}
    assert quota.charge(select_alternatives(made, ["gpu/part"])) == {"mig.nvidia.com": 1}
    assert quota.charge(select_alternatives(made, [])) == quota.charge(made)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([("a", spec(exactly())), ("b", spec(exactly(), exactly(name="more")))], "b has 2 requests"),
        ([("a", spec(exactly(1, adminAccess=True)))], "a has admin access"),
        ([("a", spec({"name": "gpu", "firstAvailable": [{"name": "x"}]}))], "a has alternatives of its own"),
        ([("a", spec(exactly())), ("A", spec(exactly()))], "A is listed twice"),
        ([(f"p{number}", spec(exactly())) for number in range(9)], "There are 9 alternatives"),
    ],
)
def test_profile_that_cannot_be_combined_is_named(options, said):
    with pytest.raises(CannotCombineError, match=said):
        first_available(options)


def test_names_become_labels():
    assert alternative_name("My_Profile") == "my-profile"
    assert len(alternative_name("a" * 80)) == 63
