"""What is read of all nodes at once is what one reads node by node."""

import random

import pytest

from dra.node_pools import MAX_RUN, NodeRuns
from dra.selector_results import pack


def nodes_of(chance, longest, ranges):
    """Return nodes with random ranges, some adjacent and some with a gap, and the number of devices."""
    nodes, at = [], 0
    for number in range(chance.randrange(1, 30)):
        runs = []
        for _ in range(chance.randrange(ranges + 1)):
            length = chance.randrange(1, longest + 1)
            runs.append(range(at, at + length))
            at += length + chance.randrange(2)
        nodes.append(({"metadata": {"name": f"node-{number}"}}, runs))
    return nodes, at


@pytest.mark.parametrize(("longest", "ranges"), [(8, 1), (8, 3), (MAX_RUN + 20, 1), (300, 2)])
@pytest.mark.parametrize("seed", range(12))
def test_devices_are_counted_per_node(seed, longest, ranges):
    chance = random.Random(seed)
    nodes, length = nodes_of(chance, longest, ranges)
    runs = NodeRuns(nodes, length)
    for share in (0, 0.4, 1):
        flags = bytes(chance.random() < share for _ in range(length))
        counts = [sum(flags[index] for run in runs for index in run) for _, runs in nodes]
        assert list(runs.counts(pack(flags))) == counts


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_equal_for_nodes_with_equal_devices(seed):
    chance = random.Random(seed)
    nodes, length = nodes_of(chance, 4, 3)
    wide = bytes(chance.randrange(2) for _ in range(2 * length))
    narrow = bytes(chance.randrange(2) for _ in range(length))
    rows = NodeRuns(nodes, length).rows([(narrow, 1), (wide, 2)])
    for row, (_, runs) in zip(rows, nodes, strict=True):
        assert b"".join(row) == b"".join(
            [narrow[run.start : run.stop] for run in runs]
            + [wide[2 * run.start : 2 * run.stop] for run in runs]
        )


def test_nodes_without_columns_are_all_equal():
    assert NodeRuns([({}, []), ({}, [])], 0).rows([]) == [(), ()]
