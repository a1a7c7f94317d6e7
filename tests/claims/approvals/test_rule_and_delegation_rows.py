"""Rules, delegations and reasons: every column, every limit, and the effect of a rule."""

import random
from datetime import timedelta

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals import services
from claims.approvals.rules import (
    ExampleRow,
    Rule,
    RuleEffect,
    Rules,
    effective_rule_for,
    requested_profiles,
    rule_effect,
)
from claims.approvals.services import MAX_DELEGATION, editable_reasons, reasons_for
from claims.models import Approval, ApprovalRule, Claim, Delegation, Profile, ReasonTemplate
from core.errors import Conflict, Forbidden, Invalid
from core.times import moment, utc_moment
from notify.models import Notice
from teams.models import User
from tests.factories import make_claim, make_profile, make_team, make_user

pytestmark = pytest.mark.django_db
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
RULES, DELEGATIONS, REASONS = (
    f"/api/v1/{name}/" for name in ("approval-rules", "delegations", "approval-reasons")
)


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(timezone.now().replace(microsecond=0), tick=False):
        yield timezone.now()


@pytest.fixture
def mira(vision):
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    return mira


def api(user):
    made = APIClient()
    made.force_login(user)
    return made


# Delegations.


def test_delegation_writes_every_column_and_notifies_the_delegate(vision, lena, mira, now):
    begin, end = now + HOUR, now + DAY
    row = services.delegate(by=lena, team=vision, to=mira, starts_at=begin, ends_at=end)
    assert list(Delegation.objects.values()) == [
        {
            "id": row.pk,
            "team_id": vision.pk,
            "lead_id": lena.pk,
            "to_id": mira.pk,
            "starts_at": begin,
            "ends_at": end,
        }
    ]
    body = (
        f"From {utc_moment(begin)} to {utc_moment(end)} you also decide on "
        "requests of vision, except your own."
    )
    told = Notice.objects.values_list("user__username", "title", "body", "url", "important")
    assert list(told) == [
        ("mira", "You are the delegate of lena in vision", body, reverse("claims:delegations"), True)
    ]
    services.delegate(by=lena, team=vision, to=mira, starts_at=begin, ends_at=end)
    assert (Delegation.objects.count(), Notice.objects.count()) == (1, 1)


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        (timedelta(0), SECOND, ""),
        (-DAY, SECOND, ""),
        (-DAY, timedelta(0), "The delegation must end after it starts, and in the future."),
        (HOUR, HOUR, "The delegation must end after it starts, and in the future."),
        (HOUR, HOUR - SECOND, "The delegation must end after it starts, and in the future."),
        (HOUR, HOUR + MAX_DELEGATION, ""),
        (
            HOUR,
            2 * HOUR + MAX_DELEGATION,
            "A delegation can last up to 92 d; this is 92 d 1 h.",
        ),
        (HOUR, HOUR + SECOND + MAX_DELEGATION, "A delegation can last up to 92 d; this is 92 d."),
        (timedelta(0), 90_000 * DAY, "A date lies between 1970 and 2200; the year"),
        (-25_000 * DAY, DAY, "A date lies between 1970 and 2200; the year"),
    ],
)
def test_delegation_period_is_limited(vision, lena, mira, now, begin, end, said):
    def delegate():
        return services.delegate(by=lena, team=vision, to=mira, starts_at=now + begin, ends_at=now + end)

    if not said:
        assert delegate().ends_at == now + end
        return
    with pytest.raises(Invalid) as refused:
        delegate()
    assert refused.value.message.startswith(said)
    assert not Delegation.objects.exists()


@pytest.mark.parametrize(
    ("begin", "end", "free"),
    [(-9, 1, True), (-9, 2, False), (2, 3, False), (4, 5, False), (5, 6, True), (0, 9, False)],
)
def test_delegations_of_a_lead_cannot_overlap(vision, lena, lars, mira, alice, now, begin, end, free):
    nlp = make_team("nlp", leads=(lena,), members=(alice,))
    first = services.delegate(by=lena, team=vision, to=mira, starts_at=now + DAY, ends_at=now + 5 * DAY)
    span = {"starts_at": now + begin * DAY, "ends_at": now + end * DAY}
    services.delegate(by=lena, team=nlp, to=alice, **span)
    services.delegate(by=lars, team=vision, to=alice, **span)
    if free:
        services.delegate(by=lena, team=vision, to=alice, **span)
        return
    with pytest.raises(Conflict) as refused:
        services.delegate(by=lena, team=vision, to=alice, **span)
    assert refused.value.message == (
        f"mira is already your delegate from {moment(first.starts_at)} to {moment(first.ends_at)}."
    )


def test_ended_delegation_does_not_conflict(vision, lena, mira, now):
    """Though their times overlap in the past."""
    services.delegate(by=lena, team=vision, to=mira, starts_at=now - 2 * DAY, ends_at=now + HOUR)
    span = {"starts_at": now - DAY, "ends_at": now + 2 * DAY}
    with time_machine.travel(now + HOUR, tick=False):
        row = services.delegate(by=lena, team=vision, to=mira, **span)
        assert services.delegate(by=lena, team=vision, to=mira, **span) == row


def test_inactive_people_and_admins_cannot_be_delegates(vision, lena, mira, root, now):
    span = {"starts_at": now, "ends_at": now + DAY}
    with pytest.raises(Forbidden) as refused:  # an admin has every role, but leads no team by that
        services.delegate(by=root, team=vision, to=mira, **span)
    assert refused.value.message == "You do not lead vision, so you cannot delegate its approvals."
    User.objects.filter(pk=mira.pk).update(is_active=False)
    mira.refresh_from_db()
    with pytest.raises(Invalid, match="Choose another member of vision as your delegate"):
        services.delegate(by=lena, team=vision, to=mira, **span)


@pytest.mark.parametrize(
    ("begin", "end", "kept"),
    [
        (-DAY, DAY, (-DAY, timedelta(0))),
        (HOUR, DAY, (timedelta(0), timedelta(0))),
        (-DAY, timedelta(0), (-DAY, timedelta(0))),
        (-2 * DAY, -DAY, (-2 * DAY, -DAY)),
    ],
)
def test_a_delegation_ends_now_and_one_that_has_ended_stays(vision, lena, mira, now, begin, end, kept):
    row = Delegation.objects.create(team=vision, lead=lena, to=mira, starts_at=now + begin, ends_at=now + end)
    for person in (mira, lena):
        ended = services.end_delegation(by=person, delegation=row)
    row.refresh_from_db()
    assert (row.starts_at - now, row.ends_at - now) == kept
    assert (ended.starts_at, ended.ends_at) == (row.starts_at, row.ends_at)


def test_others_do_not_end_a_delegation(vision, lena, lars, mira, root, eve, now):
    row = Delegation.objects.create(team=vision, lead=lena, to=mira, starts_at=now, ends_at=now + DAY)
    for person in (lars, root):
        with pytest.raises(Forbidden, match="Only lena and mira may end this"):
            services.end_delegation(by=person, delegation=row)
    with pytest.raises(Http404):
        services.end_delegation(by=eve, delegation=row)
    row.refresh_from_db()
    assert row.ends_at == now + DAY


def test_delegation_page_shows_current_upcoming_and_past(client, vision, lena, lars, mira, root, now):
    vision.memberships.create(user=root, role="member")
    spans = {"was": (-3 * DAY, -2 * DAY), "ended": (-DAY, timedelta(0)), "runs": (timedelta(0), DAY)}
    spans["comes"] = (2 * DAY, 3 * DAY)
    rows = {
        name: Delegation.objects.create(
            team=vision, lead=lena, to=mira, starts_at=now + begin, ends_at=now + end
        )
        for name, (begin, end) in spans.items()
    }
    Delegation.objects.create(team=vision, lead=lars, to=make_user("other"), starts_at=now, ends_at=now + DAY)
    for person, forms in ((lena, ["vision"]), (mira, [])):
        client.force_login(person)
        context = client.get(reverse("claims:delegations")).context
        assert {(row, begun) for row, begun in context["current"]} == {
            (rows["runs"], True),
            (rows["comes"], False),
        }
        assert list(context["past"]) == [rows["ended"], rows["was"]]
        assert [team.slug for team, _form in context["forms"]] == forms
    client.force_login(lena)
    ((_team, form),) = client.get(reverse("claims:delegations")).context["forms"]
    offered = list(form.fields["to"].queryset.values_list("username", flat=True))
    assert offered == ["alice", "lars", "mira"]
    assert form.initial["starts_at"] == now.replace(second=0)
    assert form.initial["ends_at"] - form.initial["starts_at"] == 7 * DAY


def test_api_lists_own_delegations_with_every_field(vision, lena, lars, mira, now):
    sent = {"team": "vision", "to": "mira", "starts_at": now.isoformat(), "ends_at": (now + DAY).isoformat()}
    made = api(lena).post(DELEGATIONS, sent, format="json")
    stamp = {name: sent[name].replace("+00:00", "Z") for name in ("starts_at", "ends_at")}
    row = {"id": str(Delegation.objects.get().pk), "team": "vision", "lead": "lena", "to": "mira", **stamp}
    assert (made.status_code, made.json()) == (201, row)
    for person, rows in ((lena, [row]), (mira, [row]), (lars, [])):
        assert api(person).get(DELEGATIONS).json()["results"] == rows
    assert api(lena).post(DELEGATIONS, {**sent, "starts_at": "soon"}, format="json").status_code == 422
    assert api(lars).delete(f"{DELEGATIONS}{row['id']}/").status_code == 404
    ended = api(lena).delete(f"{DELEGATIONS}{row['id']}/")
    assert (ended.status_code, ended.json()) == (200, row | {"ends_at": stamp["starts_at"]})


# Rules.


@pytest.mark.parametrize(
    ("rule", "devices", "span", "through", "word", "sentence"),
    [
        (Rule("R", Approval.AUTOMATIC), 99, 9 * DAY, True, "", ""),
        (Rule("R", Approval.LEAD), 1, HOUR, False, "always", "R requires approval by a team lead."),
        (Rule("R", Approval.LEAD, 2), 2, 9 * DAY, True, "", ""),
        (
            Rule("R", Approval.LEAD, 2),
            3,
            HOUR,
            False,
            "more than 2 devices",
            "R requires approval by a team lead for more than 2 devices.",
        ),
        (Rule("R", Approval.ADMIN, 2, DAY), 2, DAY, True, "", ""),
        (
            Rule("R", Approval.ADMIN, 2, DAY),
            2,
            DAY + SECOND,
            False,
            "longer than 1 d",
            "R requires approval by a platform admin for more than 1 d.",
        ),
        (
            Rule("R", Approval.BOTH, 2, DAY),
            3,
            9 * DAY,
            False,
            "more than 2 devices",
            "R requires approval by a team lead and then a platform admin for more than 2 devices.",
        ),
    ],
)
def test_rule_is_automatic_up_to_its_limits(rule, devices, span, through, word, sentence):
    assert rule.is_automatic_for(devices=devices, duration=span) is through
    assert rule.approval_reason(devices=devices, duration=span) == (word, sentence)


def test_rule_sentence_uses_the_singular():
    _word, sentence = Rule("R", Approval.LEAD, 1).approval_reason(devices=2, duration=HOUR)
    assert sentence == "R requires approval by a team lead for more than 1 device."


@pytest.mark.parametrize(
    ("rule", "sentence", "at_times"),
    [
        (Rule("R", Approval.AUTOMATIC), "Approved automatically (R).", True),
        (Rule("R", Approval.LEAD, 1), "Approved automatically for up to 1 device (R).", True),
        (Rule("R", Approval.LEAD, 2), "Approved automatically for up to 2 devices (R).", True),
        (
            Rule("R", Approval.LEAD, 1, DAY),
            "Approved automatically for up to 1 device and up to 1 d (R).",
            True,
        ),
        (
            Rule("R", Approval.LEAD, 2, HOUR),
            "Approved automatically for up to 2 devices and up to 1 h (R).",
            True,
        ),
        (Rule("R", Approval.LEAD), "Approved automatically for up to 0 devices (R).", False),
    ],
)
def test_a_rule_says_what_needs_no_approval(rule, sentence, at_times):
    assert (rule.sentence, rule.may_be_automatic) == (sentence, at_times)


def test_rule_without_approval_uses_that_of_the_profile(vision, train):
    train.current.__class__.objects.update(automatic_devices=3, automatic_duration=HOUR)
    train.current.refresh_from_db()
    row = ApprovalRule.objects.create(
        team=vision, approval=Approval.ADMIN, automatic_devices=2, automatic_duration=DAY,
        self_approval=True, escalate_after=4 * HOUR,
    )  # fmt: skip
    own = Rule("Train 80 v1", Approval.LEAD, 3, HOUR)
    nlp = make_team("nlp")

    def found(team):
        return Rules([vision, nlp]).rule(team.pk, train.current)

    assert found(vision) == Rule("The rule of Vision", Approval.ADMIN, 2, DAY, True, 4 * HOUR)
    assert found(nlp) == own
    ApprovalRule.objects.filter(pk=row.pk).update(approval="", automatic_devices=0, automatic_duration=None)
    assert found(vision) == Rule("Train 80 v1", Approval.LEAD, 3, HOUR, True, 4 * HOUR)
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH, escalate_after=HOUR)
    profile_rule = Rule("The rule for Train 80", Approval.BOTH, escalate_after=HOUR)
    assert (found(nlp), Rules().rule_for_any_team(train.current)) == (profile_rule, profile_rule)
    assert Rules([]).rule(vision.pk, train.current) == profile_rule


def test_effective_rule_is_the_strictest_in_every_field(vision):
    one, two, three = (make_profile(f"p{number}") for number in range(3))
    rows = [
        (one, {"approval": "lead", "automatic_devices": 4, "self_approval": True, "escalate_after": DAY}),
        (two, {"approval": "both", "automatic_devices": 4, "self_approval": True, "escalate_after": HOUR}),
        (three, {"approval": "admin", "automatic_devices": 2, "self_approval": False}),
    ]
    for profile, fields in rows:
        ApprovalRule.objects.create(profile=profile, **fields)

    def effective_rule(*counts, together=False):
        asked = [(profile.current, count) for (profile, _), count in zip(rows, counts, strict=False) if count]
        found = effective_rule_for(vision, asked, duration=HOUR, together=together)
        return found.automatic, found.approval, found.self_approval, found.escalate_after, found.short_reason

    assert effective_rule(4, 4, 2) == (True, "both", False, HOUR, "")
    assert effective_rule(5, 4, 2) == (False, "lead", False, HOUR, "more than 4 devices")
    assert effective_rule(5, 4, 3) == (False, "admin", False, HOUR, "more than 2 devices")
    assert effective_rule(5, 5, 3) == (False, "both", False, HOUR, "more than 4 devices")
    assert effective_rule(4, 4) == (True, "both", True, HOUR, "")
    assert effective_rule(4) == (True, "lead", True, DAY, "")
    assert effective_rule(0, 0, 1)[3] is None


def test_profiles_taken_together_count_together_under_one_rule(vision):
    ApprovalRule.objects.create(team=vision, automatic_devices=4)
    one, two = make_profile("one"), make_profile("two")
    for counts, together, automatic in (
        ((2, 2), True, True),
        ((3, 2), True, False),
        ((3, 2), False, True),
        ((4, 4), False, True),
    ):
        asked = list(zip((one.current, two.current), counts, strict=True))
        assert effective_rule_for(vision, asked, duration=HOUR, together=together).automatic is automatic


def test_saving_a_rule_replaces_every_column(root, vision, train):
    columns = (
        "team", "profile", "approval", "automatic_devices", "automatic_duration", "self_approval",
        "escalate_after",
    )  # fmt: skip
    services.save_rule(
        by=root, team=vision, profile=train, approval="both", automatic_devices=2, automatic_duration=DAY,
        self_approval=True, escalate_after=HOUR,
    )  # fmt: skip
    services.save_rule(by=root, team=vision)
    services.save_rule(by=root, profile=train, approval="", escalate_after=SECOND)
    plain = (0, None, False)
    assert set(ApprovalRule.objects.values_list(*columns)) == {
        (vision.pk, train.pk, "both", 2, DAY, True, HOUR),
        (vision.pk, None, "lead", *plain, None),
        (None, train.pk, "", *plain, SECOND),
    }
    services.save_rule(by=root, team=vision, profile=train)
    assert (vision.pk, train.pk, "lead", *plain, None) in ApprovalRule.objects.values_list(*columns)
    rule = ApprovalRule.objects.get(team=vision, profile=train)
    services.remove_rule(by=root, rule=rule)
    assert ApprovalRule.objects.count() == 2


@pytest.mark.parametrize("person", ["lena", "alice", "eve"])
def test_only_platform_admins_save_and_remove_rules(request, vision, person):
    by, rule = request.getfixturevalue(person), ApprovalRule.objects.create(team=vision)
    with pytest.raises(Forbidden):
        services.save_rule(by=by, team=vision, approval="automatic")
    with pytest.raises(Forbidden):
        services.remove_rule(by=by, rule=rule)
    rule.refresh_from_db()
    assert rule.approval == "lead"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"team": None}, "Choose a team, a profile, or both."),
        ({"approval": "nobody"}, "“nobody” is not a kind of approval."),
        (
            {"approval": "automatic", "automatic_devices": 1},
            "Choose an approver before",
        ),
        ({"approval": "", "automatic_duration": DAY}, "Choose an approver before"),
        (
            {"automatic_devices": 1, "automatic_duration": -DAY},
            "Automatic approval needs a number of devices",
        ),
        ({"automatic_duration": DAY}, "Automatic approval needs a number of devices"),
        ({"escalate_after": -DAY}, "Escalation needs a duration above 0."),
    ],
)
def test_invalid_rule_is_explained(root, vision, wrong, said):
    with pytest.raises(Invalid) as refused:
        services.save_rule(by=root, **{"team": vision, **wrong})
    assert refused.value.message.startswith(said)
    assert not ApprovalRule.objects.exists()


def test_rule_effect_has_examples_and_past_requests(vision, train, fra, alice, now):
    other, nlp = make_profile("other"), make_team("nlp")

    def past(days, **fields):
        made = make_claim(
            by=alice, cluster=fra, **{"team": vision, "profile": train, "duration": HOUR} | fields
        )
        Claim.objects.filter(pk=made.pk).update(created_at=now - timedelta(days=days))

    past(0, devices=1)
    past(30, devices=2)
    past(30.01, devices=1)
    past(1, devices=4, duration=2 * DAY)
    past(1, profile=other)
    past(1, team=nlp)
    rule = ApprovalRule(
        team=vision, profile=train, approval="admin", automatic_devices=2, automatic_duration=DAY
    )
    effect = rule_effect(rule)
    nobody, admin = "nobody", str(Approval.ADMIN.label)
    assert effect.examples == (
        ExampleRow(1, (nobody, nobody, admin)),
        ExampleRow(2, (nobody, nobody, admin)),
        ExampleRow(4, (admin, admin, admin)),
        ExampleRow(8, (admin, admin, admin)),
    )
    assert effect.durations == (4 * HOUR, DAY, 7 * DAY)
    labels = [str(way.label) for way in Approval]
    assert {route.label: (route.current, route.proposed) for route in effect.routing} == {
        labels[0]: (0, 2),
        str(Approval.LEAD.label): (3, 0),
        admin: (0, 1),
        str(Approval.BOTH.label): (0, 0),
    }
    assert (effect.requests, effect.profile) == (3, "train-80")
    of_team = rule_effect(ApprovalRule(team=vision, approval="both"))
    assert of_team.requests == 4
    of_all = rule_effect(ApprovalRule(profile=train, approval="both"))
    assert of_all.requests == 4
    Profile.objects.update(retired_at=now)
    assert isinstance(of_team, RuleEffect)
    assert rule_effect(ApprovalRule(team=vision, approval="both")).examples == ()


@pytest.mark.parametrize("seed", range(2))
def test_routes_are_those_of_each_request_by_itself(vision, train, fra, alice, seed):
    rng = random.Random(seed)
    teams, profiles = (
        [vision, make_team("nlp"), make_team("bio")],
        [train, make_profile("other"), make_profile("third")],
    )
    for team, profile in ((teams[0], None), (teams[0], profiles[1]), (teams[1], profiles[0]), (None, train)):
        ApprovalRule.objects.create(
            team=team,
            profile=profile,
            approval=rng.choice(["lead", "both", "automatic"]),
            automatic_devices=2,
        )
    for _ in range(100):
        claim = make_claim(
            by=alice,
            cluster=fra,
            team=rng.choice(teams),
            profile=rng.choice(profiles),
            devices=rng.randint(1, 3),
            parallel=rng.randint(1, 2),
            duration=rng.choice([HOUR, DAY]),
        )
        together = rng.random() < 0.5
        for position, profile in enumerate(rng.sample(profiles, rng.choice([0, 2, 2]))):
            claim.alternatives.create(
                position=position,
                name=f"part-{position}",
                profile_version=profile.current,
                devices=rng.randint(1, 3),
                together=together,
            )
    for team, profile in ((None, train), (vision, None), (vision, train), (teams[2], profiles[1])):
        rule = ApprovalRule(team=team, profile=profile, approval="admin", automatic_devices=3)
        changed = Rules()
        changed.override(rule)
        expected = {str(approval.label): [0, 0] for approval in Approval}
        for claim in Claim.objects.filter(**({"team": team} if team else {})):
            if profile and all(version.profile != profile for version, _ in requested_profiles(claim)):
                continue
            for column, rules in enumerate((Rules(), changed)):
                effective = rules.for_claim(claim)
                approval = Approval.AUTOMATIC if effective.automatic else effective.approval
                expected[str(approval.label)][column] += 1
        routing = rule_effect(rule).routing
        assert {route.label: [route.current, route.proposed] for route in routing} == expected


def test_api_of_rules_has_every_field_for_admins_only(vision, train, root, lena):
    sent = {
        "team": "vision", "profile": "train-80", "approval": "both", "automatic_devices": 2,
        "automatic_duration": "1d", "self_approval": True, "escalate_after": "4h",
    }  # fmt: skip
    made = api(root).post(RULES, sent, format="json")
    row = sent | {
        "id": str(ApprovalRule.objects.get().pk), "automatic_duration": 86_400, "escalate_after": 14_400,
    }  # fmt: skip
    assert (made.status_code, made.json()) == (201, row)
    empty = api(root).post(RULES, {"profile": "train-80"}, format="json").json()
    assert empty == {
        "id": empty["id"], "team": None, "profile": "train-80", "approval": "", "automatic_devices": 0,
        "automatic_duration": None, "self_approval": False, "escalate_after": None,
    }  # fmt: skip
    assert {one["id"] for one in api(root).get(RULES).json()["results"]} == {row["id"], empty["id"]}
    assert api(root).get(f"{RULES}{row['id']}/").json() == row
    for wrong in ({"automatic_devices": -1}, {"approval": "nobody"}, {"escalate_after": "soon"}):
        assert api(root).post(RULES, sent | wrong, format="json").status_code == 422
    for answer in (
        api(lena).get(RULES),
        api(lena).get(f"{RULES}{row['id']}/"),
        api(lena).post(RULES, sent, format="json"),
        api(lena).delete(f"{RULES}{row['id']}/"),
    ):
        assert answer.status_code == 403
    assert api(root).delete(f"{RULES}{row['id']}/").status_code == 204
    assert [str(rule.pk) for rule in ApprovalRule.objects.all()] == [empty["id"]]


# Reasons.


def test_reason_has_a_title_up_to_80_and_a_text_up_to_500_characters(root, vision):
    kept = services.save_reason(by=root, title=f" {'t' * 80} ", text=f" {'x' * 500} ", team=vision)
    assert ReasonTemplate.objects.values_list("title", "text", "team").get() == (
        "t" * 80,
        "x" * 500,
        vision.pk,
    )
    for title, text, said in (
        (" ", "x", "A reason needs a title of 1 to 80 characters."),
        ("t" * 81, "x", "A reason needs a title of 1 to 80 characters."),
        ("t", " ", "Write 1 to 500 characters; this text has 0."),
        ("t", "x" * 501, "Write 1 to 500 characters; this text has 501."),
    ):
        with pytest.raises(Invalid) as refused:
            services.save_reason(by=root, title=title, text=text, team=vision)
        assert refused.value.message == said
    services.save_reason(by=root, title="t", text="x", reason=kept)
    assert ReasonTemplate.objects.values_list("title", "text", "team").get() == ("t", "x", None)


def test_reason_titles_are_unique_per_team(root, vision):
    nlp = make_team("nlp")
    own = services.save_reason(by=root, title="Move", text="It moves.", team=vision)
    services.save_reason(by=root, title="Move", text="Other.", team=nlp)
    services.save_reason(by=root, title="Move", text="For all.")
    services.save_reason(by=root, title="Move", text="Again.", team=vision, reason=own)
    assert ReasonTemplate.objects.count() == 3
    assert {one.text for one in reasons_for(vision)[:-4]} == {"Again.", "For all."}
    assert [one.text for one in reasons_for(None)[:-4]] == ["For all."]
    with pytest.raises(Invalid, match="A reason “Move” already exists"):
        services.save_reason(by=root, title="Move", text="x", team=nlp, reason=own)


@pytest.mark.parametrize(("person", "error"), [("alice", PermissionDenied), ("eve", Http404)])
def test_only_leads_of_the_team_edit_its_reasons(request, vision, person, error):
    by = request.getfixturevalue(person)
    own = ReasonTemplate.objects.create(title="Move", text="It moves.", team=vision)
    for call in (
        lambda: services.save_reason(by=by, title="New", text="x", team=vision),
        lambda: services.save_reason(by=by, title="New", text="x", team=vision, reason=own),
        lambda: services.remove_reason(by=by, reason=own),
    ):
        with pytest.raises(error):
            call()
    assert list(ReasonTemplate.objects.values_list("title", flat=True)) == ["Move"]
    assert not editable_reasons(by).exists()


def test_only_admins_remove_reasons_for_every_team(lena, root, vision):
    kept = ReasonTemplate.objects.create(title="Move", text="x", team=vision)
    gone = ReasonTemplate.objects.create(title="All", text="x")
    with pytest.raises(Forbidden):
        services.remove_reason(by=lena, reason=gone)
    services.remove_reason(by=root, reason=gone)
    assert list(ReasonTemplate.objects.all()) == [kept]


def test_api_of_reasons_has_every_field(lena, vision):
    sent = {"title": "Move", "text": "It moves.", "team": "vision"}
    made = api(lena).post(REASONS, sent, format="json").json()
    assert made == sent | {"id": made["id"]}
    assert api(lena).get(f"{REASONS}{made['id']}/").json() == made
    assert api(lena).get(REASONS).json()["results"] == [made]
    api(lena).post(REASONS, sent | {"title": "Full"}, format="json")
    assert [one["title"] for one in api(lena).get(REASONS).json()["results"]] == ["Full", "Move"]
    for wrong in ({"title": ""}, {"title": "t" * 81}, {"text": "x" * 501}):
        assert api(lena).post(REASONS, sent | wrong, format="json").status_code == 422


def test_reason_form_defaults_to_the_team_of_the_lead(client, lena, root, vision):
    nlp = make_team("nlp")
    kept = ReasonTemplate.objects.create(title="Move", text="It moves.", team=vision)
    rows = []
    for person in (lena, root):
        client.force_login(person)
        form = client.get(reverse("claims:reason_new")).context["form"]
        offered = list(form.fields["team"].queryset)
        rows.append((form.initial, form.fields["team"].required, offered))
    assert rows[0] == ({"team": "vision"}, True, [vision])
    assert (rows[1][:2], set(rows[1][2])) == (({}, False), {vision, nlp})
    form = client.get(reverse("claims:reason", args=[kept.pk])).context["form"]
    assert form.initial == {"title": "Move", "text": "It moves.", "team": "vision"}
