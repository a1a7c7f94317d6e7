"""Blockers that are found by counting devices are those that the allocator finds."""

import random

import pytest

from bench.specs import LARGE, SHARE, exactly, spec
from bench.world import Kind, world
from dra import blockers
from dra.blockers import find_blockers
from dra.cluster_snapshot import ClusterSnapshot


def snapshot_of(kind, seed):
    """Return a small cluster in which few devices are free."""
    made = world(kind, 64)
    chance = random.Random(seed)
    claims = [claim for claim in made.claims if chance.random() < 0.8]
    return ClusterSnapshot(made.classes, made.slices, claims, made.taint_rules, made.nodes)


REQUESTS = [(kind, count, share) for kind in Kind for count in (1, 2, 5, 8) for share in (False, True)]


@pytest.mark.parametrize(("kind", "count", "share"), REQUESTS)
@pytest.mark.parametrize("seed", range(3))
def test_counted_blockers_are_those_of_the_allocator(kind, count, share, seed, monkeypatch):
    snapshot = snapshot_of(kind, seed)
    claim_spec = spec(exactly(count, LARGE, **(SHARE if share else {})))
    counted = find_blockers(snapshot, claim_spec)
    monkeypatch.setattr(blockers._Demand, "is_counted", False)
    assert find_blockers(snapshot, claim_spec) == counted


def test_nodes_without_enough_devices_are_not_searched(monkeypatch):
    snapshot, searches = snapshot_of(Kind.WHOLE, 1), []
    allocate = blockers.allocate
    monkeypatch.setattr(blockers, "allocate", lambda *args: searches.append(args) or allocate(*args))
    found = find_blockers(snapshot, spec(exactly(6, LARGE)))
    assert len(searches) == len(found.blockers) > 0
