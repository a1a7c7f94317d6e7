"""Taints and tolerations: all combinations that the API allows, and which rules concern which device."""

import pytest

from dra.pools import pools_of
from dra.taints import Taint, rules_for, tolerates, untolerated
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
    (pool,) = pools_of([resource_slice(devices=[gpu(3)])])
    spec = {"taint": {"key": "k", "effect": "NoExecute", "timeAdded": "2026-11-01T00:00:00Z"}}
    rule = {
        "metadata": {"name": "drain"},
        "spec": spec | ({} if selector is None else {"deviceSelector": selector}),
    }
    found = rules_for(pool.devices[0], [rule])
    assert found == ([Taint("k", "NoExecute", "", "drain", "2026-11-01T00:00:00Z")] if selects else [])


def test_taints_of_a_slice_are_read():
    (pool,) = pools_of(
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
