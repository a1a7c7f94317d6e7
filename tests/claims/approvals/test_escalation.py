"""Escalation of overdue requests to platform admins."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.approvals import decide
from claims.approvals.escalation import escalate_overdue
from claims.inbox.inbox import Inbox
from claims.models import Approval, ApprovalRule, Claim
from claims.states import ClaimState
from claims.tasks import escalate
from notify.models import Notice

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def rule(vision):
    return ApprovalRule.objects.create(team=vision, approval="", escalate_after=4 * HOUR)


@pytest.fixture
def requested(ask, rule):
    return ask(name="sam2")


def test_overdue_request_waits_for_admins(requested, root, lena):
    now = requested.state_since
    assert escalate_overdue(now + 3 * HOUR) == 0
    assert not Inbox(root).pending(for_reader=True)
    assert escalate_overdue(now + 5 * HOUR) == 1
    (item,) = Inbox(root).pending(for_reader=True)
    assert "escalated to platform admins" in item.remarks
    assert Inbox(lena).pending(for_reader=True)
    notice = Notice.objects.get(user=root)
    assert notice.title == "sam2 of vision has waited for a decision for 5 h"
    assert (
        decide.approve(claim=requested, by=root, spec_hash=requested.spec_hash).state == ClaimState.APPROVED
    )


def test_escalation_notifies_once(requested, root):
    for hours in (5, 6, 7):
        escalate_overdue(requested.state_since + hours * HOUR)
    assert Notice.objects.filter(user=root).count() == 1


def test_rule_without_escalation_escalates_nothing(ask, root):
    claim = ask()
    assert escalate_overdue(claim.state_since + timedelta(days=6)) == 0
    ApprovalRule.objects.create(profile=claim.profile_version.profile, approval="", escalate_after=4 * HOUR)
    assert escalate_overdue(claim.state_since + timedelta(days=6)) == 1


def test_request_for_admins_is_not_escalated(ask, rule, root):
    ApprovalRule.objects.filter(pk=rule.pk).update(approval=Approval.ADMIN)
    claim = ask()
    assert escalate_overdue(claim.state_since + timedelta(days=6)) == 0
    ApprovalRule.objects.filter(pk=rule.pk).update(approval=Approval.LEAD)
    assert escalate_overdue(claim.state_since + timedelta(days=6)) == 1


def test_request_with_a_first_approval_is_not_escalated(requested, rule, lena, root):
    """The leads have decided: to say that they have not would be wrong."""
    ApprovalRule.objects.filter(pk=rule.pk).update(approval=Approval.BOTH)
    decide.approve(claim=requested, by=lena, spec_hash=requested.spec_hash)
    assert escalate_overdue(requested.state_since + 5 * HOUR) == 0
    assert [notice.title for notice in Notice.objects.filter(user=root)] == ["sam2 waits for your decision"]


def test_decided_requests_are_not_escalated(ask, requested, lena):
    other = ask(name="other")
    decide.deny(claim=requested, by=lena, reason="no")
    assert escalate_overdue(timezone.now() + timedelta(days=1)) == 1
    assert [one.name for one in Claim.objects.exclude(escalated_at=None)] == [other.name]


def test_admin_may_give_the_first_approval_after_escalation(requested, rule, root):
    ApprovalRule.objects.filter(pk=rule.pk).update(approval=Approval.BOTH)
    escalate_overdue(requested.state_since + 5 * HOUR)
    claim = decide.approve(claim=requested, by=root, spec_hash=requested.spec_hash)
    assert claim.state == ClaimState.REQUESTED
    assert claim.steps.get().by == root


def test_the_periodic_task_escalates(requested, root):
    Claim.objects.update(state_since=timezone.now() - 5 * HOUR)
    escalate()
    requested.refresh_from_db()
    assert requested.escalated_at is not None
