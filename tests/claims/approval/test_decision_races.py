"""People who decide at the same time; each race is run without its guard too, so that it is able to fail."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from claims import services
from claims.approval.approvals import Desk
from claims.models import Approval, ApprovalRule, Claim
from claims.quota import quotas
from claims.request.changes import Wanted
from claims.states import ClaimState
from core.errors import Conflict, QuotaExceeded
from tests.claims.threads import Meeting, at_once
from tests.factories import make_profile, make_quota, make_spec, make_user

pytestmark = pytest.mark.django_db(transaction=True)

SLICE = "mig.nvidia.com"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Nothing is delivered: the race is between people."""
    monkeypatch.setattr("claims.tasks.deliver.delay", lambda _id: None)


def without_row_locks(monkeypatch):
    monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)


@pytest.mark.parametrize("locked", [True, False])
def test_a_change_to_another_profile_cannot_share_the_last_devices(ask, lena, vision, monkeypatch, locked):
    """One slice is left. A lead gives it instead of a GPU while somebody asks for it."""
    make_quota(vision, 1, device_class=SLICE)
    small = make_profile("slice-20", spec=make_spec(device_class=SLICE))
    claim = ask()
    meeting, count = Meeting(guarded=locked), quotas.standing_of

    def count_and_wait(rows):
        counted = count(rows)
        meeting.wait()
        return counted

    monkeypatch.setattr(quotas, "standing_of", count_and_wait)
    if not locked:
        without_row_locks(monkeypatch)
    change = partial(
        services.approve_with_changes,
        claim=claim,
        by=lena,
        spec_hash=claim.spec_hash,
        wanted=Wanted(profile=small),
    )
    answers = at_once(change, partial(ask, profile=small))
    assert len([answer for answer in answers if isinstance(answer, Claim)]) == (1 if locked else 2)
    assert len([answer for answer in answers if isinstance(answer, QuotaExceeded)]) == (1 if locked else 0)


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_leads_one_consents_and_the_other_hears_of_it(ask, lena, lars, train, monkeypatch, locked):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = ask()
    meeting, reasons = Meeting(guarded=locked), Desk.reason_not_to_decide

    def look_and_wait(self, claim, **asked_by):
        found = reasons(self, claim, **asked_by)
        meeting.wait()
        return found

    monkeypatch.setattr(Desk, "reason_not_to_decide", look_and_wait)
    approve = partial(services.approve, claim=claim, spec_hash=claim.spec_hash)
    leads = partial(approve, by=lena), partial(approve, by=lars)
    if not locked:
        without_row_locks(monkeypatch)
        with pytest.raises(IntegrityError, match="approvalstep_once"):  # what the database is left to refuse
            at_once(*leads)
        return
    refused = [answer for answer in at_once(*leads) if isinstance(answer, Conflict)]
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED
    assert [refusal.message.split(" to ")[0] for refusal in refused] == [f"{claim.steps.get().by} consented"]


def test_a_lead_and_two_admins_at_once_come_to_one_approval(ask, lena, train, root):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    other = make_user("other", admin=True)
    claim = ask()
    approve = partial(services.approve, claim=claim, spec_hash=claim.spec_hash)
    at_once(partial(approve, by=lena), partial(approve, by=root), partial(approve, by=other))
    with suppress(Conflict):  # an admin who came after the lead has decided already
        approve(by=lena)
    claim.refresh_from_db()
    if claim.state == ClaimState.REQUESTED:
        at_once(partial(approve, by=root), partial(approve, by=other))
    claim.refresh_from_db()
    assert claim.state == ClaimState.APPROVED
    assert claim.history.filter(new=ClaimState.APPROVED).count() == 1
    assert claim.steps.get().by == lena


def test_a_change_and_an_approval_at_once_have_one_winner(ask, lena, lars):
    claim = ask(devices=4)
    answers = at_once(
        partial(services.approve, claim=claim, by=lars, spec_hash=claim.spec_hash),
        partial(
            services.approve_with_changes,
            claim=claim,
            by=lena,
            spec_hash=claim.spec_hash,
            wanted=Wanted(devices=2),
        ),
    )
    assert len([answer for answer in answers if isinstance(answer, Conflict)]) == 1
    claim.refresh_from_db()
    assert (claim.decided_by, claim.devices) in ((lars, 4), (lena, 2))
    assert claim.approved_hash == claim.spec_hash
    assert claim.charges.get().devices == claim.devices


def test_two_stand_ins_at_once_are_one(vision, lena, alice):
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    now = timezone.now()
    give = partial(services.delegate, by=lena, team=vision, starts_at=now, ends_at=now + timedelta(days=1))
    answers = at_once(partial(give, to=alice), partial(give, to=mira))
    assert len([answer for answer in answers if isinstance(answer, Conflict)]) == 1
