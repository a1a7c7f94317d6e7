"""Handing a claim over, and taking it back."""

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import Http404

from claims.lifecycle.services import transfer
from claims.requests.services import request_claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from notify.models import Notice
from tests.factories import make_claim, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def mona(vision):
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    return mona


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(vision, by=alice, cluster=fra, name="sam", state=ClaimState.ALLOCATED)


def test_the_owner_hands_it_over_and_the_new_one_hears_of_it(claim, alice, mona):
    transfer(claim=claim, by=alice, to=mona)
    claim.refresh_from_db()
    assert claim.requested_by == mona
    line = claim.history.last()
    assert (line.old, line.new, line.reason) == ("allocated", "allocated", "Transferred from alice to mona.")
    assert [notice.title for notice in Notice.objects.filter(user=mona)] == ["sam is yours now"]
    assert not Notice.objects.filter(user=alice).exists()
    transfer(claim=claim, by=alice, to=mona)
    assert claim.history.filter(reason__startswith="Transferred").count() == 1


def test_a_lead_hands_it_over_and_both_hear_of_it(claim, alice, lena, mona):
    transfer(claim=claim, by=lena, to=mona)
    assert Notice.objects.get(user=alice).title == "sam is mona's now"
    assert Notice.objects.get(user=mona).body == "lena transferred sam from alice to mona."


def test_who_has_just_given_it_away_may_take_it_back_and_nobody_else(claim, alice, mona, lena):
    transfer(claim=claim, by=alice, to=mona)
    with pytest.raises(Forbidden, match="belongs to mona"):
        transfer(claim=claim, by=alice, to=lena)
    transfer(claim=claim, by=alice, to=alice)
    claim.refresh_from_db()
    assert claim.requested_by == alice
    with pytest.raises(Forbidden):
        transfer(claim=claim, by=mona, to=mona)


def test_it_is_taken_back_within_ten_minutes_and_not_later(claim, alice, mona):
    transfer(claim=claim, by=alice, to=mona)
    later(claim, timedelta(minutes=11))
    with pytest.raises(Forbidden, match="belongs to mona"):
        transfer(claim=claim, by=alice, to=alice)
    later(claim, timedelta(minutes=-2))
    assert transfer(claim=claim, by=alice, to=alice).requested_by == alice


def later(claim, span):
    """Let so much time pass since the last thing that happened to the claim; the order of its lines stays."""
    claim.history.update(at=F("at") - span)


def test_it_is_not_taken_back_after_something_else_happened(claim, alice, mona):
    transfer(claim=claim, by=alice, to=mona)
    claim.advance(ClaimState.PROVISIONED, why="No pod.")
    with pytest.raises(Forbidden, match="belongs to mona"):
        transfer(claim=claim, by=alice, to=alice)


def test_only_a_member_can_have_it(claim, alice, bob, eve, root):
    for person in (bob, eve, root):
        with pytest.raises(Invalid, match=f"{person} is no member of vision"):
            transfer(claim=claim, by=alice, to=person)


def test_others_hand_nothing_over(claim, bob, eve, mona):
    with pytest.raises(PermissionDenied):
        transfer(claim=claim, by=bob, to=mona)
    with pytest.raises(Http404):
        transfer(claim=claim, by=eve, to=mona)
    with pytest.raises(Forbidden):
        transfer(claim=claim, by=mona, to=mona)


@pytest.mark.parametrize("state", [ClaimState.REQUESTED, ClaimState.RELEASED])
def test_a_request_stays_with_who_asked_and_what_is_over_with_who_had_it(
    vision, fra, train, alice, mona, state
):
    claim = make_claim(vision, by=alice, cluster=fra, state=state)
    with pytest.raises(Conflict, match="only a running claim"):
        transfer(claim=claim, by=alice, to=mona)


def test_the_key_of_a_request_stays_unless_the_new_owner_has_used_the_same(
    claim, alice, mona, vision, fra, train, quota, gateway
):
    requested = {"team": vision, "cluster": fra, "profile": train}
    request_claim(by=mona, key=claim.key, **requested)
    transfer(claim=claim, by=alice, to=mona)
    claim.refresh_from_db()
    assert claim.key == f"handed-over-{claim.pk}"
