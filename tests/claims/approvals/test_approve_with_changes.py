"""Approval of less than was requested."""

from datetime import timedelta

import pytest

from claims.approvals import decide
from claims.models import Approval, ApprovalRule
from claims.plans.changes import WantedChange, plan_change
from claims.quotas.quota_usage import team_usage
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from dra.manifests import spec_hash
from notify.models import Notice
from tests.factories import make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
SLICE = "mig.nvidia.com"


@pytest.fixture
def requested(ask):
    return ask(name="sam2", devices=4, duration=10 * DAY)


@pytest.fixture
def small(db):
    return make_profile("slice-20", spec=make_spec(device_class=SLICE))


def change(requested, by, **wanted):
    return decide.approve_with_changes(
        claim=requested,
        by=by,
        spec_hash=requested.spec_hash,
        wanted=WantedChange(**wanted),
        note="Enough for the review.",
    )


def test_approval_with_fewer_devices_and_less_time(requested, lena, vision):
    claim = change(requested, lena, devices=2, duration=3 * DAY)
    assert (claim.state, claim.devices, claim.duration) == (ClaimState.APPROVED, 2, 3 * DAY)
    assert claim.expires_at == claim.decided_at + 3 * DAY
    assert claim.spec["devices"]["requests"][0]["exactly"]["count"] == 2
    assert claim.spec_hash == claim.approved_hash == spec_hash(claim.spec)
    assert team_usage([vision])[0].reserved == 2


def test_original_request_is_kept_and_the_requester_notified(requested, lena, alice):
    before = requested.spec_hash
    claim = change(requested, lena, devices=2, duration=3 * DAY)
    assert claim.original_request == {
        "profile": "train-80 v1",
        "devices": 4,
        "duration": "10 d",
        "seconds": 864_000,
        "spec_hash": before,
    }
    notice = Notice.objects.get(user=alice)
    assert notice.title == "sam2 was approved with changes"
    assert "lena changed it: 4 → 2 devices; 10 d → 3 d." in notice.body
    assert "release it" in notice.body
    assert claim.history.last().reason == (
        "Approved with changes: 4 → 2 devices; 10 d → 3 d. Enough for the review."
    )


def test_change_of_profile_changes_the_charges(requested, lena, vision, small):
    make_quota(vision, 4, device_class=SLICE)
    claim = change(requested, lena, profile=small)
    assert claim.profile_version == small.current
    assert {row.device_class: row.devices for row in claim.charges.all()} == {SLICE: 4}
    assert {each.label: each.reserved for each in team_usage([vision])} == {"gpu.nvidia.com": 0, SLICE: 4}


def test_change_of_profile_needs_quota(requested, lena, vision, small):
    make_quota(vision, 3, device_class=SLICE)
    with pytest.raises(QuotaExceeded, match=f"0 of 3 {SLICE} devices .*; this request needs 4"):
        change(requested, lena, profile=small)
    requested.refresh_from_db()
    assert (requested.state, requested.devices, requested.original_request) == (ClaimState.REQUESTED, 4, None)
    assert {row.device_class for row in requested.charges.all()} == {"gpu.nvidia.com"}
    assert change(requested, lena, profile=small, devices=3).state == ClaimState.APPROVED


def test_lowered_quota_does_not_prevent_a_smaller_approval(requested, lena, quota):
    quota.devices = 1
    quota.save(update_fields=["devices"])
    assert change(requested, lena, devices=2).devices == 2


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"devices": 5}, "approve from 1 to 4, not 5"),
        ({"devices": 0}, "approve from 1 to 4, not 0"),
        ({"duration": 11 * DAY}, "10 d requested; approve at most that, not 11 d"),
        ({"duration": timedelta(0)}, "not 0 s"),
        ({}, "Nothing has changed"),
        ({"devices": 4}, "Nothing has changed"),
    ],
)
def test_larger_or_empty_change_is_refused(requested, lena, wanted, said):
    with pytest.raises(Invalid, match=said):
        change(requested, lena, **wanted)


def test_profile_closed_to_the_team_is_refused(requested, lena, small):
    small.teams.add(make_team("nlp"))
    with pytest.raises(Invalid, match="not open to vision"):
        change(requested, lena, profile=small)


def test_fixed_device_count_cannot_be_changed(ask, lena):
    pair = make_profile("pair", spec=make_spec(2), scalable="")
    with pytest.raises(Invalid, match="The number of devices of"):
        change(ask(profile=pair, devices=2), lena, devices=1)


def test_lead_cannot_change_to_a_stricter_profile(requested, lena, root):
    big = make_profile("big", approval=Approval.ADMIN)
    with pytest.raises(Forbidden, match="Only platform admins"):
        change(requested, lena, profile=big)
    requested.refresh_from_db()
    assert requested.state == ClaimState.REQUESTED
    assert change(requested, root, profile=big).state == ClaimState.APPROVED


def test_change_is_bound_to_the_spec_that_was_read(requested, lena):
    with pytest.raises(Conflict, match="has changed since you read it"):
        decide.approve_with_changes(
            claim=requested, by=lena, spec_hash="0" * 64, wanted=WantedChange(devices=1)
        )


def test_second_approver_of_a_change_learns_who_decided(requested, lena, lars):
    decide.approve(claim=requested, by=lars, spec_hash=requested.spec_hash)
    with pytest.raises(Conflict, match="lars already approved sam2"):
        change(requested, lena, devices=2)


def test_members_and_requesters_cannot_change_a_request(requested, alice):
    with pytest.raises(Forbidden):
        change(requested, alice, devices=1)


def test_change_by_a_lead_is_the_first_approval(ask, lena, root, train):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = change(ask(devices=4), lena, devices=2)
    assert (claim.state, claim.devices) == (ClaimState.REQUESTED, 2)
    approved = decide.approve(claim=claim, by=root, spec_hash=claim.spec_hash)
    assert (approved.state, approved.decided_by) == (ClaimState.APPROVED, root)


def test_change_by_an_admin_needs_a_new_first_approval(ask, lena, alice, root, train):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = decide.approve(claim=(requested := ask(devices=4)), by=lena, spec_hash=requested.spec_hash)
    claim = change(claim, root, duration=timedelta(hours=4))
    assert (claim.state, claim.steps.count()) == (ClaimState.REQUESTED, 0)
    assert "You can withdraw it." in Notice.objects.get(user=alice).body
    with pytest.raises(Forbidden, match="A lead of vision must give the first approval"):
        decide.approve(claim=claim, by=root, spec_hash=claim.spec_hash)


def test_change_of_a_template_counts_all_pods(ask, lena, vision):
    claim = change(ask(devices=2, parallel=4, delivery="template"), lena, devices=1)
    assert claim.charges.get().devices == 4
    assert team_usage([vision])[0].reserved == 4


def test_planning_a_change_writes_nothing(requested, small):
    found = plan_change(requested, WantedChange(devices=2, profile=small))
    assert found.differences == ("train-80 v1 → slice-20 v1", "4 → 2 devices")
    requested.refresh_from_db()
    assert (requested.devices, requested.charges.get().devices) == (4, 4)


def test_repeated_request_returns_the_changed_claim(ask, lena, vision, small):
    """A program that was cut off sends it again with its key; the approver has chosen another profile."""
    make_quota(vision, 4, device_class=SLICE)
    claim = change(ask(devices=2, key="nightly"), lena, profile=small)
    assert ask(devices=2, key="nightly") == claim
