"""Requests that need a first approval by a lead and a second one by a platform admin."""

import pytest

from claims.approvals import decide, pending
from claims.inbox.inbox import Inbox
from claims.models import Approval, ApprovalRule, Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden
from notify.models import Notice
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def requested(ask, vision, train, root):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    return ask(name="sam2", devices=2)


def approve(requested, by, **fields):
    return decide.approve(claim=requested, by=by, **{"spec_hash": requested.spec_hash, **fields})


def waits_for(*people):
    return [person.username for person in people if Inbox(person).pending(for_reader=True)]


def test_lead_and_then_platform_admin_approve(requested, lena, lars, root):
    assert waits_for(lena, lars, root) == ["lena", "lars"]
    claim = approve(requested, lena, note="needed for the review")
    assert claim.state == ClaimState.REQUESTED
    assert waits_for(lena, lars, root) == ["root"]
    assert approve(requested, root).state == ClaimState.APPROVED
    requested.refresh_from_db()
    assert (requested.decided_by, requested.approved_hash) == (root, requested.spec_hash)
    said = list(requested.history.values_list("reason", flat=True))
    assert "First approval, by a lead. needed for the review" in said


def test_admin_cannot_approve_before_a_lead(requested, root):
    with pytest.raises(Forbidden, match="A lead of vision must give the first approval"):
        approve(requested, root)


def test_a_lead_alone_does_not_approve(requested, lena):
    for _ in range(2):
        assert approve(requested, lena).state == ClaimState.REQUESTED
    assert requested.steps.count() == 1


def test_second_lead_learns_who_approved_first(requested, lena, lars):
    approve(requested, lena)
    with pytest.raises(
        Conflict, match=r"lena gave the first approval of sam2 on .*. A platform admin decides next"
    ):
        approve(requested, lars)


def test_one_person_cannot_give_both_approvals(requested, vision, lena, root):
    """A platform admin who leads the team as well gives one of the two consents."""
    vision.memberships.create(user=root, role="lead")
    assert approve(requested, root).state == ClaimState.REQUESTED
    assert approve(requested, root).state == ClaimState.REQUESTED
    other = make_user("other", admin=True)
    assert approve(requested, other).state == ClaimState.APPROVED


def test_first_approval_is_bound_to_the_spec(requested, lena, root):
    approve(requested, lena)
    Claim.objects.filter(pk=requested.pk).update(spec_hash="0" * 64)
    pending.refresh()
    with pytest.raises(Forbidden, match="A lead of vision must give the first approval"):
        approve(requested, root, spec_hash="0" * 64)


def test_first_approval_of_a_new_spec_replaces_the_old_one(requested, lena, lars, root):
    approve(requested, lena)
    Claim.objects.filter(pk=requested.pk).update(spec_hash="0" * 64)
    pending.refresh()
    assert waits_for(lena, lars, root) == ["lena", "lars"]
    approve(requested, lars, spec_hash="0" * 64)
    assert [(step.by, step.spec_hash) for step in requested.steps.all()] == [(lars, "0" * 64)]
    assert waits_for(lena, lars, root) == ["root"]


def test_first_approver_cannot_decide_on_another_spec(requested, lena):
    approve(requested, lena)
    with pytest.raises(Forbidden, match=r"lena gave the first approval\. A platform admin decides next"):
        approve(requested, lena, spec_hash="0" * 64)


def test_request_sent_back_needs_a_new_first_approval(requested, lena, root):
    approve(requested, lena)
    approve(requested, root)
    requested.refresh_from_db()
    requested.advance(ClaimState.REQUESTED, why="the cluster refused it", decided_by=None, decided_at=None)
    assert not requested.steps.exists()
    assert waits_for(lena, root) == ["lena"]


def test_admins_are_notified_of_the_first_approval(requested, lena, root):
    assert not Notice.objects.filter(user=root).exists()
    approve(requested, lena)
    notice = Notice.objects.get(user=root)
    assert "lena gave the first approval." in notice.body
    assert notice.title == "sam2 waits for your decision"


def test_two_admins_approve_if_no_lead_can(ask, vision, train, root):
    vision.memberships.filter(role="lead").delete()
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = ask()
    assert waits_for(root) == ["root"]
    approve(claim, root)
    other = make_user("other", admin=True)
    assert waits_for(root, other) == ["other"]
    assert approve(claim, other).state == ClaimState.APPROVED


def test_admin_may_deny_after_the_first_approval(requested, lena, root):
    approve(requested, lena)
    claim = decide.deny(claim=requested, by=root, reason="The cluster moves that week.")
    assert claim.state == ClaimState.DENIED
