"""Decisions of a delegate."""

from datetime import timedelta

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from claims.approvals.authority import reason_not_to_decide
from claims.approvals.decide import approve
from claims.approvals.pending import waiting_for
from claims.approvals.services import delegate, end_delegation
from claims.inbox.inbox import Inbox
from claims.models import ApprovalRule, Delegation
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from notify.models import Notice
from teams.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def mira(vision):
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    return mira


@pytest.fixture
def away(vision, lena, mira):
    """Lena is away from tomorrow on for a week; mira decides for her."""
    begin = timezone.now() + DAY
    return delegate(by=lena, team=vision, to=mira, starts_at=begin, ends_at=begin + 7 * DAY)


def test_delegate_decides_only_during_the_delegation(ask, mira, away):
    claim = ask()
    for days, may in ((0, False), (2, True), (9, False)):
        with time_machine.travel(timezone.now() + days * DAY, tick=False):
            assert (reason_not_to_decide(mira, claim) == "") is may
            assert waiting_for(mira).count() == may


def test_history_names_the_delegating_lead(ask, mira, away):
    claim = ask()
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        approve(claim=claim, by=mira, spec_hash=claim.spec_hash, note="Fine.")
    step = claim.history.last()
    assert (step.new, step.by, step.reason) == (ClaimState.APPROVED, mira, "Fine. As delegate of lena.")


def test_former_member_sees_no_delegation_of_the_team(client, vision, lena, mira, away):
    page, api = reverse("claims:delegations"), "/api/v1/delegations/"
    client.force_login(mira)
    assert "lena" in client.get(page).text
    assert len(client.get(api).json()["results"]) == 1
    vision.memberships.filter(user=mira).delete()
    assert "lena" not in client.get(page).text
    assert client.get(api).json()["results"] == []
    assert client.post(reverse("claims:delegation_end", args=[away.pk])).status_code == 404
    assert not Notice.objects.filter(user=mira)


def test_delegate_is_notified_like_a_lead(ask, mira, away):
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        claim = ask(name="sam2")
    assert Notice.objects.filter(user=mira, title__startswith="sam2 waits").exists()
    assert claim.state == ClaimState.REQUESTED


def test_delegate_cannot_decide_on_their_own_request(ask, mira, vision, away):
    ApprovalRule.objects.create(team=vision, approval="", self_approval=True)
    own = ask(by=mira)
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        assert "your own request" in reason_not_to_decide(mira, own)
        assert not waiting_for(mira)


def test_delegate_cannot_decide_on_requests_of_the_lead(ask, mira, lena, away):
    of_lead = ask(by=lena)
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        assert reason_not_to_decide(mira, of_lead).startswith("lena made this request")


@pytest.mark.parametrize("gone", ["leads no more", "cannot sign in"])
def test_delegation_ends_with_the_role_or_account_of_the_lead(ask, mira, lena, vision, away, gone):
    claim = ask()
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        assert reason_not_to_decide(mira, claim) == ""
        if gone == "leads no more":
            vision.memberships.filter(user=lena).update(role="member")
        else:
            User.objects.filter(pk=lena.pk).update(is_active=False)
        assert reason_not_to_decide(mira, claim).startswith("Only leads of vision")


def test_lead_can_still_decide_during_a_delegation(ask, lena, away):
    claim = ask()
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        assert [item.pk for item in Inbox(lena).pending(for_reader=True)] == [claim.pk]


def test_only_lead_and_delegate_end_a_delegation(ask, mira, lena, lars, eve, away):
    with pytest.raises(Forbidden):
        end_delegation(by=lars, delegation=away)
    with pytest.raises(Http404):  # who it is between is no matter of an outsider
        end_delegation(by=eve, delegation=away)
    for person in (mira, lena):
        end_delegation(by=person, delegation=away)
    claim = ask()
    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        assert reason_not_to_decide(mira, claim)


@pytest.mark.parametrize(
    ("person", "error"), [("alice", PermissionDenied), ("bob", PermissionDenied), ("eve", Http404)]
)
def test_only_leads_delegate(request, vision, mira, person, error):
    with pytest.raises(error):
        delegate(
            by=request.getfixturevalue(person),
            team=vision,
            to=mira,
            starts_at=timezone.now(),
            ends_at=timezone.now() + DAY,
        )


@pytest.mark.parametrize("person", ["bob", "eve", "lena", "root"])
def test_delegate_must_be_another_member(request, vision, lena, person):
    with pytest.raises(Invalid, match="member of vision"):
        delegate(
            by=lena,
            team=vision,
            to=request.getfixturevalue(person),
            starts_at=timezone.now(),
            ends_at=timezone.now() + DAY,
        )


@pytest.mark.parametrize(("begin", "end"), [(2, 1), (-3, -1), (0, 100)])
def test_invalid_period_is_refused(vision, lena, mira, begin, end):
    now = timezone.now()
    with pytest.raises(Invalid):
        delegate(by=lena, team=vision, to=mira, starts_at=now + begin * DAY, ends_at=now + end * DAY)


def test_lead_has_one_delegate_at_a_time(vision, lena, alice, mira, away):
    span = {"starts_at": away.starts_at, "ends_at": away.ends_at}
    assert delegate(by=lena, team=vision, to=mira, **span) == away
    with pytest.raises(Conflict, match="mira is already your delegate"):
        delegate(by=lena, team=vision, to=alice, **span)
    assert Delegation.objects.count() == 1
