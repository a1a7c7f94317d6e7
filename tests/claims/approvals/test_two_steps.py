"""Requests on which a lead and then a platform admin decide."""

import pytest

from claims.approvals import decide
from claims.inbox.inbox import Inbox
from claims.models import Approval, ApprovalRule, Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden
from notify.models import Notice
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def wish(ask, vision, train, root):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    return ask(name="sam2", devices=2)


def approve(wish, by, **fields):
    return decide.approve(claim=wish, by=by, **{"spec_hash": wish.spec_hash, **fields})


def waits_for(*people):
    return [person.username for person in people if Inbox(person).pending(for_reader=True)]


def test_a_lead_consents_first_and_a_platform_admin_decides(wish, lena, lars, root):
    assert waits_for(lena, lars, root) == ["lena", "lars"]
    claim = approve(wish, lena, note="needed for the review")
    assert claim.state == ClaimState.REQUESTED
    assert waits_for(lena, lars, root) == ["root"]
    assert approve(wish, root).state == ClaimState.APPROVED
    wish.refresh_from_db()
    assert (wish.decided_by, wish.approved_hash) == (root, wish.spec_hash)
    said = list(wish.history.values_list("why", flat=True))
    assert "First approval, by a lead. needed for the review" in said


def test_an_admin_does_not_decide_before_a_lead(wish, root):
    with pytest.raises(Forbidden, match="A lead of vision must give the first approval"):
        approve(wish, root)


def test_a_lead_alone_does_not_approve(wish, lena):
    for _ in range(2):
        assert approve(wish, lena).state == ClaimState.REQUESTED
    assert wish.steps.count() == 1


def test_the_second_lead_hears_who_consented_first(wish, lena, lars):
    approve(wish, lena)
    with pytest.raises(
        Conflict, match=r"lena gave the first approval of sam2 on .*. A platform admin decides next"
    ):
        approve(wish, lars)


def test_one_person_does_not_consent_twice(wish, vision, lena, root):
    """A platform admin who leads the team as well gives one of the two consents."""
    vision.memberships.create(user=root, role="lead")
    assert approve(wish, root).state == ClaimState.REQUESTED
    assert approve(wish, root).state == ClaimState.REQUESTED
    other = make_user("other", admin=True)
    assert approve(wish, other).state == ClaimState.APPROVED


def test_a_consent_is_bound_to_the_spec_that_was_read(wish, lena, root):
    approve(wish, lena)
    Claim.objects.filter(pk=wish.pk).update(spec_hash="0" * 64)
    with pytest.raises(Forbidden, match="A lead of vision must give the first approval"):
        approve(wish, root, spec_hash="0" * 64)


def test_the_consent_to_an_older_spec_gives_way_to_the_consent_to_the_new_one(wish, lena, lars, root):
    approve(wish, lena)
    Claim.objects.filter(pk=wish.pk).update(spec_hash="0" * 64)
    assert waits_for(lena, lars, root) == ["lena", "lars"]
    approve(wish, lars, spec_hash="0" * 64)
    assert [(step.by, step.spec_hash) for step in wish.steps.all()] == [(lars, "0" * 64)]
    assert waits_for(lena, lars, root) == ["root"]


def test_who_has_consented_may_not_decide_on_another_spec(wish, lena):
    approve(wish, lena)
    with pytest.raises(Forbidden, match=r"lena gave the first approval\. A platform admin decides next"):
        approve(wish, lena, spec_hash="0" * 64)


def test_a_request_that_goes_back_to_people_is_consented_to_anew(wish, lena, root):
    approve(wish, lena)
    approve(wish, root)
    wish.refresh_from_db()
    wish.advance(ClaimState.REQUESTED, why="the cluster refused it", decided_by=None, decided_at=None)
    assert not wish.steps.exists()
    assert waits_for(lena, root) == ["lena"]


def test_the_admins_are_told_who_consented(wish, lena, root):
    assert not Notice.objects.filter(user=root).exists()
    approve(wish, lena)
    notice = Notice.objects.get(user=root)
    assert "lena gave the first approval." in notice.body
    assert notice.title == "sam2 waits for your decision"


def test_where_no_lead_can_decide_two_admins_do(ask, vision, train, root):
    vision.memberships.filter(role="lead").delete()
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = ask()
    assert waits_for(root) == ["root"]
    approve(claim, root)
    other = make_user("other", admin=True)
    assert waits_for(root, other) == ["other"]
    assert approve(claim, other).state == ClaimState.APPROVED


def test_an_admin_may_say_no_after_the_consent(wish, lena, root):
    approve(wish, lena)
    claim = decide.deny(claim=wish, by=root, reason="The cluster moves that week.")
    assert claim.state == ClaimState.DENIED
