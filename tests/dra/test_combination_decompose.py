"""What `together` made is taken apart to the same parts, whatever its requests are called."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claims.catalogue.presets import presets
from dra.combination import CannotCombineError, KnownProfile, combine_specs, decompose, with_positional_names
from dra.manifests import with_count
from dra.objects import requests
from tests.dra.clusters import NVIDIA, PCIE, exactly, spec

PRESETS = [
    KnownProfile(entry.slug, entry.spec, entry.limits.scalable, entry.limits.max_devices)
    for entry in presets()
]
OTHER = "mig.nvidia.com"


def sized(known, count):
    return with_count(known.spec, known.scalable, count) if known.scalable else known.spec


def made_of(parts):
    return combine_specs([(known.name, sized(known, count)) for known, count in parts])


def told(found):
    return [(part.profile.name, part.similarity.count) for part in found.parts]


def renamed(one):
    """The same with other names of its requests."""
    names = {request["name"]: f"r{at}" for at, request in enumerate(requests(one))}

    def other(name):
        request, slash, way = name.partition("/")
        return f"{names[request]}{slash}{way}"

    devices = {"requests": [{**request, "name": names[request["name"]]} for request in requests(one)]}
    for kind in ("constraints", "config"):
        if rows := one["devices"].get(kind):
            devices[kind] = [{**row, "requests": [*map(other, row["requests"])]} for row in rows]
    return {"devices": devices}


def standing_together():
    """Every pair of presets that may stand in one claim."""
    for pair in combinations(PRESETS, 2):
        try:
            combine_specs([(known.name, known.spec) for known in pair])
        except CannotCombineError:
            continue
        yield pair


PAIRS = list(standing_together())


@given(st.sampled_from(PAIRS), st.data())
def test_combined_presets_are_decomposed(pair, data):
    parts = [
        (known, data.draw(st.integers(1, min(known.max_count, 8))) if known.scalable else 1)
        for known in data.draw(st.permutations(pair))
    ]
    found = decompose(made_of(parts), PRESETS)
    assert found.exact
    assert told(found) == [(known.name, count) for known, count in parts]


@given(st.lists(st.sampled_from(PRESETS), min_size=2, max_size=4, unique_by=lambda known: known.name))
def test_several_presets_ask_for_the_same_whatever_the_requests_are_called(some):
    try:
        made = made_of([(known, 1) for known in some])
    except CannotCombineError:
        return
    assert told(decompose(made, PRESETS)) == [(known.name, 1) for known in some]
    found = decompose(renamed(made), PRESETS)
    assert found.exact
    assert with_positional_names(found.combined.spec) == with_positional_names(made)


BIG = KnownProfile("big", spec(exactly(1)), "gpu", 8)
PART = KnownProfile("part", spec(exactly(1, class_name=OTHER)), "gpu", 8)
TWIN = KnownProfile("twin", spec(exactly(1, class_name=OTHER)), "gpu", 8)
BOTH = KnownProfile(
    "both",
    spec(
        exactly(1, class_name=OTHER, name="a"),
        exactly(1, class_name=OTHER, name="b"),
        constraints=[{**PCIE, "requests": ["a", "b"]}],
    ),
)


def test_a_part_may_have_several_requests_with_a_constraint_of_its_own():
    made = made_of([(BIG, 2), (BOTH, 1)])
    found = decompose(renamed(made), [PART, BIG, BOTH])
    assert found.exact
    assert told(found) == [("big", 2), ("both", 1)]


def test_of_two_that_ask_for_the_same_the_name_decides():
    for wanted in (PART, TWIN):
        assert told(decompose(made_of([(BIG, 1), (wanted, 1)]), [BIG, PART, TWIN]))[1] == (wanted.name, 1)


def test_nothing_is_named_twice():
    made = made_of([(PART, 1), (TWIN, 2)])
    assert told(decompose(renamed(made), [PART, TWIN])) == [("part", 1), ("twin", 2)]
    assert decompose(made, [PART]) is None


def test_what_differs_is_said_beside_its_part():
    made = made_of([(BIG, 2), (PART, 1)])
    made["devices"]["requests"][1]["exactly"]["selectors"] = [{"cel": {"expression": "true"}}]
    found = decompose(made, [BIG, PART])
    assert not found.exact
    assert [part.similarity.differences for part in found.parts] == [
        (),
        ("Only in the file: selector true",),
    ]


def test_what_ties_parts_together_is_a_difference_of_the_whole():
    made = made_of([(BIG, 2), (PART, 1)])
    made["devices"]["constraints"] = [{**PCIE, "requests": ["big", "part"]}]
    found = decompose(made, [BIG, PART])
    assert [part.similarity.exact for part in found.parts] == [True, True]
    (said,) = found.combined.differences
    assert said.startswith("Only in the file: constraint")
    del made["devices"]["constraints"][0]["requests"]  # and so is one that is for all requests
    assert not decompose(made, [BIG, PART]).exact


@pytest.mark.parametrize(
    ("one", "known"),
    [
        (spec(exactly(1)), [BIG, PART]),
        (spec(exactly(1), exactly(1, name="b")), []),
        (spec(exactly(1), exactly(1, class_name="tpu.google.com", name="b")), [BIG, PART]),
        (BOTH.spec, [BOTH]),
    ],
)
def test_what_is_not_made_of_several_is_not_taken_apart(one, known):
    assert decompose(one, known) is None


def test_more_than_a_profile_allows_is_a_difference():
    made = made_of([(BIG, 2), (PART, 1)])
    made["devices"]["requests"][0]["exactly"]["count"] = 9
    found = decompose(made, [BIG, PART])
    assert found.parts[0].similarity.differences == ("Number of devices: 9 in the file, 8 in the profile.",)
    assert NVIDIA in str(found.combined.spec)


def test_many_requests_and_many_known_specs_take_few_steps():
    known = [
        KnownProfile(f"k{number}", spec(exactly(1, f"device.driver == 'd{number}'")), "gpu", 8)
        for number in range(40)
    ]
    found = decompose(renamed(made_of([(one, 1) for one in known[:32]])), known)
    assert found.exact
    assert len(found.parts) == 32


def test_many_equal_profiles_take_few_steps():
    known = [KnownProfile(f"k{number}", spec(exactly(1)), "gpu", 8) for number in range(24)]
    found = decompose(renamed(made_of([(one, 1) for one in known])), known)
    assert found.exact
    assert len({part.index for part in found.parts}) == 24
