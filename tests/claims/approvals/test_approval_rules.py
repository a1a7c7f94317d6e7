"""Which approval rule applies, what it approves automatically, and who decides otherwise."""

from datetime import timedelta

import pytest

from claims.approvals.authority import approval_route, effective_rule_on
from claims.approvals.decide import approve
from claims.approvals.rules import Rules, effective_rule_for
from claims.approvals.services import remove_rule, save_rule
from claims.models import Approval, ApprovalRule
from claims.states import ClaimState
from core.errors import Forbidden, Invalid
from tests.factories import make_claim, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def big(db):
    return make_profile("big", approval=Approval.ADMIN)


@pytest.fixture
def rules(vision, train):
    """A rule of each kind, from the most specific to the least."""
    return {
        "both": ApprovalRule.objects.create(team=vision, profile=train, automatic_devices=1),
        "team": ApprovalRule.objects.create(team=vision, automatic_devices=2),
        "profile": ApprovalRule.objects.create(profile=train, automatic_devices=4),
    }


@pytest.mark.parametrize(
    ("removed", "name", "most"),
    [
        ((), "The rule of Vision for Train 80", 1),
        (("both",), "The rule of Vision", 2),
        (("both", "team"), "The rule for Train 80", 4),
        (("both", "team", "profile"), "Train 80 v1", 0),
    ],
)
def test_most_specific_rule_applies(rules, vision, train, removed, name, most):
    for which in removed:
        rules[which].delete()
    rule = Rules([vision]).rule(vision.pk, train.current)
    assert (rule.name, rule.automatic_devices) == (name, most)


def test_rule_of_another_team_does_not_apply(train, vision):
    ApprovalRule.objects.create(team=make_team("nlp"), approval=Approval.AUTOMATIC)
    assert Rules([vision]).rule(vision.pk, train.current).approval == Approval.LEAD


@pytest.mark.parametrize(
    ("approval", "most", "longest", "devices", "span", "automatic", "sentence"),
    [
        ("automatic", 0, None, 9, DAY, True, "Approved automatically (rule of Vision)."),
        ("lead", 2, None, 2, DAY, True, "Approved automatically for up to 2 devices (rule of Vision)."),
        (
            "lead",
            2,
            None,
            3,
            DAY,
            False,
            "The rule of Vision requires approval by a team lead for more than 2 devices.",
        ),
        ("lead", 0, None, 1, HOUR, False, "The rule of Vision requires approval by a team lead."),
        (
            "admin",
            2,
            DAY,
            1,
            2 * DAY,
            False,
            "The rule of Vision requires approval by a platform admin for more than 24 h.",
        ),
        (
            "both",
            0,
            None,
            1,
            DAY,
            False,
            "The rule of Vision requires approval by a team lead and then a platform admin.",
        ),
        ("", 0, None, 1, DAY, False, "Train 80 v1 requires approval by a team lead."),
    ],
)
def test_rule_states_who_approves(vision, train, approval, most, longest, devices, span, automatic, sentence):
    ApprovalRule.objects.create(
        team=vision, approval=approval, automatic_devices=most, automatic_duration=longest
    )
    effective_rule = effective_rule_for(vision, [(train.current, devices)], duration=span)
    assert effective_rule.automatic is automatic
    assert effective_rule.sentence.replace("1 d.", "24 h.") == sentence


def test_a_limit_of_one_device_is_named_in_the_singular(vision, train):
    ApprovalRule.objects.create(team=vision, approval="lead", automatic_devices=1)
    assert effective_rule_for(vision, [(train.current, 2)], duration=DAY).short_reason == "more than 1 device"


def test_strictest_rule_of_several_profiles_applies(vision, train, big):
    free = make_profile("free", approval=Approval.AUTOMATIC)
    asked = [(free.current, 1), (train.current, 1), (big.current, 1)]
    effective_rule = effective_rule_for(vision, asked, duration=DAY)
    assert (effective_rule.automatic, effective_rule.approval) == (False, Approval.ADMIN)
    assert effective_rule.sentence == "Big v1 requires approval by a platform admin."
    assert effective_rule_for(vision, asked[:1], duration=DAY).automatic


def test_stricter_alternative_decides_who_approves(ask, big, lena, root):
    claim = ask(alternatives=[big])
    with pytest.raises(Forbidden, match="Only platform admins"):
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert approve(claim=claim, by=root, spec_hash=claim.spec_hash).state == ClaimState.APPROVED


def test_rule_overrides_the_profile_with_automatic_approval(ask, vision):
    ApprovalRule.objects.create(team=vision, automatic_devices=2)
    claim = ask(devices=2)
    assert claim.state == ClaimState.APPROVED
    assert claim.decision_note == "Approved automatically for up to 2 devices (rule of Vision)."
    assert ask(devices=3).state == ClaimState.REQUESTED


def test_devices_of_all_pods_count_against_the_automatic_limit(ask, vision):
    ApprovalRule.objects.create(team=vision, automatic_devices=2)
    assert ask(devices=1, parallel=3, delivery="template").state == ClaimState.REQUESTED


@pytest.mark.parametrize(
    ("approval", "sentence"),
    [
        ("lead", "A lead of vision decides: lars or lena."),
        ("admin", "A platform admin decides: root."),
        ("both", "First approval: a lead of vision (lars or lena). Second: a platform admin (root)."),
    ],
)
def test_requester_sees_the_approval_route_before_sending(vision, train, alice, root, approval, sentence):
    ApprovalRule.objects.create(team=vision, approval=approval)
    route = approval_route(by=alice, team=vision, requested=[(train.current, 1)], duration=DAY)
    assert (route.automatic, route.sentence) == (False, sentence)
    assert route.rule.startswith("The rule of Vision requires")


def test_rule_applies_to_pending_requests(ask, vision):
    claim = ask()
    assert effective_rule_on(claim).approval == Approval.LEAD
    ApprovalRule.objects.create(team=vision, approval=Approval.ADMIN)
    assert effective_rule_on(claim).approval == Approval.ADMIN


def test_only_platform_admins_set_rules(lena, root, vision):
    with pytest.raises(Forbidden):
        save_rule(by=lena, team=vision)
    rule = save_rule(by=root, team=vision, automatic_devices=2)
    again = save_rule(by=root, team=vision, approval="", self_approval=True)
    assert (again.pk, again.approval, again.automatic_devices, again.self_approval) == (rule.pk, "", 0, True)
    remove_rule(by=root, rule=rule)
    assert not ApprovalRule.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"team": None},
        {"approval": "nobody"},
        {"approval": "", "automatic_devices": 2},
        {"automatic_duration": DAY},
        {"automatic_devices": 1, "automatic_duration": timedelta(0)},
        {"escalate_after": timedelta(0)},
    ],
)
def test_invalid_rule_is_refused(root, vision, wrong):
    with pytest.raises(Invalid):
        save_rule(by=root, **{"team": vision, **wrong})


def test_rules_of_a_list_are_read_in_one_query(vision, fra, train, alice, django_assert_num_queries):
    make_quota(vision, 8)
    claims = [make_claim(vision, by=alice, cluster=fra, profile=train) for _ in range(3)]
    versions = [claim.profile_version for claim in claims]
    assert all(version.profile for version in versions)
    with django_assert_num_queries(1):
        rules = Rules()
        assert all(rules.effective_rule(vision.pk, [(each, 1)], duration=DAY) for each in versions)


def test_two_device_requests_of_one_claim_share_a_rule(ask, vision):
    pair = make_profile("pair", spec={"devices": {"requests": [
        {**make_spec()["devices"]["requests"][0], "name": name} for name in ("a", "b")
    ]}})  # fmt: skip
    ApprovalRule.objects.create(team=vision, profile=pair, automatic_devices=1)
    assert ask(profile=pair, devices=2).state == ClaimState.REQUESTED
