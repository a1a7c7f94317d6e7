"""Constraints over values of every type, and compatibility groups of counter sets over several devices."""

import pytest

from dra.features import Features
from tests.dra.clusters import NVIDIA, ask, exactly, given, gpu, holds, resource_slice, snapshot, spec

LISTS = Features(list_type_attributes=True)
MATCH = {"matchAttribute": f"{NVIDIA}/v"}
DISTINCT = {"distinctAttribute": f"{NVIDIA}/v"}


def valued(*values):
    devices = [gpu(number, attributes={} if one is None else {"v": one}) for number, one in enumerate(values)]
    return [resource_slice(devices=devices)]


@pytest.mark.parametrize(
    ("left", "right", "scalars", "lists"),
    [
        ({"string": "ab"}, {"string": "ab"}, True, True),
        ({"string": "ab"}, {"string": "bc"}, False, False),
        ({"int": 0}, {"int": 0}, True, True),
        ({"int": 1}, {"int": 2}, False, False),
        ({"bool": False}, {"bool": False}, True, True),
        ({"bool": True}, {"bool": False}, False, False),
        ({"version": "1.0.0"}, {"version": "1.0.0"}, True, True),
        ({"version": "1.0.0"}, {"version": "1.0.0+a"}, False, False),
        ({"int": 1}, {"bool": True}, False, False),
        ({"string": "1.0.0"}, {"version": "1.0.0"}, False, False),
        ({"strings": ["a", "b"]}, {"string": "b"}, False, True),
        ({"ints": [1, 2]}, {"ints": [3, 2]}, False, True),
        ({"ints": [1, 2]}, {"ints": [3]}, False, False),
        ({"ints": [1]}, {"bools": [True]}, False, False),
        ({"bools": [True, False]}, {"bool": False}, False, True),
        ({"versions": ["1.0.0"]}, {"version": "1.0.0"}, False, True),
        ({"versions": ["1.0.0"]}, {"strings": ["1.0.0"]}, False, False),
    ],
)
def test_two_devices_match_or_are_distinct(left, right, scalars, lists):
    """Without lists the first device is taken whatever it has, and no list ever agrees with it."""
    listed = any(name.endswith("s") for name in right)
    for features, equal in ((None, scalars), (LISTS, lists)):
        more = {"features": features} if features else {}
        seen = snapshot(valued(left, right), **more)
        assert given(seen, spec(exactly(2), constraints=[MATCH])) == ([["gpu-0", "gpu-1"]] if equal else None)
        apart = not equal and not (listed and features is None)
        found = given(seen, spec(exactly(2), constraints=[DISTINCT]))
        assert found == ([["gpu-0", "gpu-1"]] if apart else None)


@pytest.mark.parametrize("constraint", [MATCH, DISTINCT])
def test_a_device_whose_attribute_has_no_value_is_passed_over(constraint):
    claim_spec = spec(exactly(1), constraints=[constraint])
    listed = valued(None, {"ints": []}, {"ints": [1]})
    assert given(snapshot(listed, features=LISTS), claim_spec) == [["gpu-2"]]
    assert given(snapshot(valued(None, {"int": 1})), claim_spec) == [["gpu-1"]]
    bare = gpu(0)
    del bare["attributes"]
    anything = {"metadata": {"name": "any"}, "spec": {}}
    seen = snapshot([resource_slice(devices=[bare])], classes=[anything])
    assert given(seen, spec(exactly(class_name="any"))) == [["gpu-0"]]
    assert given(seen, spec(exactly(class_name="any"), constraints=[constraint])) is None
    assert given(seen, spec(exactly(class_name="any"), constraints=[{"matchAttribute": "v"}])) is None


def test_a_list_that_was_taken_in_vain_is_forgotten():
    seen = snapshot(
        valued({"ints": [1, 9]}, {"ints": [2, 3]}, {"ints": [9, 3]}, {"ints": [3]}), features=LISTS
    )
    assert given(seen, spec(exactly(3), constraints=[MATCH])) == [["gpu-1", "gpu-2", "gpu-3"]]


def test_an_attribute_without_a_domain_is_looked_up_as_it_is_written():
    seen = snapshot(valued({"int": 1}, {"int": 2}, {"int": 1}))
    assert given(seen, spec(exactly(2), constraints=[{"matchAttribute": "v"}])) == [["gpu-0", "gpu-2"]]
    assert given(seen, spec(exactly(1), constraints=[{"matchAttribute": f"{NVIDIA}/w"}])) is None
    assert given(seen, spec(exactly(1), constraints=[{"matchAttribute": "gpu.amd.com/v"}])) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gpu"], ["gpu-0", "gpu-2"]),
        (["gpu/pair"], ["gpu-0", "gpu-2"]),
        (["gpu/other"], ["gpu-0", "gpu-1"]),
        (["pair"], ["gpu-0", "gpu-1"]),
        (["other", "gpu"], ["gpu-0", "gpu-2"]),
        ([], ["gpu-0", "gpu-2"]),
    ],
)
def test_a_constraint_is_of_a_request_with_all_its_alternatives_or_of_one_of_them(names, expected):
    offered = {"name": "gpu", "firstAvailable": [{"name": "pair", **ask(2)}]}
    claim_spec = spec(offered, constraints=[{"requests": names, **MATCH}])
    assert given(snapshot(valued({"int": 1}, {"int": 2}, {"int": 1})), claim_spec) == [expected]


def test_every_constraint_of_a_claim_counts():
    devices = [
        gpu(number, attributes={"a": {"int": a}, "b": {"int": b}})
        for number, (a, b) in enumerate([(1, 1), (1, 2), (2, 1), (1, 1)])
    ]
    both = [{"matchAttribute": f"{NVIDIA}/{name}"} for name in "ab"]
    claim_spec = spec(exactly(2), constraints=both)
    assert given(snapshot([resource_slice(devices=devices)]), claim_spec) == [["gpu-0", "gpu-3"]]


GROUPS = Features(partitionable_devices=True, compatibility_groups=True)


def grouped(number, *sets, root=0):
    """A GPU that takes one of each counter set, named with the groups that it names there: "s:xy"."""
    takes = []
    for one in sets:
        name, _, groups = one.partition(":")
        taken = {"counterSet": name, "counters": {"c": {"value": "1"}}}
        takes.append(taken | ({"compatibilityGroups": list(groups)} if groups else {}))
    return gpu(number, attributes={"v": {"int": root}}, consumesCounters=takes)


def of_groups(*devices, held=()):
    sets = [{"name": name, "counters": {"c": {"value": "9"}}} for name in "st"]
    slices = [
        resource_slice(name="a", slices=2, devices=list(devices)),
        resource_slice(name="b", slices=2, sharedCounters=sets),
    ]
    return snapshot(slices, *held, features=GROUPS)


@pytest.mark.parametrize(
    ("devices", "together"),
    [
        (["s", "s"], True),
        (["s", "s:x"], False),
        (["s:x", "s"], False),
        (["s:x", "s:x"], True),
        (["s:x", "s:y"], False),
        (["s:x", "t:y"], True),
        (["s:x", "t"], True),
        (["s:xy", "s:x", "s:x"], True),
        (["s:xy", "s:x", "s:y"], False),
        (["s:x", "s:xy", "s:y"], False),
        (["s:xy", "s:yz", "s:xz"], False),
        (["s:xyz", "s:xy", "s:yz", "s:y"], True),
        (["s:x t:y", "s:x t:y"], True),
        (["s:x t:y", "s:x t:z"], False),
        (["s:x t:y", "s:z t:y"], False),
        (["s:x s:y"], False),
        (["s:x s:xy"], True),
    ],
)
def test_devices_of_a_counter_set_go_together_that_all_name_one_group_or_none(devices, together):
    made = [grouped(number, *sets.split()) for number, sets in enumerate(devices)]
    names = [f"gpu-{number}" for number in range(len(made))]
    assert given(of_groups(*made), spec(exactly(len(made)))) == ([names] if together else None)
    others = [holds(name, name=f"holder-{name}") for name in names[:-1]]
    if len(made) > 1:
        found = given(of_groups(*made, held=others), spec(exactly()))
        assert found == ([names[-1:]] if together else None)


def test_held_devices_with_disjoint_groups_admit_neither_named_nor_unnamed_groups():
    devices = [grouped(0, "s:x"), grouped(1, "s:y"), grouped(2, "s"), grouped(3, "s:x"), grouped(4, "t")]
    held = [holds("gpu-0", name="holder-0"), holds("gpu-1", name="holder-1")]
    assert given(of_groups(*devices, held=held), spec(exactly())) == [["gpu-4"]]


def test_what_a_device_had_agreed_on_is_forgotten_when_it_is_given_back():
    same = spec(exactly(2), constraints=[MATCH])
    apart = [grouped(0, "s:x", "t:x"), grouped(1, "s:y", "t:y", root=1), grouped(2, "s:y", "t:y", root=1)]
    assert given(of_groups(*apart), same) == [["gpu-1", "gpu-2"]]
    between = [grouped(0, "s:xy"), grouped(1, "s:x", root=1), grouped(2, "s:y")]
    assert given(of_groups(*between), same) == [["gpu-0", "gpu-2"]]


def test_a_device_that_was_given_back_leaves_the_agreement_of_the_others():
    devices = [grouped(0, "s:x"), grouped(1, "s:x", root=1), grouped(2, "s:y"), grouped(3, "s:x")]
    claim_spec = spec(exactly(2), constraints=[MATCH])
    assert given(of_groups(*devices), claim_spec) == [["gpu-0", "gpu-3"]]


def test_every_counter_of_a_device_is_taken_and_given_back():
    def takes(number, root, **amounts):
        counters = {name: {"value": value} for name, value in amounts.items()}
        consumed = [{"counterSet": "s", "counters": counters}]
        return gpu(number, attributes={"v": {"int": root}}, consumesCounters=consumed)

    sets = [{"name": "s", "counters": {name: {"value": "2"} for name in "abc"}}]
    devices = [takes(0, 0, a="1", b="2", c="2"), takes(1, 1, b="1", c="1"), takes(2, 1, c="1", b="1")]
    slices = [
        resource_slice(name="a", slices=2, devices=devices),
        resource_slice(name="b", slices=2, sharedCounters=sets),
    ]
    pair = spec(exactly(2), constraints=[MATCH])
    assert given(snapshot(slices), pair) == [["gpu-1", "gpu-2"]]
    assert given(snapshot(slices, holds("gpu-0")), spec(exactly())) is None
    assert given(snapshot(slices, holds("gpu-2")), spec(exactly())) == [["gpu-1"]]
    assert given(snapshot(slices, holds("gpu-2")), spec(exactly(2))) is None
