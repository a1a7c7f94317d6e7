"""A picture made after another one says the same as one made from nothing."""

import random

import pytest

from bench.world import Kind, world
from dra.cluster_snapshot import MAX_DERIVED, ClusterSnapshot


def of(made, claims):
    return ClusterSnapshot(made.classes, made.slices, claims, made.taint_rules, made.nodes)


def said(snapshot):
    """All that follows from claims, without what says that nothing is held."""
    held = snapshot.held
    return (
        held.holders,
        {key: sorted(names) for key, names in held.sharers.items() if names},
        {key: amounts for key, amounts in held.consumed.items() if any(amounts.values())},
        {pool: used for pool, of in held.counters.items() if (used := {k: v for k, v in of.items() if v})},
        snapshot.available,
        snapshot.claim_by_name,
    )


@pytest.mark.parametrize("kind", list(Kind))
def test_claims_that_come_and_go_are_carried_on(kind):
    made = world(kind, 64)
    chance = random.Random(7)
    held, waiting = made.claims[::2], made.claims[1::2]
    snapshot = of(made, held)
    assert said(snapshot) == said(of(made, held))
    for _ in range(30):
        gone = chance.sample(held, min(len(held), 2))
        come = chance.sample(waiting, min(len(waiting), 3))
        held = [one for one in held if one not in gone] + come
        waiting = [one for one in waiting if one not in come] + gone
        moved = [(one, None) for one in gone] + [(None, one) for one in come]
        before = snapshot
        snapshot = before.after(claims=held, changed_claims=moved)
        assert "held" in vars(snapshot), "it was summed up anew"
        assert said(snapshot) == said(of(made, held))


def test_a_device_that_two_claims_have_is_summed_up_anew():
    made = world(Kind.WHOLE, 16)
    one = made.claims[0]
    twin = one | {"metadata": one["metadata"] | {"name": "twin"}}
    snapshot = of(made, [one])
    assert said(snapshot) == said(of(made, [one]))
    both = snapshot.after(claims=[one, twin], changed_claims=[(None, twin)])
    assert said(both) == said(of(made, [one, twin]))
    assert said(both.after(claims=[one], changed_claims=[(twin, None)])) == said(of(made, [one]))


def test_the_cluster_without_claims_is_kept_while_only_claims_change():
    made = world(Kind.WHOLE, 16)
    snapshot = of(made, made.claims)
    empty = snapshot.unallocated
    assert said(empty) == said(of(made, []))
    assert said(snapshot) == said(of(made, made.claims))
    rest = snapshot.after(claims=made.claims[1:], changed_claims=[(made.claims[0], None)])
    assert rest.unallocated is empty
    cordoned = rest.after(nodes=[{**node, "spec": {"unschedulable": True}} for node in made.nodes])
    assert (cordoned.unallocated.node_ranges, bool(empty.node_ranges)) == ([], True)


def test_claim_that_replaces_one_of_its_name_is_found():
    made = world(Kind.WHOLE, 16)
    old = made.claims[0]
    new = old | {"status": {}}
    snapshot = of(made, [old])
    assert said(snapshot)
    after = snapshot.after(claims=[new], changed_claims=[(None, new), (old, None)])
    assert list(after.claim_by_name.values()) == [new]


def test_derived_results_belong_to_one_snapshot():
    made = world(Kind.WHOLE, 16)
    snapshot = of(made, made.claims)
    numbers = iter(range(9))
    assert [snapshot.derived(key, lambda: next(numbers)) for key in ("a", "b", "a")] == [0, 1, 0]
    assert snapshot.after(claims=[]).derived("a", lambda: next(numbers)) == 2


def test_results_of_many_requests_are_bounded():
    snapshot = of(world(Kind.WHOLE, 16), [])
    for key in range(2 * MAX_DERIVED):
        snapshot.derived(key, lambda: None)
    assert snapshot.derived(2 * MAX_DERIVED - 1, lambda: "again") is None
    assert snapshot.derived(0, lambda: "again") == "again"


def test_what_a_change_does_not_touch_is_the_same_object():
    made = world(Kind.WHOLE, 16)
    snapshot = of(made, made.claims)
    known = selector_conditions(snapshot)
    after = snapshot.after(classes=made.classes[:1])
    assert all(one is other for one, other in zip(known, selector_conditions(after), strict=True))
    assert snapshot.after(taint_rules=[]).taints is not snapshot.taints


def selector_conditions(snapshot):
    return (snapshot.held, snapshot.available, snapshot.taints, snapshot.node_ranges, snapshot.device_index)
