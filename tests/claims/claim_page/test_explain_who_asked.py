"""The first step of a claim's way names who asked for it, whoever owns it by now."""

import pytest

from claims.claim_page.explain import explain
from claims.lifecycle.services import transfer
from claims.models import Claim
from claims.requests.services import request_claim
from claims.states import ClaimState
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_transferred_claim_still_names_requester(vision, fra, train, alice, quota):
    claim = request_claim(by=alice, team=vision, cluster=fra, profile=train, key="once", reason="A test.")
    claim.advance(ClaimState.APPROVED, why="Approved.")
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    transfer(claim=claim, by=alice, to=mona)
    step = explain(Claim.objects.get(pk=claim.pk)).steps[0]
    assert (step.key, step.by) == ("requested", "alice")
