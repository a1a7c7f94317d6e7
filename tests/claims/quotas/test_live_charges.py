"""Which charges are live follows the states of the claims, and a command repairs what differs."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from claims.models import ClaimCharge
from claims.quotas.counts import used_by_all_teams
from claims.states import NEXT, ClaimState
from tests.factories import GPU_CLASS, make_claim

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


def recount(*options):
    output = StringIO()
    call_command("recount_charges", *options, stdout=output, no_color=True)
    return output.getvalue()


def test_the_command_repairs_charges_of_both_kinds(vision, fra, train):
    running, ended = (make_claim(vision, cluster=fra, profile=train, devices=2) for _ in range(2))
    ended.advance(ClaimState.WITHDRAWN, why="Not needed.")
    ClaimCharge.objects.filter(claim=running).update(live=False)
    ClaimCharge.objects.filter(claim=ended).update(live=True)
    with pytest.raises(CommandError, match="2 rows differ"):
        recount("--check")
    assert recount() == "2 rows differed.\n"
    assert (live(running), live(ended)) == ({True}, {False})
    assert recount("--check") == "0 rows differ.\n"
