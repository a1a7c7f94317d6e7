"""Delegates of several leads decide on what each lead may decide on."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.approvals import decide
from claims.approvals.authority import ApprovalAuthority
from claims.lifecycle.extension_rules import extension_approvers
from claims.lifecycle.services import extend
from claims.models import Delegation
from claims.states import ClaimState
from core.errors import Forbidden
from notify.models import Notice
from teams.models import Membership
from tests.factories import make_claim

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def noor(vision, eve):
    """A member of vision."""
    Membership.objects.create(user=eve, team=vision, role="member")
    return eve


def stands_in(person, lead, team):
    now = timezone.now()
    Delegation.objects.create(team=team, lead=lead, to=person, starts_at=now - DAY, ends_at=now + DAY)


def test_delegate_of_two_leads_decides_on_requests_of_each(ask, vision, lena, lars, noor):
    stands_in(noor, lena, vision)
    claim = ask(by=lena, key="of lena")
    with pytest.raises(Forbidden, match="lena made this request"):
        decide.approve(claim=claim, by=noor, spec_hash=claim.spec_hash)
    stands_in(noor, lars, vision)
    assert ApprovalAuthority(noor).delegator(claim) == lars
    approved = decide.approve(claim=claim, by=noor, spec_hash=claim.spec_hash)
    assert approved.history.last().reason.endswith("As delegate of lars.")


def test_extension_of_the_only_lead_waits_for_admins(vision, fra, train, lena, lars, noor, root):
    """The stand-in may not decide on it, so platform admins are asked."""
    Membership.objects.filter(user=lars, team=vision).delete()
    stands_in(noor, lena, vision)
    now = timezone.now()
    claim = make_claim(
        vision, by=lena, cluster=fra, profile=train, state=ClaimState.PROVISIONED, decided_at=now,
        expires_at=now + DAY,
    )  # fmt: skip
    assert extension_approvers(claim, requested_by=lena) == [root]
    asked = extend(claim=claim, by=lena, until=claim.expires_at + DAY, key="k")
    told = Notice.objects.filter(key=f"extension:{asked.pk}:asked")
    assert [notice.user for notice in told] == [root]
