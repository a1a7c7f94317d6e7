"""Blockers: the fewest claims of one node whose release lets a claim fit."""

import random
from itertools import combinations

import pytest

from bench.specs import LARGE, SHARE, exactly, spec
from bench.world import Kind, world
from dra import blockers
from dra.allocator import AllocationError, allocate
from dra.blockers import find_blockers
from dra.cluster_snapshot import ClusterSnapshot
from dra.held import claim_name
from tests.dra import clusters
from tests.dra.clusters import PCIE, gpu, holds, node, resource_slice, snapshot


def fits_without(seen, where, released, claim_spec):
    left = [claim for claim in seen.claims if claim_name(claim) not in released]
    try:
        claim = {"metadata": {"name": "new"}, "spec": claim_spec}
        return allocate(seen.after(claims=left), where, [claim]) is not None
    except AllocationError:
        return False


def fewest(seen, claim_spec):
    """Return the smallest number of claims of one node that have to end, by trying all sets."""
    sizes = []
    for where in seen.nodes:
        pools = {seen.devices[index].pool for index in seen.indices_on(where)}
        holders = [
            claim_name(claim)
            for claim in seen.claims
            if claim["status"]["allocation"]["devices"]["results"][0]["pool"] in pools
        ]
        sizes += [
            size
            for size in range(len(holders) + 1)
            if any(fits_without(seen, where, chosen, claim_spec) for chosen in combinations(holders, size))
        ][:1]
    return min(sizes, default=None)


SPECS = {
    "two": clusters.spec(clusters.exactly(2)),
    "three": clusters.spec(clusters.exactly(3)),
    "six": clusters.spec(clusters.exactly(6)),
    "two on one root": clusters.spec(clusters.exactly(2), constraints=[PCIE]),
    "all": clusters.spec(clusters.exactly(0, allocationMode="All")),
    "two requests": clusters.spec(clusters.exactly(2), clusters.exactly(2, name="more")),
    "one or four": clusters.spec(
        {"name": "gpu", "firstAvailable": [{"name": f"n{n}", **clusters.ask(n)} for n in (6, 4)]}
    ),
}


def small_cluster(seed):
    """Return two or three nodes of six GPUs, most of them held, by claims of one to three."""
    chance = random.Random(seed)
    names = [f"node-{number}" for number in range(chance.randint(2, 3))]
    claims: list[clusters.Object] = []
    for name in names:
        left = [f"gpu-{number}" for number in range(6)]
        chance.shuffle(left)
        while left:
            taken, left = left[: chance.randint(1, 3)], left[3:] if chance.random() < 0.1 else left[1:]
            left = [one for one in left if one not in taken]
            if chance.random() < 0.85:
                claims.append(holds(*taken, pool=name, name=f"c{len(claims)}"))
    slices = [resource_slice(name, [gpu(number) for number in range(6)]) for name in names]
    return snapshot(slices, *claims, nodes=[node(name) for name in names])


@pytest.mark.parametrize("wanted", SPECS)
@pytest.mark.parametrize("seed", range(8))
def test_blockers_are_the_fewest_claims_of_a_node(seed, wanted):
    seen, claim_spec = small_cluster(seed), SPECS[wanted]
    found, least = find_blockers(seen, claim_spec), fewest(seen, claim_spec)
    assert [len(one.claims) for one in found.blockers[:1]] == ([least] if least else [])
    for one in found.blockers:
        where = seen.node_by_name[one.node]
        assert fits_without(seen, where, one.claims, claim_spec)
        assert not any(fits_without(seen, where, set(one.claims) - {name}, claim_spec) for name in one.claims)


def ones(count=8, *, nodes=2):
    """Return nodes of eight GPUs, each held by a claim of its own."""
    names = [f"node-{number}" for number in range(nodes)]
    slices = [resource_slice(name, [gpu(number) for number in range(count)]) for name in names]
    claims = [
        holds(f"gpu-{number}", pool=name, name=f"{name}-{number}")
        for name in names
        for number in range(count)
    ]
    return snapshot(slices, *claims, nodes=[node(name) for name in names])


@pytest.mark.parametrize("count", range(1, 9))
def test_as_many_claims_of_one_device_as_are_needed_are_named(count):
    found = find_blockers(ones(), clusters.spec(clusters.exactly(count)))
    assert {len(one.claims) for one in found.blockers} == {count}
    assert find_blockers(ones(), clusters.spec(clusters.exactly(9))).blockers == ()


@pytest.mark.parametrize("constraints", [[], [PCIE]])
def test_preferred_claims_come_first_among_as_many(constraints):
    idle = {"vision/node-1-4", "vision/node-1-5"}
    found = find_blockers(ones(), clusters.spec(clusters.exactly(2), constraints=constraints), idle)
    assert idle in [set(one.claims) for one in found.blockers]
    if not constraints:
        assert set(found.blockers[0].claims) == idle


def test_search_that_is_too_long_still_names_claims_that_would_do(monkeypatch):
    monkeypatch.setattr(blockers, "MAX_TRIES", 10)
    claim_spec = clusters.spec(clusters.exactly(3), clusters.exactly(2, name="more"))
    seen = ones()
    found = find_blockers(seen, claim_spec)
    assert found.blockers
    for one in found.blockers:
        assert len(one.claims) == 5
        assert fits_without(seen, seen.node_by_name[one.node], one.claims, claim_spec)


def test_search_that_finds_nothing_says_how_many_claims_there_are(monkeypatch):
    monkeypatch.setattr(blockers, "MAX_TRIES", 3)
    monkeypatch.setattr(blockers, "MAX_REDUCED", 0)
    found = find_blockers(ones(), clusters.spec(clusters.exactly(2), constraints=[PCIE]))
    assert found.sentence.startswith("16 claims hold devices that match.")


def snapshot_of(kind, seed):
    """Return a small cluster in which few devices are free."""
    made = world(kind, 64)
    chance = random.Random(seed)
    claims = [claim for claim in made.claims if chance.random() < 0.8]
    return ClusterSnapshot(made.classes, made.slices, claims, made.taint_rules, made.nodes)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("share", [False, True])
def test_blockers_of_any_hardware_are_needed_and_enough(kind, count, share):
    seen = snapshot_of(kind, 1)
    claim_spec = spec(exactly(count, LARGE, **(SHARE if share else {})))
    for one in find_blockers(seen, claim_spec).blockers:
        where = seen.node_by_name[one.node]
        assert fits_without(seen, where, one.claims, claim_spec)
        assert not fits_without(seen, where, one.claims[1:], claim_spec)


def test_nodes_without_enough_devices_are_not_searched(monkeypatch):
    seen, searches = snapshot_of(Kind.WHOLE, 1), []
    allocated = blockers.allocate
    monkeypatch.setattr(blockers, "allocate", lambda *args: searches.append(args) or allocated(*args))
    assert find_blockers(seen, spec(exactly(6, LARGE))).blockers
    assert len(searches) <= blockers.MAX_NODES
