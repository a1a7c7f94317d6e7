"""Which charges are live follows the states of the claims, and a command repairs what differs."""

import pytest

from claims.models import ClaimCharge
from claims.quotas.counts import used_by_all_teams
from claims.states import NEXT, ClaimState
from tests.factories import GPU_CLASS, make_claim
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db


def live(claim):
    return set(claim.charges.values_list("live", flat=True))


@pytest.mark.parametrize("end", [state for state in ClaimState if not NEXT[state]])
def test_charges_end_with_their_claim(end, vision, fra, train):
    before = next(state for state in ClaimState if end in NEXT[state])
    claim = make_claim(vision, cluster=fra, profile=train, devices=2, state=before)
    other = make_claim(vision, cluster=fra, profile=train, devices=3)
    assert used_by_all_teams([GPU_CLASS]) == {GPU_CLASS: 5}
    assert claim.advance(end, why="Over.")
    assert (live(claim), live(other)) == ({False}, {True})
    assert used_by_all_teams([GPU_CLASS]) == {GPU_CLASS: 3}


def test_the_command_repairs_charges_of_both_kinds(vision, fra, train):
    running, ended = (make_claim(vision, cluster=fra, profile=train, devices=2) for _ in range(2))
    ended.advance(ClaimState.WITHDRAWN, why="Not needed.")
    ClaimCharge.objects.filter(claim=running).update(live=False)
    ClaimCharge.objects.filter(claim=ended).update(live=True)
    assert failed_check("charges") == "charges: 2 charges, 2 rows to repair.\n"
    assert recompute("charges") == "charges: 2 charges, 2 rows repaired.\n"
    assert (live(running), live(ended)) == ({True}, {False})
    assert recompute("charges", "--check") == "charges: 2 charges, 0 rows to repair.\n"
