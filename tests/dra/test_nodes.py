"""Node selectors: which node they mean, which break their rules, and what an allocation is tied to."""

import pytest

from dra.nodes import SelectorError, check_node_selection, selector_for, selects, selects_node, slice_reaches
from dra.pools import gather_pools
from tests.dra.clusters import gpu, node, resource_slice

LABELS = {"zone": "a", "rank": "10", "word": "ten", "huge": str(2**63), "empty": ""}
NODE = node("node-a", LABELS)


def requirement(key, operator, *values):
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def term(*expressions, fields=()):
    return {"matchExpressions": [requirement(*one) for one in expressions]} | (
        {"matchFields": [requirement(*one) for one in fields]} if fields else {}
    )


def terms(*many):
    return {"nodeSelectorTerms": list(many)}


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        (("zone", "In", "a"), True),
        (("zone", "In", "b", "a"), True),
        (("zone", "In", "b"), False),
        (("gone", "In", "a"), False),
        (("zone", "NotIn", "b"), True),
        (("zone", "NotIn", "b", "a"), False),
        (("gone", "NotIn", "a"), True),
        (("zone", "Exists"), True),
        (("empty", "Exists"), True),
        (("gone", "Exists"), False),
        (("zone", "DoesNotExist"), False),
        (("empty", "DoesNotExist"), False),
        (("gone", "DoesNotExist"), True),
        (("rank", "Gt", "9"), True),
        (("rank", "Gt", "10"), False),
        (("rank", "Lt", "11"), True),
        (("rank", "Lt", "10"), False),
        (("rank", "Gt", "-1"), True),
        (("rank", "Gt", "8", "9"), False),
        (("rank", "Gt"), False),
        (("word", "Gt", "9"), False),
        (("gone", "Lt", "9"), False),
        (("huge", "Gt", "9"), False),
        (("rank", "Lt", str(2**63)), False),
        (("rank", "Lt", str(2**63 - 1)), True),
        (("zone", "Near", "a"), False),
    ],
)
def test_a_label_meets_an_expression_or_not(expression, met):
    assert selects(terms(term(expression)), NODE) is met


NAME = "metadata.name"


@pytest.mark.parametrize(
    ("field", "met"),
    [
        ((NAME, "In", "node-a"), True),
        ((NAME, "In", "node-b"), False),
        ((NAME, "NotIn", "node-a"), False),
        ((NAME, "NotIn", "node-b"), True),
        (("metadata.uid", "In", "node-a"), False),
        (("metadata.uid", "In", ""), True),
        (("metadata.uid", "NotIn", "node-a"), True),
    ],
)
def test_the_name_of_a_node_is_the_only_field(field, met):
    assert selects(terms(term(fields=[field])), NODE) is met


def test_a_node_without_a_name_meets_every_field():
    assert selects(terms(term(fields=[(NAME, "In", "node-b")])), {})


def test_terms_are_alternatives_and_all_of_a_term_must_hold():
    yes, no = ("zone", "In", "a"), ("zone", "In", "b")
    here, there = (NAME, "In", "node-a"), (NAME, "In", "node-b")
    assert selects(terms(term(no), term(yes)), NODE)
    assert not selects(terms(term(yes, no)), NODE)
    assert not selects(terms(term(no, yes)), NODE)
    assert selects(terms(term(yes, fields=[here])), NODE)
    assert not selects(terms(term(yes, fields=[here, there])), NODE)
    assert not selects(terms(term(no, fields=[here])), NODE)
    assert not selects(terms({}, term()), NODE)
    assert not selects({}, NODE)


@pytest.mark.parametrize(
    ("place", "reached"),
    [
        ({"nodeName": "node-a"}, True),
        ({"nodeName": "node-b"}, False),
        ({"nodeName": "node-b", "allNodes": True}, False),
        ({"allNodes": True}, True),
        ({"allNodes": False}, False),
        ({"allNodes": "true"}, False),
        ({"nodeSelector": terms(term(("zone", "In", "a")))}, True),
        ({"nodeSelector": terms(term(("zone", "In", "b")))}, False),
        ({"nodeSelector": {}}, False),
        ({}, False),
    ],
)
def test_a_place_means_a_node_or_not(place, reached):
    assert selects_node(NODE, place) is reached
    assert slice_reaches(NODE, {"spec": place}) is reached
    one_by_one = {"perDeviceNodeSelection": True, "devices": [{"nodeName": "node-z"}, place]}
    assert slice_reaches(NODE, {"spec": one_by_one}) is reached
    assert slice_reaches(NODE, {"spec": one_by_one | {"perDeviceNodeSelection": False}}) is False
    assert slice_reaches(NODE, {"spec": one_by_one | {"nodeName": "node-z"}}) is False


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (("-", "Exists"), "names label “-”, which is not a valid label"),
        (("a" * 64, "Exists"), "which is not a valid label"),
        (("UPPER.example/a", "Exists"), "which is not a valid label"),
        (("a" * 254 + "/b", "Exists"), "which is not a valid label"),
        (("/b", "Exists"), "which is not a valid label"),
        (("zone", "Near", "a"), "uses operator “Near”, which does not exist"),
        (("zone", "In"), "compares label zone by In with []"),
        (("zone", "NotIn"), "compares label zone by NotIn with []"),
        (("zone", "Exists", "a"), "compares label zone by Exists with ['a']"),
        (("zone", "DoesNotExist", "a"), "compares label zone by DoesNotExist with ['a']"),
        (("rank", "Gt", "many"), "compares label rank by Gt with ['many']"),
        (("rank", "Gt", "-1"), "compares label rank by Gt with ['-1']"),
        (("rank", "Lt", "1", "2"), "compares label rank by Lt with ['1', '2']"),
        (("rank", "Lt", str(2**63)), "compares label rank by Lt"),
        (("zone", "In", "a", "not a label"), "compares label zone by In with ['a', 'not a label']"),
    ],
)
def test_an_expression_against_the_rules_is_refused_wherever_it_stands(expression, said):
    place = {"nodeSelector": terms(term(("zone", "In", "a")), term(("zone", "Exists"), expression))}
    with pytest.raises(SelectorError) as refusal:
        check_node_selection(place)
    assert said in str(refusal.value)
    check_node_selection(place | {"nodeName": "node-a"})
    check_node_selection(place | {"allNodes": True})


@pytest.mark.parametrize("field", [(NAME, "Exists"), (NAME, "In"), (NAME, "In", "a", "b"), (NAME, "Gt", "1")])
def test_a_field_is_compared_with_one_value(field):
    with pytest.raises(SelectorError, match=r"compares field metadata\.name with anything but one value"):
        check_node_selection({"nodeSelector": terms(term(fields=[(NAME, "NotIn", "a"), field]))})


@pytest.mark.parametrize(
    "expression",
    [
        ("a" * 63, "Exists"),
        ("a" * 253 + "/b", "Exists"),
        ("example.com/a", "In", "", "b"),
        ("zone", "DoesNotExist"),
        ("rank", "Gt", "0"),
        ("rank", "Lt", str(2**63 - 1)),
    ],
)
def test_an_expression_within_the_rules_is_taken(expression):
    check_node_selection({"nodeSelector": terms(term(expression, fields=[(NAME, "In", "a")]))})
    check_node_selection({"nodeSelector": {}})
    check_node_selection({})


def devices(*places):
    """Devices of one slice, each placed by itself."""
    (pool,) = gather_pools(
        [
            resource_slice(
                devices=[gpu(number, **place) for number, place in enumerate(places)],
                perDeviceNodeSelection=True,
            )
        ]
    )
    return pool.devices


def test_an_allocation_is_tied_to_what_all_of_its_devices_need():
    zone, rack = ("zone", "In", "a", "b"), ("rack", "Exists")
    same = {"nodeSelector": terms(term(("zone", "In", "b", "a")))}
    both = {"nodeSelector": terms(term(zone, rack, fields=[(NAME, "NotIn", "x")]))}
    everywhere = {"allNodes": True}
    assert selector_for(devices(everywhere), "node-a") is None
    assert selector_for([], "node-a") is None
    assert selector_for(
        devices(everywhere, {"nodeSelector": terms(term(zone))}, same, both), "node-a"
    ) == terms(term(zone, rack, fields=[(NAME, "NotIn", "x")]))


def test_a_device_of_one_node_ties_the_allocation_to_it():
    tied = terms({"matchFields": [requirement(NAME, "In", "node-a")]})
    zone = {"nodeSelector": terms(term(("zone", "In", "a")))}
    assert selector_for(devices(zone, {"nodeName": "node-a"}), "node-a") == tied
    bound = devices({"allNodes": True, "bindsToNode": True})
    assert selector_for(bound, "node-a") == tied
    assert selector_for(bound, "node-a", binding=False) is None


def test_a_selector_of_several_terms_cannot_be_combined():
    several = {"nodeSelector": terms(term(("zone", "In", "a")), term(("zone", "In", "b")))}
    with pytest.raises(SelectorError, match="gpu-1 has 2 terms; one is allowed"):
        selector_for(devices({"allNodes": True}, several), "node-a")
