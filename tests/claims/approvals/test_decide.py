import pytest
from django.http import Http404

from claims.approvals.authority import approval_route
from claims.approvals.decide import approve, deny
from claims.approvals.pending import waiting_for
from claims.lifecycle.services import withdraw
from claims.models import Approval, ApprovalRule
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from tests.factories import make_profile, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def requested(ask):
    return ask(devices=2)


def test_a_lead_approves_what_they_have_read(requested, lena):
    claim = approve(claim=requested, by=lena, spec_hash=requested.spec_hash, note="until Friday")
    assert (claim.state, claim.decided_by, claim.decision_note) == (ClaimState.APPROVED, lena, "until Friday")
    assert claim.approved_hash == requested.spec_hash
    assert claim.expires_at == claim.decided_at + claim.duration


def test_approval_is_bound_to_the_spec(requested, lena):
    with pytest.raises(Conflict, match="has changed since you read it"):
        approve(claim=requested, by=lena, spec_hash="0" * 64)


def test_second_approver_learns_who_decided_and_when(requested, lena, lars):
    approve(claim=requested, by=lena, spec_hash=requested.spec_hash)
    with pytest.raises(Conflict, match=rf"lena already approved {requested} on .*20\d\d"):
        approve(claim=requested, by=lars, spec_hash=requested.spec_hash)
    with pytest.raises(Conflict, match="lena already approved"):
        deny(claim=requested, by=lars, reason="no")


def test_second_approval_by_the_same_person_has_no_effect(requested, lena):
    for _ in range(2):
        approve(claim=requested, by=lena, spec_hash=requested.spec_hash)
    assert requested.history.count() == 2


def test_approval_reads_the_claim_again(requested, alice, lena):
    withdraw(claim=requested, by=alice)
    requested.state = ClaimState.REQUESTED
    with pytest.raises(Conflict, match="alice withdrew"):
        approve(claim=requested, by=lena, spec_hash=requested.spec_hash)


def test_nobody_approves_their_own_request(ask, lena):
    own = ask(by=lena)
    with pytest.raises(Forbidden, match="your own request"):
        approve(claim=own, by=lena, spec_hash=own.spec_hash)


def test_nobody_approves_their_own_request_unless_a_rule_says_so(ask, lena, vision):
    ApprovalRule.objects.create(team=vision, approval="", self_approval=True)
    own = ask(by=lena)
    assert approve(claim=own, by=lena, spec_hash=own.spec_hash).state == ClaimState.APPROVED


def test_only_platform_admin_may_decide_on_their_own_request(ask, vision, fra):
    """Nobody else could; a rule of leads still wants another person."""
    root = make_user("root", is_superuser=True)
    monitoring = make_profile("monitoring", approval=Approval.ADMIN)
    own = ask(by=root, profile=monitoring)
    requested = [(own.profile_version, 1)]
    route = approval_route(by=root, team=vision, requested=requested, duration=own.duration)
    assert "You are the only platform admin" in route.sentence
    assert waiting_for(root).filter(claim=own).exists()
    claim = approve(claim=own, by=root, spec_hash=own.spec_hash)
    assert claim.state == ClaimState.APPROVED
    step = claim.history.get(new=ClaimState.APPROVED)
    assert step.by == root
    assert step.reason.endswith("Decided by the requester, the only platform admin.")


@pytest.mark.parametrize("approval", [Approval.ADMIN, Approval.LEAD, Approval.BOTH])
def test_platform_admin_beside_another_does_not_decide_on_their_own_request(ask, vision, fra, approval):
    root = make_user("root", is_superuser=True)
    if approval == Approval.ADMIN:
        make_user("second", is_superuser=True)
    own = ask(by=root, profile=make_profile("strict", approval=approval))
    with pytest.raises(Forbidden):
        approve(claim=own, by=root, spec_hash=own.spec_hash)


def test_members_and_viewers_do_not_decide(requested, bob, vision):
    carol = make_user("carol")
    vision.memberships.create(user=carol, role="member")
    for person in (bob, carol):
        with pytest.raises(Forbidden, match="Only leads of vision"):
            approve(claim=requested, by=person, spec_hash=requested.spec_hash)


def test_outsider_gets_404_for_a_request(requested, eve):
    with pytest.raises(Http404):
        approve(claim=requested, by=eve, spec_hash=requested.spec_hash)
    with pytest.raises(Http404):
        deny(claim=requested, by=eve, reason="no")


def test_a_platform_admin_decides_where_the_profile_says_so(ask, lena, root):
    claim = ask(profile=make_profile("big", approval=Approval.ADMIN))
    with pytest.raises(Forbidden, match="Only platform admins"):
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert approve(claim=claim, by=root, spec_hash=claim.spec_hash).decided_by == root


def test_denial_needs_a_reason(requested, lena):
    with pytest.raises(Invalid, match="Give a reason"):
        deny(claim=requested, by=lena, reason="  ")
    claim = deny(claim=requested, by=lena, reason="Use an L4")
    assert (claim.state, claim.decision_note) == (ClaimState.DENIED, "Use an L4")
    assert claim.history.last().by == lena


def test_denial_frees_the_reserved_quota(ask, lena):
    first = ask(devices=8)
    deny(claim=first, by=lena, reason="too many")
    assert ask(devices=8)
