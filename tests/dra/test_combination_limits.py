"""Specs are combined up to the limits of the API, with constraints and configuration of their own part."""

import pytest

from dra.combination import (
    CannotCombineError,
    alternative_name,
    combine_specs,
    first_available,
    request_names,
    select_alternatives,
)
from tests.dra.clusters import PCIE, ask, exactly, spec

OPAQUE = {"opaque": {"driver": "d", "parameters": {}}}


def test_each_part_keeps_its_requests_constraints_and_configuration_to_itself():
    offered = {"name": "any", "firstAvailable": [{"name": "a", **ask(1)}, {"name": "b", **ask(2)}]}
    pair = spec(
        exactly(2, name="gpu"),
        offered,
        constraints=[PCIE, {**PCIE, "requests": ["any/b", "gpu"]}],
        config=[{**OPAQUE, "requests": ["any"]}],
    )
    assert combine_specs([("One GPU", spec(exactly(1), config=[OPAQUE])), ("pair", pair)]) == {
        "devices": {
            "requests": [
                exactly(1, name="one-gpu"),
                exactly(2, name="pair-gpu"),
                offered | {"name": "pair-any"},
            ],
            "constraints": [
                {**PCIE, "requests": ["pair-gpu", "pair-any"]},
                {**PCIE, "requests": ["pair-any/b", "pair-gpu"]},
            ],
            "config": [
                {**OPAQUE, "requests": ["one-gpu"]},
                {**OPAQUE, "requests": ["pair-any"]},
            ],
        }
    }
    assert combine_specs([("a", spec(exactly(1)))]) == {"devices": {"requests": [exactly(1, name="a")]}}


def parts(number, count=1, **more):
    return [(f"p{at}", spec(exactly(count), **more)) for at in range(number)]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (parts(32), ""),
        (parts(33), "The profiles have 33 requests in total; the limit per claim is 32."),
        (parts(2, 16), ""),
        (
            [*parts(2, 16), ("more", spec(exactly(1)))],
            "The profiles have 33 devices in total; the limit per claim is 32.",
        ),
        (parts(2, constraints=[PCIE] * 16), ""),
        (
            [*parts(2, constraints=[PCIE] * 16), ("more", spec(exactly(1), constraints=[PCIE]))],
            "The profiles have 33 constraints in total; the limit per claim is 32.",
        ),
        (parts(2, config=[OPAQUE] * 16), ""),
        (
            [*parts(2, config=[OPAQUE] * 16), ("more", spec(exactly(1), config=[OPAQUE]))],
            "The profiles have 33 configurations in total; the limit per claim is 32.",
        ),
        ([*parts(1), ("P0", spec(exactly(1)))], "P0 is listed twice: two requests would be named p0."),
    ],
)
def test_specs_combine_up_to_the_limits_of_a_claim(wanted, said):
    if not said:
        assert len(combine_specs(wanted)["devices"]["requests"]) == len(wanted)
        return
    with pytest.raises(CannotCombineError) as refusal:
        combine_specs(wanted)
    assert refusal.value.message == said


def test_names_of_requests_stay_labels():
    several = spec(exactly(name="gpu"), exactly(name="b" * 63), exactly(name="c" * 61))
    assert request_names("x" * 70, several) == {
        "gpu": f"{'x' * 59}-gpu",
        "b" * 63: "b" * 63,
        "c" * 61: f"x-{'c' * 61}",
    }
    assert request_names("ab-" + "x" * 70, spec(exactly(name="c" * 59), exactly())) == {
        "c" * 59: f"ab-{'c' * 59}",
        "gpu": f"ab-{'x' * 56}-gpu",
    }
    assert [alternative_name(name) for name in ("H100 80 GB!", "-a-", "x" * 64, "a" * 62 + "-b")] == [
        *("h100-80-gb", "a", "x" * 63, "a" * 62)
    ]


def options(number):
    return [(f"o{at}", spec(exactly(1, name="own"))) for at in range(number)]


def test_up_to_eight_specs_become_alternatives():
    assert len(first_available(options(8))["devices"]["requests"][0]["firstAvailable"]) == 8
    with pytest.raises(CannotCombineError, match="There are 9 alternatives; the limit per request is 8"):
        first_available(options(9))


def test_an_alternative_takes_constraints_and_configuration_along():
    first = spec(exactly(1, name="own", adminAccess=False), constraints=[PCIE, PCIE])
    second = spec(exactly(2, name="other"), config=[{**OPAQUE, "requests": ["other"]}], constraints=[PCIE])
    assert first_available([("First", first), ("Second", second)]) == {
        "devices": {
            "requests": [
                {
                    "name": "own",
                    "firstAvailable": [{"name": "first", **ask(1)}, {"name": "second", **ask(2)}],
                }
            ],
            "constraints": [
                *[{**PCIE, "requests": ["own/first"]}] * 2,
                {**PCIE, "requests": ["own/second"]},
            ],
            "config": [{**OPAQUE, "requests": ["own/second"]}],
        }
    }


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (("O0", spec(exactly(1))), "O0 is listed twice in the alternatives."),
        (("x", spec()), "x has 0 requests; an alternative can have only one."),
        (
            ("x", spec(exactly(1), exactly(1, name="b"))),
            "x has 2 requests; an alternative can have only one.",
        ),
        (
            ("x", spec({"name": "g", "firstAvailable": [{"name": "a", **ask(1)}]})),
            "x has alternatives of its own; alternatives cannot be nested.",
        ),
        (
            ("x", spec(exactly(1, adminAccess=True))),
            "x has admin access, which alternatives cannot use.",
        ),
    ],
)
def test_invalid_alternative_is_refused(second, said):
    with pytest.raises(CannotCombineError) as refusal:
        first_available([*options(1), second])
    assert refusal.value.message == said


def test_only_the_alternatives_that_were_chosen_are_kept():
    ways = [{"name": name, **ask(1)} for name in "abc"]
    claim_spec = spec(
        {"name": "g", "firstAvailable": ways}, {"name": "h", "firstAvailable": ways}, exactly(), more=1
    )
    kept = select_alternatives(claim_spec, ["g/a", "g/c", "gpu", "h/x"])
    assert kept == spec(
        {"name": "g", "firstAvailable": [ways[0], ways[2]]},
        {"name": "h", "firstAvailable": ways},
        exactly(),
        more=1,
    )
