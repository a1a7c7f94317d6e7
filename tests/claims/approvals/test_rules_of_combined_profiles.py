"""Combined profiles cannot bypass the limit of a team rule."""

from datetime import timedelta

import pytest

from claims.approvals.authority import effective_rule_on
from claims.lifecycle.services import extend
from claims.models import Approval, ApprovalRule, RequestStatus
from claims.states import ClaimState
from tests.factories import make_profile, make_quota, make_spec

pytestmark = pytest.mark.django_db

PART = "mig.nvidia.com"
DAY = timedelta(days=1)


@pytest.fixture
def rule(vision):
    make_quota(vision, 8, device_class=PART)
    return ApprovalRule.objects.create(team=vision, approval=Approval.LEAD, automatic_devices=4)


@pytest.fixture
def part(db):
    return make_profile("slice-10", spec=make_spec(device_class=PART))


@pytest.mark.parametrize(("devices", "state"), [(1, ClaimState.APPROVED), (2, ClaimState.REQUESTED)])
def test_combined_profiles_count_together_under_a_team_rule(ask, rule, part, devices, state):
    claim = ask(devices=3, together=[(part, devices)])
    assert claim.state == state
    assert effective_rule_on(claim).automatic is (state == ClaimState.APPROVED)


def test_alternatives_do_not_add_up(ask, rule, part):
    assert ask(devices=3, alternatives=[part]).state == ClaimState.APPROVED


def test_a_rule_for_each_profile_counts_its_own_devices(ask, vision, train, part):
    make_quota(vision, 8, device_class=PART)
    for profile in (train, part):
        ApprovalRule.objects.create(team=vision, profile=profile, automatic_devices=3)
    assert ask(devices=3, together=[(part, 3)]).state == ClaimState.APPROVED


def test_extension_of_combined_profiles_follows_the_same_rule(ask, rule, part, alice):
    claim = ask(devices=2, together=[(part, 2)], duration=DAY)
    longer = extend(claim=claim, by=alice, until=claim.expires_at + DAY, key="k")
    assert longer.status == RequestStatus.APPROVED
    ApprovalRule.objects.filter(pk=rule.pk).update(automatic_devices=3)
    longer = extend(claim=claim, by=alice, until=longer.until + DAY, key="l")
    assert (longer.status, longer.decided_at) == (RequestStatus.WAITING, None)
