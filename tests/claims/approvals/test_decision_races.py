"""Concurrent decisions; each race also runs without its lock, to show that it can fail."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from claims.approvals import decide
from claims.approvals import decide as approvals_decide
from claims.approvals import decide as change_services
from claims.approvals.decide import approve_with_changes
from claims.approvals.services import delegate, end_delegation
from claims.models import Approval, ApprovalRule, Claim, Delegation
from claims.plans.changes import WantedChange
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.errors import Conflict, QuotaExceeded
from tests.factories import make_profile, make_quota, make_spec, make_user
from tests.threads import Race, at_once, without_lock

pytestmark = pytest.mark.django_db(transaction=True)

SLICE = "mig.nvidia.com"


@pytest.fixture
def mira(vision):
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    return mira


def change(claim, by, **wanted):
    return approve_with_changes(claim=claim, by=by, spec_hash=claim.spec_hash, wanted=WantedChange(**wanted))


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Nothing is delivered: the race is between people."""
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", lambda _id: None)


@pytest.mark.security("races", "an approval and a request for the last devices")
@pytest.mark.parametrize("locked", [True, False])
def test_change_and_request_cannot_share_the_last_devices(ask, lena, vision, monkeypatch, locked):
    """One slice is left. A lead gives it instead of a GPU while somebody asks for it."""
    make_quota(vision, 1, device_class=SLICE)
    small = make_profile("slice-20", spec=make_spec(device_class=SLICE))
    claim = ask()
    race = Race(monkeypatch)
    race.hold_after(quota_usage, "quota_usage")
    if not locked:
        without_lock(monkeypatch, "claims.approvals.decide._require_quota")
    changed, asked = race.run(
        partial(change, claim, lena, profile=small),
        partial(ask, profile=small),
    )
    assert race.waited is locked
    assert isinstance(changed, Claim)
    assert isinstance(asked, QuotaExceeded if locked else Claim)


@pytest.mark.parametrize("locked", [True, False])
def test_one_of_two_leads_gives_the_first_approval(ask, lena, lars, train, monkeypatch, locked):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = ask()
    race = Race(monkeypatch)
    race.hold_before(decide, "record_first_approval")
    if not locked:
        without_lock(monkeypatch, "claims.approvals.decide.load_for_decision")
    approve = partial(approvals_decide.approve, claim=claim, spec_hash=claim.spec_hash)
    first, second = race.run(partial(approve, by=lena), partial(approve, by=lars))
    assert race.waited is locked
    assert isinstance(first, Claim)
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED
    if locked:
        assert isinstance(second, Conflict)
        assert second.message.startswith("lena gave the first approval of ")
    else:  # both were thanked for it, and the consent of lars is overwritten
        assert isinstance(second, Claim)
    assert claim.steps.get().by == lena


@pytest.mark.security("races", "an approval of what was changed meanwhile")
@pytest.mark.parametrize("locked", [True, False])
def test_late_change_conflicts_with_the_decision(ask, lena, lars, monkeypatch, locked):
    """And who sends the same change twice is answered twice."""
    claim = ask(devices=4)
    race = Race(monkeypatch)
    race.hold_before(change_services, "plan_change")
    if not locked:
        without_lock(monkeypatch, "claims.approvals.decide.approve_with_changes")
    first, second = race.run(partial(change, claim, lena, devices=2), partial(change, claim, lars, devices=3))
    assert race.waited is locked
    claim.refresh_from_db()
    assert claim.charges.get().devices == claim.devices == (2 if locked else 3)
    if locked:
        assert isinstance(first, Claim)
        assert second.message.startswith("lena already approved")
        assert change(claim, lena, devices=2) == claim
    else:
        assert first.message.endswith("has changed in the meantime. Read it again.")


@pytest.mark.security("races", "three approvals at once")
def test_lead_and_two_admins_at_once_approve_once(ask, lena, train, root):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    other = make_user("other", admin=True)
    claim = ask()
    approve = partial(approvals_decide.approve, claim=claim, spec_hash=claim.spec_hash)
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


def test_a_change_and_an_approval_at_once_have_one_winner(ask, lena, lars, monkeypatch):
    claim = ask(devices=4)
    race = Race(monkeypatch)
    race.hold_before(change_services, "plan_change")
    changed, approved = race.run(
        partial(change, claim, lena, devices=2),
        partial(approvals_decide.approve, claim=claim, by=lars, spec_hash=claim.spec_hash),
    )
    assert race.waited
    assert isinstance(changed, Claim)
    assert isinstance(approved, Conflict)
    claim.refresh_from_db()
    assert (claim.decided_by, claim.devices) == (lena, 2)
    assert claim.approved_hash == claim.spec_hash
    assert claim.charges.get().devices == claim.devices


@pytest.mark.parametrize("locked", [True, False])
def test_two_concurrent_delegations_create_one(vision, lena, alice, mira, monkeypatch, locked):
    now = timezone.now()
    give = partial(delegate, by=lena, team=vision, starts_at=now, ends_at=now + timedelta(days=1))
    race = Race(monkeypatch)
    race.hold_before(Delegation.objects, "create")
    if not locked:
        without_lock(monkeypatch, "claims.approvals.services.delegate")
    first, second = race.run(partial(give, to=alice), partial(give, to=mira))
    assert race.waited is locked
    assert isinstance(first, Delegation)
    assert isinstance(second, Conflict if locked else Delegation)


@pytest.mark.parametrize("locked", [True, False])
def test_delegation_ended_by_both_ends_once(vision, lena, mira, monkeypatch, locked):
    now = timezone.now()
    row = delegate(by=lena, team=vision, to=mira, starts_at=now, ends_at=now + timedelta(days=1))
    race = Race(monkeypatch)
    race.hold_before(Delegation, "save")
    if not locked:
        without_lock(monkeypatch, "claims.approvals.services.end_delegation")
    end = partial(end_delegation, delegation=row)
    first, second = race.run(partial(end, by=lena), partial(end, by=mira))
    assert race.waited is locked
    row.refresh_from_db()
    assert row.ends_at == first.ends_at
    assert (second.ends_at == row.ends_at) is locked  # else mira was told a later end than it had
