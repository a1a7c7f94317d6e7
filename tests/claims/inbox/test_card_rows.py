"""The cards of the inbox for each reader, the limits of their forms, and refused changes."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.urls import reverse
from django.utils import timezone

from claims.approvals import decide, pending
from claims.approvals.forms import ApproveForm, DenyForm, RuleForm
from claims.inbox import impact
from claims.inbox.impact import claim_impact
from claims.models import Approval, ApprovalRule, Claim, Comment, QuotaIncrease, ReasonTemplate
from claims.plans.changes import WantedChange
from claims.states import ClaimState
from core.errors import Forbidden, Invalid
from tests.claims.quotas.test_quota_api_and_forms import posted
from tests.factories import (
    make_claim,
    make_extension,
    make_profile,
    make_quota,
    make_quota_request,
    make_spec,
    make_team,
    make_user,
)

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(timezone.now().replace(microsecond=0), tick=False):
        yield timezone.now()


@pytest.fixture
def requested(ask):
    return ask(name="sam2", devices=4, duration=10 * DAY)


@pytest.fixture
def more(vision, alice, quota):
    return make_quota_request(vision, 12, by=alice)


@pytest.fixture
def longer(vision, fra, train, alice, now):
    held = make_claim(
        vision, by=alice, cluster=fra, profile=train, name="held", state=ClaimState.PROVISIONED,
        expires_at=now + DAY, decided_at=now - DAY,
    )  # fmt: skip
    return make_extension(held, by=alice)


def url(name, row):
    return reverse(f"claims:{name}", args=[row.pk])


def context(client, person, address):
    client.force_login(person)
    found = client.get(address).context
    return lambda *names: tuple(found[name] for name in names)


# Cards.


def test_claim_card_shows_whether_and_as_whom_the_reader_decides(
    client, requested, vision, lena, alice, root
):
    ReasonTemplate.objects.create(title="Own", text="x", team=vision)
    ReasonTemplate.objects.create(title="Theirs", text="x", team=make_team("nlp"))
    names = (
        "blocked_reason",
        "waiting",
        "total",
        "approve_label",
        "again_url",
        "first_approval",
        "decision",
        "delegator",
    )
    found = context(client, lena, url("approval", requested))
    assert found(*names) == ("", True, 4, "Approve 4 devices", "", None, None, None)
    assert found("reasons")[0][0].title == "Own"
    assert len(found("reasons")[0]) == 5
    assert found("may_write", "question", "requester_label") == (True, None, "alice")
    found = context(client, alice, url("approval", requested))
    assert found("blocked_reason") == ("Only leads of vision decide on its requests. Your role: member.",)
    decide.deny(claim=requested, by=lena, reason="No.")
    found = context(client, lena, url("approval", requested))
    assert found("blocked_reason", "waiting", "impact", "reasons", "again_url") == ("", False, None, [], "")
    assert found("decision")[0].by == lena
    assert context(client, alice, url("approval", requested))("again_url")[0]


def test_claim_card_names_who_gave_the_first_approval(client, requested, vision, lena, root):
    ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)
    decide.approve(claim=requested, by=lena, spec_hash=requested.spec_hash)
    assert context(client, root, url("approval", requested))("first_approval")[0].by == lena
    found = claim_impact(Claim.objects.select_related("team", "requested_by", "cluster").get(pk=requested.pk))
    assert (found.short_reason, found.rule) == (
        "always",
        "The rule of Vision requires approval by a team lead and then a platform admin.",
    )
    assert found.approver == "a team lead and then a platform admin"


def test_claim_card_says_that_the_cluster_sent_a_request_back(requested, vision):
    ApprovalRule.objects.create(team=vision, approval=Approval.AUTOMATIC)
    found = claim_impact(Claim.objects.select_related("team", "requested_by", "cluster").get(pk=requested.pk))
    assert (found.short_reason, found.rule, found.approver) == (
        "sent back",
        "The cluster refused it.",
        "a team lead",
    )


def test_extension_card_shows_whether_the_reader_decides(client, longer, lena, alice):
    found = context(client, lena, url("extension", longer))
    assert found("blocked_reason", "waiting", "approve_url", "deny_url") == (
        "", True, "claims:extension_approve", "claims:extension_deny",
    )  # fmt: skip
    assert len(found("reasons")[0]) == 4
    assert context(client, alice, url("extension", longer))("blocked_reason")[0].startswith(
        "Only leads of vision"
    )
    longer.decide("denied", by=lena)
    found = context(client, alice, url("extension", longer))
    assert found("blocked_reason", "waiting", "reasons") == ("", False, [])


def test_quota_card_shows_the_change_and_the_actions(client, more, lena, alice, bob, root):
    address = url("quota_request_decision", more)
    found = context(client, root, address)
    assert found("blocked_reason", "waiting", "may_withdraw", "title") == (
        "",
        True,
        True,
        "Quota request of vision",
    )
    assert found("quota_impact")[0].after == 12
    assert found("grant")[0].initial == {"devices": 12, "until": None}
    assert len(found("reasons")[0]) == 4
    no = "Only platform admins decide on quota."
    rows = [
        (person.username, *context(client, person, address)("blocked_reason", "may_withdraw", "may_write"))
        for person in (lena, alice, bob)
    ]
    assert rows == [("lena", no, True, True), ("alice", no, True, True), ("bob", no, False, False)]
    Comment.objects.create(quota_request=more, by=root, text="Why?", question=True, key="k")
    assert context(client, alice, address)("question")[0].text == "Why?"
    more.decide("denied", by=root)
    found = context(client, alice, address)
    assert found("blocked_reason", "waiting", "reasons", "question") == ("", False, [], None)


def test_inbox_opens_the_card_of_its_first_row(client, more, longer, requested, lena, root, now):
    type(more).objects.update(requested_at=now - DAY)
    pending.refresh()
    client.force_login(root)
    assert client.get(reverse("claims:approvals")).context["current"] == more.pk
    type(longer).objects.update(requested_at=now - DAY)
    pending.refresh()
    client.force_login(lena)
    assert client.get(reverse("claims:approvals")).context["current"] == longer.pk
    Claim.objects.filter(pk=requested.pk).update(created_at=now - 2 * DAY)
    pending.refresh()
    assert client.get(reverse("claims:approvals")).context["current"] == requested.pk


def test_refused_decision_keeps_the_note_and_shows_the_reason(
    client, requested, more, longer, lena, lars, root
):
    decide.deny(claim=requested, by=lars, reason="No.")
    client.force_login(lena)
    for name, sent in (("approve", {"spec_hash": requested.spec_hash}), ("deny", {})):
        answer = client.post(url(name, requested), sent | {"note": "Mine."})
        assert (answer.status_code, answer.context["note"]) == (409, "Mine.")
        assert answer.context["refusal"].message.startswith("lars already denied sam2")
    answer = client.post(url("extension_deny", longer), {"note": " "})
    assert (answer.status_code, answer.context["note"]) == (422, "")
    client.force_login(root)
    answer = client.post(url("quota_request_approve", more), {"devices": "0", "note": "Mine."})
    assert (answer.status_code, answer.context["note"]) == (422, "Mine.")
    answer = client.post(url("quota_request_deny", more), {"note": ""})
    assert answer.status_code == 422
    more.refresh_from_db()
    assert more.status == "waiting"


def test_decisions_keep_their_notes_and_confirm_the_result(client, more, longer, vision, alice, lena, root):
    other = make_quota_request(vision, 3, by=alice, counts="claims")
    client.force_login(lena)
    assert client.post(url("extension_approve", longer), {"note": "x" * 501}).status_code == 422
    page = client.post(url("extension_approve", longer), {"note": "x" * 500}, follow=True)
    assert "Extension of held approved." in page.text
    client.force_login(root)
    until = timezone.localtime() + DAY
    sent = {"devices": "9", "until": until.strftime("%Y-%m-%dT%H:%M"), "note": "For now."}
    page = client.post(url("quota_request_approve", more), sent, follow=True)
    assert "Quota request of vision approved." in page.text
    page = client.post(url("quota_request_deny", other), {"note": "Full."}, follow=True)
    assert "Quota request of vision denied." in page.text
    for row in (more, other, longer):
        row.refresh_from_db()
    assert (longer.decision_note, more.decision_note, other.decision_note) == ("x" * 500, "For now.", "Full.")
    made = QuotaIncrease.objects.get()
    assert (made.devices, made.ends_at) == (1, until.replace(second=0))


def test_comment_returns_only_to_pages_of_the_portal(client, more, root):
    client.force_login(root)
    address, card = url("quota_request_comment", more), url("quota_request_decision", more)
    inbox = reverse("claims:approvals")
    for number, (page, where) in enumerate(
        (
            (inbox, inbox),
            ("", card),
            ("https://elsewhere.example/", card),
            ("//elsewhere.example/", card),
            ("x", card),
        )
    ):
        answer = client.post(address, {"text": "Why?", "key": str(number), "next": page})
        assert (answer.status_code, answer.headers["Location"]) == (302, where)
    assert Comment.objects.count() == 5
    answer = client.post(address, {"text": " ", "key": "k"}, follow=True)
    assert "Write 1 to 2000 characters; this text has 0." in answer.text
    assert Comment.objects.count() == 5


# What would cost less.


def offer(slug, devices=1, free=2):
    return SimpleNamespace(
        profile=SimpleNamespace(title=slug.title(), slug=slug), devices=devices, free=free, kinds=slug
    )


@pytest.mark.parametrize(
    ("own", "offers", "found"),
    [
        # price of the own kind, then of each offer its name, devices, free devices and price
        (
            4,
            [("small", 4, 2, 1)],
            ("Small costs 75 % less and fits now: 2 matching devices free.", "small"),
        ),
        (4, [("small", 4, 1, 3)], ("Small costs 25 % less and fits now: 1 matching device free.", "small")),
        (
            4,
            [("small", 2, 2, 4)],
            ("Small costs 50 % less and fits now: 2 matching devices free.", "small"),
        ),
        (
            4,
            [("one", 4, 2, 3), ("two", 4, 2, 1), ("three", 4, 2, 2)],
            ("Two costs 75 % less and fits now: 2 matching devices free.", "two"),
        ),
        (
            4,
            [("one", 4, 2, None), ("two", 4, 2, 3)],
            ("Two costs 25 % less and fits now: 2 matching devices free.", "two"),
        ),
        (4, [("same", 4, 2, 4)], ("", "")),
        (4, [("dear", 4, 2, 5)], ("", "")),
        (4, [("bigger", 5, 2, 1)], ("", "")),
        (4, [("unknown", 4, 2, None)], ("", "")),
        (None, [("small", 4, 2, 1)], ("", "")),
        (4, [], ("", "")),
        (
            3,
            [("small", 4, 2, 1)],
            ("Small costs 67 % less and fits now: 2 matching devices free.", "small"),
        ),
    ],
)
def test_cheapest_fitting_profile_is_named_if_it_costs_less(requested, monkeypatch, own, offers, found):
    asked: dict[str, Any] = {}

    def fitting_profiles(**named):
        asked.update(named)
        return [offer(slug, devices, free) for slug, devices, free, _price in offers]

    monkeypatch.setattr(impact, "fitting_profiles", fitting_profiles)
    monkeypatch.setattr(impact, "max_prices", lambda kinds: [own, *(price for *_offer, price in offers)])
    snapshot: Any = "snapshot"
    assert impact.cheaper_profile(requested, snapshot, frozenset(), ()) == found
    assert asked == {
        "team": requested.team, "cluster": requested.cluster, "snapshot": "snapshot",
        "devices": 4, "parallel": 1,
        "chosen": [requested.profile_version.profile], "delivery": "claim",
        "usages": (), "satisfying": requested.spec,
    }  # fmt: skip


# Forms.


def test_decision_forms_limit_the_length_of_notes():
    hash_, note = "a" * 64, "x" * 500
    assert ApproveForm({"spec_hash": hash_, "note": note}).is_valid()
    for wrong in (
        {"spec_hash": "", "note": ""},
        {"spec_hash": hash_ + "a"},
        {"spec_hash": hash_, "note": note + "x"},
    ):
        assert not ApproveForm(wrong).is_valid()
    for sent, cleaned in (
        ({"note": "Mine."}, "Mine."),
        ({"reason": "Ready."}, "Ready."),
        ({"note": "Mine.", "reason": "Ready."}, "Mine."),
    ):
        form = DenyForm(sent)
        assert form.is_valid()
        assert form.cleaned_data["note"] == cleaned
    form = DenyForm({})
    assert not form.is_valid()
    assert form.errors["note"] == ["Give a reason. The requester will see it."]
    assert len(DenyForm({"note": note + "x"}).errors["note"]) == 1


def test_rule_form_shows_every_field_and_fixes_team_and_profile(vision, train):
    sent = {
        "team": "vision", "approval": "both", "automatic_devices": "2", "automatic_duration": "3d",
        "escalate_after": "4h", "self_approval": "on",
    }  # fmt: skip
    form = RuleForm(posted(sent))
    assert form.is_valid()
    assert form.cleaned_data == {
        "team": vision, "profile": None, "approval": "both", "automatic_devices": 2,
        "automatic_duration": 3 * DAY, "escalate_after": 4 * HOUR, "self_approval": True,
    }  # fmt: skip
    form = RuleForm(posted({"profile": "train-80", "approval": ""}))
    assert form.is_valid()
    assert (form.cleaned_data["automatic_devices"], form.cleaned_data["self_approval"]) == (0, False)
    form = RuleForm(posted({"approval": "lead"}))
    assert not form.is_valid()
    assert form.errors == {"team": ["Choose a team, a profile, or both."]}
    rule = ApprovalRule.objects.create(
        team=vision, profile=train, approval="admin", automatic_devices=3, escalate_after=HOUR
    )
    form = RuleForm(posted({"team": "other", "approval": "lead"}), rule=rule)
    assert form.is_valid()
    assert (form.cleaned_data["team"], form.cleaned_data["profile"]) == (vision, train)
    assert RuleForm(rule=rule).initial == {
        "approval": "admin", "automatic_devices": 3, "automatic_duration": None, "escalate_after": HOUR,
        "self_approval": False, "team": "vision", "profile": "train-80",
    }  # fmt: skip


# Changes that are refused.


def change(claim, by, **wanted):
    return decide.approve_with_changes(
        claim=claim, by=by, spec_hash=claim.spec_hash, wanted=WantedChange(**wanted)
    )


def test_first_approval_of_a_change_cannot_bypass_admins(requested, train, lena):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    big = make_profile("big", approval=Approval.ADMIN)
    with pytest.raises(Forbidden, match="Only platform admins decide on requests for big"):
        change(requested, lena, profile=big)
    requested.refresh_from_db()
    assert (requested.profile_version, requested.original_request) == (train.current, None)


def test_claim_in_a_replacement_can_only_change_duration(requested, ask, vision, fra, train, lena, quota):
    quota.devices = 90
    quota.save(update_fields=["devices"])
    old = make_claim(vision, cluster=fra, profile=train, devices=2, state=ClaimState.ALLOCATED, name="old")
    new = make_claim(
        vision, cluster=fra, profile=train, devices=3, name="new", replaces=old, duration=10 * DAY
    )
    with pytest.raises(Invalid) as refused:
        change(new, lena, devices=1)
    assert refused.value.message == (
        "new replaces a claim that still holds devices; only its duration can be changed."
    )
    assert change(new, lena, duration=DAY).state == ClaimState.APPROVED
    make_claim(vision, cluster=fra, profile=train, devices=1, name="next", replaces=requested, carried=0)
    with pytest.raises(Invalid) as refused:
        change(requested, lena, devices=1)
    assert refused.value.message == (
        "next replaces sam2 and shares its quota; only the duration of sam2 can be changed."
    )
    Claim.objects.filter(name="next").update(state=ClaimState.WITHDRAWN)
    assert change(requested, lena, devices=1).devices == 1


def test_original_request_is_kept_through_two_changes(requested, train, lena, root):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    change(requested, lena, devices=3)
    requested.refresh_from_db()
    change(requested, root, devices=2)
    requested.refresh_from_db()
    assert (requested.devices, requested.original_request["devices"]) == (2, 4)
    assert requested.charges.get().devices == 2


def test_preview_of_another_class_shows_its_quota(client, requested, vision, lena):
    make_quota(vision, 3, device_class="mig.nvidia.com")
    make_profile("slice", spec=make_spec(device_class="mig.nvidia.com"))
    client.force_login(lena)
    preview = client.get(url("change", requested), {"profile": "slice", "devices": "2"}).context["preview"]
    assert preview.total == 2
    assert [(line.label, line.needs, line.fits) for line in preview.lines] == [("mig.nvidia.com", 2, True)]
    assert client.get(url("change", requested)).context["preview"] is None
    refused = client.post(url("change", requested), {"spec_hash": requested.spec_hash, "profile": "slice"})
    assert refused.status_code == 409
    assert "this request needs 4" in refused.text


def test_change_form_offers_other_open_profiles(client, requested, lena, now):
    make_profile("open")
    make_profile("closed", teams=(make_team("nlp"),))
    retired = make_profile("retired")
    retired.retired_at = now
    retired.save(update_fields=["retired_at"])
    client.force_login(lena)
    form = client.get(url("change", requested)).context["form"]
    assert [profile.slug for profile in form.fields["profile"].queryset] == ["open"]


# Rules on their pages.


def test_only_admins_change_and_remove_rules_on_pages(client, vision, train, root, lena):
    rule = ApprovalRule.objects.create(team=vision, profile=train, approval="lead")
    other = ApprovalRule.objects.create(team=vision)
    pages = (url("approval_rule", rule), url("approval_rule_remove", rule), reverse("claims:approval_rules"))
    client.force_login(lena)
    for page in pages:
        assert client.get(page).status_code == 403
    for page in pages[:2]:
        assert client.post(page, {"approval": "automatic"}).status_code == 403
    client.force_login(root)
    assert client.get(pages[0]).context["effect"] is not None
    wrong = client.post(pages[0], {"approval": "automatic", "automatic_devices": "2"})
    assert (wrong.status_code, wrong.context["effect"]) == (422, None)
    page = client.post(pages[0], {"approval": "admin", "escalate_after": "4h"}, follow=True).text
    assert "The rule of Vision for Train 80 was saved." in page
    rule.refresh_from_db()
    assert (rule.approval, rule.escalate_after, rule.team, rule.profile) == ("admin", 4 * HOUR, vision, train)
    assert client.get(pages[1]).status_code == 200
    assert ApprovalRule.objects.count() == 2
    assert "The rule of Vision for Train 80 was removed." in client.post(pages[1], follow=True).text
    assert list(ApprovalRule.objects.all()) == [other]


def test_list_of_rules_shows_every_column(client, vision, train, root):
    ApprovalRule.objects.create(
        team=vision, profile=train, approval="both", automatic_devices=2, automatic_duration=DAY,
        escalate_after=4 * HOUR, self_approval=True,
    )  # fmt: skip
    ApprovalRule.objects.create(profile=train, approval="")
    client.force_login(root)
    lines = b"".join(client.get(reverse("claims:approval_rules"), {"format": "csv"})).decode().splitlines()
    both = str(Approval.BOTH.label)
    assert sorted(lines[1:]) == sorted(
        [
            f'vision,train-80,"{both[:1].upper()}{both[1:]}",2,1 d,4 h,yes',
            "Every team,train-80,As in the profile,0,,,no",
        ]
    )


def test_delegate_choices_are_other_members_without_admins(client, vision, lena, root, now):
    vision.memberships.create(user=root, role="member")
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    client.force_login(lena)
    span = {"starts_at": now.strftime("%Y-%m-%dT%H:%M"), "ends_at": (now + DAY).strftime("%Y-%m-%dT%H:%M")}
    for to, status in (
        ("root", 422),
        ("lena", 422),
        ("bob", 422),
        ("eve", 422),
        ("mira", 302),
        ("alice", 409),
    ):
        answer = client.post(reverse("claims:delegations"), {"team": "vision", "to": to, **span})
        assert answer.status_code == status, to
