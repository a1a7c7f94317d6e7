"""An approver makes a request smaller that replaces a claim, or is replaced: the quota still holds."""

import pytest

from claims.approvals import decide
from claims.models import Claim
from claims.plans.changes import WantedChange
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.errors import Invalid
from tests.factories import make_profile, make_spec

pytestmark = pytest.mark.django_db


def used(quota):
    (usage,) = quota_usage.quota_usage([quota])
    return usage.used


def change(claim, by, **wanted):
    return decide.approve_with_changes(
        claim=claim, by=by, spec_hash=claim.spec_hash, wanted=WantedChange(**wanted), note=""
    )


@pytest.fixture
def running(ask, lena):
    """Four of the eight devices of vision, approved."""
    claim = ask(devices=4, name="old")
    return decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)


def test_a_successor_of_another_profile_keeps_its_size_while_the_old_one_counts(ask, running, lena, quota):
    """It carries devices of the class, though none of the profile."""
    other = make_profile("fast", spec=make_spec())
    new = ask(devices=8, name="new", profile=other, replaces=running)
    assert (new.carried, used(quota)) == (0, 8)
    with pytest.raises(Invalid, match="only its duration can be changed"):
        change(new, lena, devices=6)
    assert used(quota) == 8


def test_what_another_claim_is_counted_with_is_not_made_smaller(ask, running, lena, quota):
    """The cluster sent it back to people after somebody had asked to replace it."""
    ask(devices=8, name="new", replaces=running)
    running.advance(ClaimState.REQUESTED, why="The cluster refused it.", expires_at=None)
    with pytest.raises(Invalid, match="new replaces old and shares its quota"):
        change(running, lena, devices=2)
    Claim.objects.get(pk=running.pk).advance(ClaimState.DENIED, why="No.")
    assert used(quota) == 8
