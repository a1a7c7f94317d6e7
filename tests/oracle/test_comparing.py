"""What counts as a difference, and how one is shrunk."""

import pytest

from tests.oracle.compare import difference
from tests.oracle.known import why_accepted
from tests.oracle.run import Verdict
from tests.oracle.shrink import shrink

FITS_NOT = {"error": None, "results": None}


def allocated(device: str = "a", **more) -> dict:
    return {"error": None, "results": [{"devices": {"results": [{"device": device, **more}]}}]}


def test_the_same_answer_is_no_difference():
    assert difference(allocated(), allocated()) == ""


def test_share_ids_may_differ_but_not_be_missing():
    assert difference(allocated(shareID="1"), allocated(shareID="2")) == ""
    assert difference(allocated(shareID="1"), allocated()) != ""


def test_nothing_empty_and_absent_are_one():
    assert difference(allocated(tolerations=None), allocated(tolerations=[])) == ""


@pytest.mark.parametrize(
    ("upstream", "ours"),
    [
        (allocated("a"), allocated("b")),
        (allocated(adminAccess=True), allocated(adminAccess=1)),
        (allocated(), FITS_NOT),
        ({"error": "no class", "results": None}, FITS_NOT),
        (FITS_NOT, {"crash": "KeyError"}),
        ({"error": "aborted", "timeout": True, "results": None}, FITS_NOT),
    ],
)
def test_another_device_end_or_kind_of_failure_is_a_difference(upstream, ours):
    assert difference(upstream, ours) != ""


def test_the_wording_of_errors_is_ours():
    assert difference({"error": "x", "results": None}, {"error": "y", "results": None}) == ""


def test_where_upstream_answers_this_or_that_each_is_right():
    upstream = allocated("a") | {"also": [allocated("b")]}
    assert difference(upstream, allocated("b")) == ""
    assert difference(upstream, allocated("c")) != ""


@pytest.mark.parametrize(("steps", "accepted"), [(20_000, True), (20, False)])
def test_giving_up_is_accepted_only_where_upstream_searches_long(steps, accepted):
    upstream, ours = FITS_NOT | {"steps": steps}, {"error": "too long", "gaveUp": True, "results": None}
    assert bool(why_accepted(Verdict({}, upstream, ours, "differs"))) is accepted


def slices(count: int) -> list[dict]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": count}
    return [
        {"spec": {"driver": "d", "pool": dict(pool), "devices": [{"name": str(n)}]}} for n in range(count)
    ]


def test_a_difference_is_shrunk_to_what_it_needs():
    def judge(cases):
        """Differ wherever device 2 is there."""
        return [
            Verdict(case, {}, {}, "differs" if '"2"' in str(case).replace("'", '"') else "") for case in cases
        ]

    case = {"name": "n", "classes": [1, 2, 3], "slices": slices(4)}
    [kept] = shrink(judge([case])[0], judge).case["slices"]
    assert kept["spec"]["devices"] == [{"name": "2"}]
    assert kept["spec"]["pool"]["resourceSliceCount"] == 1
