import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404

from claims.lifecycle.services import release, withdraw
from claims.states import FINAL, ClaimState
from core.errors import Forbidden, IllegalTransition
from tests.factories import make_claim, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def held(vision, fra, train, alice):
    return make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.ALLOCATED)


def test_the_asker_withdraws_a_request(ask, alice):
    claim = withdraw(claim=ask(), by=alice, reason="not needed")
    assert claim.state == ClaimState.WITHDRAWN
    assert claim.history.last().reason == "not needed"


def test_what_is_decided_cannot_be_withdrawn(held, alice):
    with pytest.raises(IllegalTransition, match="it is “Allocated”"):
        withdraw(claim=held, by=alice)


@pytest.mark.parametrize("state", [ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED])
def test_what_is_approved_can_be_released(vision, fra, train, alice, state):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=state)
    assert release(claim=claim, by=alice).state == ClaimState.RELEASING


def test_releasing_twice_is_releasing_once(held, alice):
    release(claim=held, by=alice)
    assert release(claim=held, by=alice).history.filter(new=ClaimState.RELEASING).count() == 1


@pytest.mark.parametrize("state", [ClaimState.REQUESTED, *(s for s in FINAL if s != ClaimState.RELEASED)])
def test_what_holds_nothing_cannot_be_released(vision, fra, train, alice, state):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=state)
    with pytest.raises(IllegalTransition, match="holds nothing"):
        release(claim=claim, by=alice)


def test_a_lead_may_end_what_a_member_has(held, lena):
    assert release(claim=held, by=lena).state == ClaimState.RELEASING


def test_another_member_may_not(held, vision):
    carol = make_user("carol")
    vision.memberships.create(user=carol, role="member")
    with pytest.raises(Forbidden, match="belongs to alice; only the owner or a lead of vision"):
        release(claim=held, by=carol)


def test_a_viewer_may_not(held, bob):
    with pytest.raises(PermissionDenied):
        release(claim=held, by=bob)


def test_an_outsider_hears_nothing(held, eve):
    with pytest.raises(Http404):
        release(claim=held, by=eve)
