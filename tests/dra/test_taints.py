"""Taints and tolerations: all combinations that the API allows, and which rules concern which device."""

import re

import pytest

from dra.manifests import device_taint_rule
from dra.pools import gather_pools
from dra.taints import Taint, effective_rules, rule_taints, tolerates, untolerated
from tests.dra.clusters import gpu, resource_slice

TAINT = Taint("gpu.dragoman.dev/maintenance", "NoSchedule", "true")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"operator": "Exists"}, True),
        ({"key": TAINT.key, "operator": "Exists"}, True),
        ({"key": TAINT.key, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": TAINT.key, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": TAINT.key, "operator": "Equal", "value": "true"}, True),
        ({"key": TAINT.key, "value": "true"}, True),
        ({"key": TAINT.key, "value": "false"}, False),
        ({"key": TAINT.key}, False),
        ({"key": TAINT.key, "value": "true", "effect": "NoSchedule"}, True),
        ({"key": TAINT.key, "operator": "Exactly", "value": "true"}, False),
    ],
)
def test_a_toleration_covers_a_taint_or_not(toleration, covered):
    assert tolerates([toleration], TAINT) is covered


def test_one_of_several_tolerations_is_enough():
    assert tolerates([{"key": "other", "operator": "Exists"}, {"operator": "Exists"}], TAINT)
    assert not tolerates([], TAINT)


def test_a_note_keeps_nobody_away():
    note = Taint("gpu.nvidia.com/unmonitored", "None")
    assert not note.blocks
    assert untolerated([], [note]) is None
    assert untolerated([], [note, TAINT]) == TAINT


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        (None, False),
        ({"driver": "gpu.nvidia.com"}, True),
        ({"driver": "gpu.amd.com"}, False),
        ({"pool": "node-a", "device": "gpu-3"}, True),
        ({"pool": "node-a", "device": "gpu-4"}, False),
        ({"driver": "gpu.nvidia.com", "pool": "node-b", "device": "gpu-3"}, False),
    ],
)
def test_a_rule_concerns_a_device_if_all_that_it_gives_match(selector, selects):
    (pool,) = gather_pools([resource_slice(devices=[gpu(3)])])
    spec = {"taint": {"key": "k", "effect": "NoExecute", "timeAdded": "2026-11-01T00:00:00Z"}}
    rule = {
        "metadata": {"name": "drain"},
        "spec": spec | ({} if selector is None else {"deviceSelector": selector}),
    }
    found = rule_taints(pool.devices[0], [rule])
    assert found == ([Taint("k", "NoExecute", "", "drain", "2026-11-01T00:00:00Z")] if selects else [])


def test_taints_of_a_slice_are_read():
    (pool,) = gather_pools(
        [
            resource_slice(
                devices=[
                    gpu(0, taints=[{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}])
                ]
            )
        ]
    )
    (taint,) = pool.devices[0].taints
    assert taint.as_dict() == {
        "key": "gpu.nvidia.com/xid",
        "value": "79",
        "effect": "NoSchedule",
        "source": "slice",
        "timeAdded": "",
    }


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"value": "true"}, True),
        ({"operator": "Equal", "value": "false"}, False),
        ({"operator": "", "key": "", "effect": "", "value": "true"}, True),
        ({"operator": "Exists", "value": "false"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "value": "true"}, False),
    ],
)
def test_what_a_toleration_leaves_out_covers_everything(toleration, covered):
    assert tolerates([toleration], TAINT) is covered
    assert tolerates([{"key": TAINT.key}], Taint(TAINT.key, "NoSchedule")) is True


@pytest.mark.parametrize(
    ("effect", "blocks"), [("NoSchedule", True), ("NoExecute", True), ("None", False), ("", False)]
)
def test_two_effects_keep_a_device_away(effect, blocks):
    assert Taint("k", effect).blocks is blocks


def test_the_first_taint_that_is_not_tolerated_is_named():
    note, first, second = Taint("a", "None"), Taint("b", "NoExecute"), Taint("c", "NoSchedule")
    assert untolerated([], [note, first, second]) == first
    assert untolerated([{"key": "b", "operator": "Exists"}], [note, first, second]) == second
    each = iter([{"key": "b", "operator": "Exists"}, {"key": "c", "operator": "Exists"}])
    assert untolerated(each, [second, first, second]) is None


def test_every_rule_that_selects_a_device_adds_its_taint():
    def rule(name, selector, **taint):
        return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}

    (pool,) = gather_pools([resource_slice(devices=[gpu(3)])])
    rules = [
        rule("one", {"device": "gpu-3"}, key="a", effect="NoSchedule", value="v"),
        rule("two", {"pool": "node-b"}, key="b", effect="NoSchedule"),
        rule("three", {"driver": "gpu.amd.com", "device": "gpu-3"}, key="c", effect="NoSchedule"),
        rule("four", {"pool": "node-a"}, key="d", effect="None"),
        {"spec": {"deviceSelector": {}}},
        {"metadata": {"name": "six"}},
    ]
    assert rule_taints(pool.devices[0], rules) == [
        Taint("a", "NoSchedule", "v", "one"),
        Taint("d", "None", "", "four"),
        Taint("", "", "", ""),
    ]


@pytest.mark.parametrize("pool_name", ["node-a", "region/Rack-1"])
def test_rule_for_one_device_concerns_that_device_alone(pool_name):
    pieces = [resource_slice(pool=pool_name, devices=[gpu(0), gpu(1)])]
    (pool,) = gather_pools(pieces)
    rule = device_taint_rule(pool.devices[0].driver, pool_name, "gpu-0", version="v1beta2")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", rule["metadata"]["name"])
    (taint,) = rule_taints(pool.devices[0], [rule])
    assert (taint.effect, taint.source) == ("NoSchedule", rule["metadata"]["name"])
    assert rule_taints(pool.devices[1], [rule]) == []


@pytest.mark.parametrize(
    ("version", "taints_all"),
    [
        ("v1.34.2", True),
        ("v1.36.9", True),
        ("v1.37.0", True),
        ("v1.37.1", False),
        ("v1.38.0", False),
        ("", False),
    ],
)
def test_a_rule_without_a_selector_taints_as_its_version_does(version, taints_all):
    (pool,) = gather_pools([resource_slice(devices=[gpu(3)])])
    rule = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
    other = {"metadata": {"name": "o"}, "spec": {"taint": {"key": "o"}, "deviceSelector": {"pool": "else"}}}
    rules = effective_rules([rule, other], version)
    assert [taint.source for taint in rule_taints(pool.devices[0], rules)] == ["r"] * taints_all
