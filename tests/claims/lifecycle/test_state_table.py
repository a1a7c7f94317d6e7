"""Whatever is tried in whatever order: the history of a claim is a path of the state table."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claims import states
from claims.models import Claim
from claims.states import DELIVERED, FINAL, LIVE, LOOK, NEXT, ClaimState
from core.errors import IllegalTransition
from tests.factories import make_claim

ROOT = Path(states.__file__).parents[1]


def path_of(claim: Claim) -> list[str]:
    """
    Return the states that the history says; raise if one step does not start where the one before it ended.
    """
    steps = list(claim.history.order_by("pk"))
    for before, after in pairwise(steps):
        assert after.old == before.new, f"{after} does not start at {before.new}"
        assert after.new in NEXT[after.old], f"{after} is not in the table"
    return [step.new for step in steps]


def test_every_state_has_a_name_a_color_and_a_way_to_it():
    reached = {ClaimState.REQUESTED} | {state for following in NEXT.values() for state in following}
    assert set(NEXT) == set(LOOK) == set(ClaimState) == reached


def test_each_set_of_states_has_one_name():
    sets = {
        name: frozenset(value)
        for name, value in vars(states).items()
        if name.isupper() and isinstance(value, tuple)
    }
    assert len(sets) >= 10
    assert len(set(sets.values())) == len(sets)


@pytest.mark.parametrize("package", ["claims", "usage", "portal", "inventory", "teams"])
def test_sets_of_states_are_defined_in_states_alone(package):
    modules = [path for path in (ROOT / package).rglob("*.py") if path != Path(states.__file__)]
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple | ast.Set | ast.List) and sum(map(names_state, node.elts)) > 1
    ]
    assert found == []


def names_state(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ClaimState"
        and node.attr.isupper()
    )


def test_live_and_final_split_the_states():
    assert set(LIVE) | set(FINAL) == set(ClaimState)
    assert not set(LIVE) & set(FINAL)
    assert set(DELIVERED) <= set(LIVE)


def test_every_state_leads_to_an_end():
    ends = set(FINAL)
    while grown := {state for state in NEXT if state not in ends and NEXT[state] & ends}:
        ends |= grown
    assert ends == set(ClaimState)


@pytest.mark.django_db
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(ClaimState), max_size=12))
def test_any_sequence_of_attempts_leaves_a_path_of_the_table(db, wanted):
    claim = make_claim()
    refused = 0
    for state in wanted:
        try:
            assert claim.advance(state, why="tried")
        except IllegalTransition:
            refused += 1
    path = path_of(claim)
    claim.refresh_from_db()
    assert claim.state == path[-1]
    assert claim.version == len(path)
    assert len(path) == 1 + len(wanted) - refused


@pytest.mark.django_db
def test_one_who_comes_late_moves_nothing_and_writes_no_history():
    claim = make_claim()
    late = Claim.objects.get(pk=claim.pk)
    assert claim.advance(ClaimState.WITHDRAWN, why="first")
    assert not late.advance(ClaimState.APPROVED, why="late")
    assert path_of(claim) == [ClaimState.REQUESTED, ClaimState.WITHDRAWN]
