"""Every column of a claim, its history, its approval steps and every notice after each decision."""

from datetime import timedelta

import pytest
import time_machine
from django.urls import reverse
from django.utils import timezone

from claims.approvals import authority, decide, escalation
from claims.approvals.authority import (
    ApprovalAuthority,
    approval_route,
    approval_stage,
    deciders_on,
    join_names,
)
from claims.lifecycle.services import withdraw
from claims.models import Alternative, Approval, ApprovalRule, ApprovalStep, Claim, Delegation
from claims.plans.changes import WantedChange
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from core.times import moment
from notify.models import Notice
from teams.models import User
from tests.claims.approvals.test_pending_decisions import is_responsible
from tests.factories import make_claim, make_profile, make_team, make_user

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(timezone.now().replace(microsecond=0), tick=False) as traveller:
        yield traveller


@pytest.fixture
def delivered(monkeypatch):
    """The claims that are handed to delivery."""
    handed: list[str] = []
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", handed.append)
    return handed


@pytest.fixture
def waiting_claim(ask, delivered, clock):
    claim = ask(name="sam2", devices=2, duration=DAY, reason="Fine-tuning.")
    Notice.objects.all().delete()
    clock.shift(HOUR)
    return claim


@pytest.fixture
def both(vision):
    return ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)


def row_of(claim):
    """Return every column but `state_since` and `reconcile_at`, which the clock of the database writes."""
    (row,) = Claim.objects.filter(pk=claim.pk).values()
    return {name: value for name, value in row.items() if name not in ("state_since", "reconcile_at")}


def lines_of(claim):
    return list(claim.history.order_by("at", "pk").values_list("old", "new", "by__username", "reason"))[1:]


def told():
    rows = Notice.objects.order_by("user__username", "created_at", "pk")
    return list(rows.values_list("user__username", "title", "body", "url", "important"))


def approve(claim, by, **fields):
    return decide.approve(claim=claim, by=by, **{"spec_hash": claim.spec_hash, **fields})


def change(claim, by, note="", **wanted):
    return decide.approve_with_changes(
        claim=claim, by=by, spec_hash=claim.spec_hash, wanted=WantedChange(**wanted), note=note
    )


def page_of(claim, name="detail"):
    return reverse(f"claims:{name}", args=[claim.pk])


def test_approval_writes_every_column_and_notifies_the_requester(
    waiting_claim, lena, delivered, django_capture_on_commit_callbacks
):
    Claim.objects.filter(pk=waiting_claim.pk).update(problem="sent back")
    before, now = row_of(waiting_claim), timezone.now()
    with django_capture_on_commit_callbacks() as later:
        approve(waiting_claim, lena, note="  until Friday ")
    assert row_of(waiting_claim) == before | {
        "state": "approved",
        "version": before["version"] + 1,
        "decided_by_id": lena.pk,
        "decided_at": now,
        "decision_note": "until Friday",
        "expires_at": now + DAY,
        "approved_hash": waiting_claim.spec_hash,
        "problem": "",
    }
    assert lines_of(waiting_claim) == [("requested", "approved", "lena", "until Friday")]
    assert told() == [
        ("alice", "sam2 was approved", "Approved by lena. until Friday", page_of(waiting_claim), False)
    ]
    assert delivered == []  # not before it stands
    for call in later:
        call()
    assert delivered == [str(waiting_claim.pk)]


def test_approval_without_a_note_has_a_default_remark(waiting_claim, lena):
    approve(waiting_claim, lena)
    assert lines_of(waiting_claim) == [("requested", "approved", "lena", "Approved.")]
    assert row_of(waiting_claim)["decision_note"] == ""
    assert told() == [("alice", "sam2 was approved", "Approved by lena.", page_of(waiting_claim), False)]


def test_denial_writes_every_column_and_delivers_nothing(
    waiting_claim, lena, delivered, django_capture_on_commit_callbacks
):
    before, now = row_of(waiting_claim), timezone.now()
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(2):
            decide.deny(claim=waiting_claim, by=lena, reason=" Use an L4. ")
    assert row_of(waiting_claim) == before | {
        "state": "denied",
        "version": before["version"] + 1,
        "decided_by_id": lena.pk,
        "decided_at": now,
        "decision_note": "Use an L4.",
    }
    assert lines_of(waiting_claim) == [("requested", "denied", "lena", "Use an L4.")]
    body = "Denied by lena: Use an L4. You can request it again from its page."
    assert told() == [("alice", "sam2 was denied", body, page_of(waiting_claim), True)]
    assert delivered == []


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("approved", "lars already approved sam2 on {when}."),
        ("denied", "lars already denied sam2 on {when}."),
        ("withdrawn", "alice withdrew sam2 on {when}."),
        ("expired", "sam2 expired without a decision on {when}."),
    ],
)
def test_late_decision_conflicts_and_changes_nothing(waiting_claim, lena, lars, alice, clock, way, said):
    when = moment(timezone.now())
    if way == "approved":
        approve(waiting_claim, lars)
    elif way == "denied":
        decide.deny(claim=waiting_claim, by=lars, reason="No.")
    elif way == "withdrawn":
        withdraw(claim=waiting_claim, by=alice)
    else:
        waiting_claim.advance(ClaimState.EXPIRED, why="Nobody decided in time.")
    waiting_claim.refresh_from_db()
    row, lines = row_of(waiting_claim), lines_of(waiting_claim)
    clock.shift(DAY)
    for late in (
        lambda: approve(waiting_claim, lena),
        lambda: decide.deny(claim=waiting_claim, by=lena, reason="No."),
        lambda: change(waiting_claim, lena, devices=1),
    ):
        with pytest.raises(Conflict) as refused:
            late()
        assert refused.value.message == said.format(when=when)
    assert (row_of(waiting_claim), lines_of(waiting_claim)) == (row, lines)


def test_approver_cannot_deny_afterward(waiting_claim, lena):
    approve(waiting_claim, lena)
    with pytest.raises(Conflict, match="lena already approved sam2"):
        decide.deny(claim=waiting_claim, by=lena, reason="No.")
    assert row_of(waiting_claim)["state"] == "approved"


def test_changed_spec_is_refused_and_both_hashes_are_named(waiting_claim, lena):
    for seen, named in (("a" * 64, "a" * 8), ("", "—")):
        with pytest.raises(Conflict) as refused:
            approve(waiting_claim, lena, spec_hash=seen)
        assert refused.value.message == (
            f"sam2 has changed since you read it: its spec is now {waiting_claim.spec_hash[:8]}, "
            f"you approved {named}."
        )
    assert row_of(waiting_claim)["state"] == "requested"


# Two steps.


def test_first_approval_is_recorded_and_admins_are_notified(waiting_claim, both, lena, root, delivered):
    ada = make_user("ada", admin=True)
    before = row_of(waiting_claim)
    for _ in range(2):
        approve(waiting_claim, lena, note=" needed ")
    (step,) = ApprovalStep.objects.filter(claim=waiting_claim)
    assert (step.role, step.by, step.note, step.spec_hash) == (
        "lead",
        lena,
        "needed",
        waiting_claim.spec_hash,
    )
    assert row_of(waiting_claim) == before | {"version": before["version"] + 1}
    assert lines_of(waiting_claim) == [
        ("requested", "requested", "lena", "First approval, by a lead. needed")
    ]
    body = (
        "alice requests 2 × Train 80, 1 d for vision. Fine-tuning. "
        "The rule of Vision requires approval by a team lead and then a platform admin. "
        "lena gave the first approval."
    )
    notice = ("sam2 waits for your decision", body, page_of(waiting_claim, "approval"), True)
    assert told() == [("ada", *notice), ("root", *notice)]
    assert delivered == []
    Notice.objects.all().delete()
    approve(waiting_claim, ada, note="Fine.")
    assert row_of(waiting_claim)["decided_by_id"] == ada.pk
    assert lines_of(waiting_claim)[1:] == [("requested", "approved", "ada", "Fine.")]
    assert [who for who, *_ in told()] == ["alice"]


def test_admin_cannot_give_both_approvals(waiting_claim, both, vision, root):
    vision.memberships.create(user=root, role="lead")
    approve(waiting_claim, root)
    assert ApprovalAuthority(root, [vision]).reason_not_to_decide(waiting_claim) == (
        "You gave the first approval as a lead. Another platform admin must give the second."
    )
    ada = make_user("ada", admin=True)
    assert deciders_on(waiting_claim) == [ada]


def test_requester_cannot_give_either_approval(ask, both, lena, root, vision):
    of_lead, of_admin = ask(by=lena, name="of-lead"), ask(by=root, name="of-admin")
    with pytest.raises(Forbidden, match="your own request"):
        approve(of_lead, lena)
    approve(of_admin, lena)
    with pytest.raises(Forbidden, match="your own request"):
        approve(of_admin, root)
    assert {row.state for row in Claim.objects.all()} == {"requested"}
    both.self_approval = True
    both.save(update_fields=["self_approval"])
    assert approve(of_admin, root).state == ClaimState.APPROVED
    approve(of_lead, lena)
    assert of_lead.steps.get().by == lena


def test_late_second_lead_learns_who_decided(waiting_claim, both, lena, lars, root):
    approve(waiting_claim, lena)
    approve(waiting_claim, root)
    with pytest.raises(Conflict, match="root already approved sam2"):
        approve(waiting_claim, lars)


# With changes.


def test_approval_with_changes_writes_every_column_and_notifies(waiting_claim, lena, vision):
    before, now = row_of(waiting_claim), timezone.now()
    change(waiting_claim, lena, devices=1, duration=12 * HOUR, note=" Enough. ")
    row = row_of(waiting_claim)
    changed = {"spec": row["spec"], "spec_hash": row["spec_hash"], "approved_hash": row["spec_hash"]}
    assert row["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert row["spec_hash"] != before["spec_hash"]
    assert lines_of(waiting_claim) == [("requested", "approved", "lena", row["decision_note"])]
    assert row == before | changed | {
        "state": "approved",
        "version": before["version"] + 1,
        "decided_by_id": lena.pk,
        "decided_at": now,
        "decision_note": row["decision_note"],
        "expires_at": now + 12 * HOUR,
        "devices": 1,
        "duration": 12 * HOUR,
        "original_request": {
            "profile": "train-80 v1",
            "devices": 2,
            "duration": "1 d",
            "seconds": 86_400,
            "spec_hash": before["spec_hash"],
        },
    }
    assert row["decision_note"] == "Approved with changes: 2 → 1 device; 1 d → 12 h. Enough."
    assert list(waiting_claim.charges.values_list("device_class", "devices", "carried")) == [
        ("gpu.nvidia.com", 1, 0)
    ]
    ((who, title, body, url, important),) = told()
    assert (who, title, url, important) == (
        "alice",
        "sam2 was approved with changes",
        page_of(waiting_claim),
        True,
    )
    assert body == (
        "lena changed it: 2 → 1 device; 1 d → 12 h. Enough. "
        "If you cannot use it like this, release it: costs start only when a pod holds its devices."
    )


def test_change_of_duration_keeps_spec_and_charges(waiting_claim, lena):
    before, charge = row_of(waiting_claim), waiting_claim.charges.get().pk
    change(waiting_claim, lena, duration=12 * HOUR)
    row = row_of(waiting_claim)
    assert {name: row[name] for name in ("spec", "spec_hash", "devices")} == {
        name: before[name] for name in ("spec", "spec_hash", "devices")
    }
    assert (row["duration"], waiting_claim.charges.get().pk) == (12 * HOUR, charge)


def test_first_approval_after_changes_by_lead_and_admin(waiting_claim, both, lena, lars, root):
    change(waiting_claim, lena, devices=1, note="Enough.")
    waiting_claim.refresh_from_db()
    (step,) = waiting_claim.steps.all()
    assert (step.by, step.spec_hash, waiting_claim.state) == (lena, waiting_claim.spec_hash, "requested")
    assert step.note.endswith("; Enough.")
    people = [(who, title) for who, title, *_ in told()]
    assert people == [
        ("alice", "sam2 was changed and still waits for approval"),
        ("root", "sam2 waits for your decision"),
    ]
    (changed,) = [one for one in told() if one[0] == "alice"]
    assert changed[2:] == (
        "lena changed it: 2 → 1 device. You can withdraw it.",
        page_of(waiting_claim),
        True,
    )
    Notice.objects.all().delete()
    change(waiting_claim, root, duration=12 * HOUR)
    waiting_claim.refresh_from_db()
    assert not waiting_claim.steps.exists()
    assert waiting_claim.original_request["devices"] == 2  # as it already
    assert [(who, title) for who, title, *_ in told()] == [
        ("alice", "sam2 was changed and still waits for approval"),
        ("lars", "sam2 waits for your decision"),
        ("lena", "sam2 waits for your decision"),
    ]
    assert ("requested", "requested", "root", "Changed: 1 d → 12 h.") in lines_of(waiting_claim)


def test_empty_change_or_changed_spec_is_refused(waiting_claim, lena):
    before = row_of(waiting_claim)
    with pytest.raises(Invalid, match=r"Nothing has changed\. Approve sam2 as it is"):
        change(waiting_claim, lena, devices=2)
    waiting_claim.spec_hash = "0" * 64
    with pytest.raises(Conflict, match="has changed since you read it"):
        change(waiting_claim, lena, devices=1)
    assert row_of(waiting_claim) == before


# In the place of a lead, and who may.


@pytest.fixture
def mira(vision, lena):
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    return mira


def stand_in(lead, to, team, since=-HOUR, until=HOUR):
    now = timezone.now()
    return Delegation.objects.create(team=team, lead=lead, to=to, starts_at=now + since, ends_at=now + until)


@pytest.mark.parametrize("way", ["approve", "deny", "consent", "change"])
def test_every_decision_of_a_delegate_names_the_lead(waiting_claim, vision, lena, mira, way):
    stand_in(lena, mira, vision)
    if way == "consent":
        ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)
    if way == "deny":
        decide.deny(claim=waiting_claim, by=mira, reason="No.")
    elif way == "change":
        change(waiting_claim, mira, duration=12 * HOUR)
    else:
        approve(waiting_claim, mira)
    ((_old, _new, by, why),) = lines_of(waiting_claim)
    assert (by, why.endswith(" As delegate of lena.")) == ("mira", True)
    assert "For lena" not in row_of(waiting_claim)["decision_note"]


@pytest.mark.parametrize(
    ("since", "until", "holds"),
    [
        (timedelta(0), HOUR, True),
        (timedelta(seconds=1), HOUR, False),
        (-HOUR, timedelta(0), False),
        (-HOUR, timedelta(seconds=1), True),
    ],
)
def test_delegation_includes_its_start_and_excludes_its_end(
    waiting_claim, vision, lena, mira, since, until, holds
):
    stand_in(lena, mira, vision, since, until)
    assert ApprovalAuthority(mira).may_decide(waiting_claim) is holds
    assert (mira in deciders_on(waiting_claim)) is holds
    assert authority.active_delegations().filter(to=mira).exists() is holds


@pytest.mark.parametrize(
    ("spoilt", "holds"),
    [
        ("nothing", True),
        ("lead is a member", False),
        ("lead is an owner", True),
        ("lead cannot sign in", False),
        ("stand-in is a viewer", False),
        ("stand-in has left", False),
        ("stand-in cannot sign in", False),
        ("of another team", False),
    ],
)
def test_delegation_needs_the_roles_of_both_people(waiting_claim, vision, lena, mira, spoilt, holds):
    nlp = make_team("nlp", leads=(lena,), members=(mira,))
    stand_in(lena, mira, nlp if spoilt == "of another team" else vision)
    of = vision.memberships
    if spoilt == "lead is a member":
        of.filter(user=lena).update(role="member")
    elif spoilt == "lead is an owner":
        of.filter(user=lena).update(role="owner")
    elif spoilt == "stand-in is a viewer":
        of.filter(user=mira).update(role="viewer")
    elif spoilt == "stand-in has left":
        of.filter(user=mira).delete()
    elif "cannot sign in" in spoilt:
        person = lena if spoilt.startswith("lead") else mira
        User.objects.filter(pk=person.pk).update(is_active=False)
    assert ApprovalAuthority(mira).may_decide(waiting_claim) is holds
    assert (mira in deciders_on(waiting_claim)) is holds
    assert (vision.pk in ApprovalAuthority(mira).teams) is holds


def test_delegate_of_two_leads_decides_for_the_one_who_may(ask, vision, lena, lars, mira):
    own = ask(by=lena)
    stand_in(lena, mira, vision)
    assert not ApprovalAuthority(mira).may_decide(own)
    stand_in(lars, mira, vision)
    assert ApprovalAuthority(mira).may_decide(own)
    assert ApprovalAuthority(mira).delegator(own) == lars
    assert [ApprovalAuthority(person).delegator(own) for person in (lena, lars)] == [None, None]


@pytest.mark.parametrize(
    ("escalated", "leads", "asked"),
    [
        (False, True, ["lars", "lena"]),
        (True, True, ["lars", "lena", "root"]),
        (False, False, ["root"]),
    ],
)
def test_request_waits_for_admins_after_escalation_or_without_leads(
    waiting_claim, vision, root, escalated, leads, asked
):
    if escalated:
        Claim.objects.filter(pk=waiting_claim.pk).update(escalated_at=timezone.now())
    if not leads:
        vision.memberships.filter(role="lead").update(role="member")
    claim = Claim.objects.select_related("team", "requested_by", "profile_version__profile").get(
        pk=waiting_claim.pk
    )
    assert [person.username for person in deciders_on(claim)] == asked
    assert is_responsible(ApprovalAuthority(root), claim) is ("root" in asked)
    assert ApprovalAuthority(root).may_decide(claim)


def test_request_waits_for_admins_if_no_lead_is_able(ask, vision, lena, lars, alice, root):
    vision.memberships.filter(user=lars).delete()
    of_lead, of_member = ask(by=lena), ask()
    assert (
        is_responsible(ApprovalAuthority(root), of_lead),
        is_responsible(ApprovalAuthority(root), of_member),
    ) == (
        True,
        False,
    )
    User.objects.filter(pk=lena.pk).update(is_active=False)
    assert is_responsible(ApprovalAuthority(root), of_member)
    ApprovalRule.objects.create(team=vision, approval="", self_approval=True)
    User.objects.filter(pk=lena.pk).update(is_active=True)
    assert not is_responsible(ApprovalAuthority(root), of_lead)


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ("lena", ""),
        ("root", ""),
        ("alice", "Only leads of vision decide on its requests. Your role: member."),
        ("bob", "Only leads of vision decide on its requests. Your role: viewer."),
        ("eve", "Only leads of vision decide on its requests. You are not a member."),
    ],
)
def test_reason_not_to_decide_by_role(request, waiting_claim, who, said):
    assert authority.reason_not_to_decide(request.getfixturevalue(who), waiting_claim) == said


def test_lead_of_another_team_cannot_decide(waiting_claim, vision, eve, lena):
    make_team("nlp", leads=(eve,))
    assert not ApprovalAuthority(eve).may_decide(waiting_claim)
    profile = waiting_claim.profile_version.profile
    ApprovalRule.objects.create(profile=profile, approval=Approval.ADMIN)
    assert ApprovalAuthority(lena).reason_not_to_decide(waiting_claim) == (
        "Only platform admins decide on requests for train-80."
    )


def test_approval_route_names_deciders_without_the_requester(vision, train, alice, lena, lars, root):
    def route(by, approval):
        ApprovalRule.objects.all().delete()
        ApprovalRule.objects.create(team=vision, approval=approval)
        found = approval_route(by=by, team=vision, requested=[(train.current, 1)], duration=DAY)
        return found.automatic, found.sentence, [person.username for person in found.deciders]

    assert route(alice, "automatic") == (True, "Approved automatically (rule of Vision).", [])
    assert route(lena, "lead") == (False, "A lead of vision decides: lars.", ["lars"])
    assert route(root, "admin") == (
        False,
        "You are the only platform admin: you decide on your own request; its history says so.",
        ["root"],
    )
    assert route(lena, "both") == (
        False,
        "First approval: a lead of vision (lars). Second: a platform admin (root).",
        ["lars"],
    )
    vision.memberships.filter(user=lars).delete()
    assert route(lena, "lead") == (False, "No lead of vision can decide on this.", [])
    ada = make_user("ada", admin=True)
    assert route(lena, "both") == (
        False,
        "No lead of vision can decide on this. Two platform admins must approve: ada or root.",
        [ada.username, "root"],
    )


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "a"), (2, "a or b"), (0, ""), (3, "a, b or c"), (4, "a, b, c or 1 more"), (6, "a, b, c or 3 more")],
)
def test_join_names_shows_three_people(count, said):
    assert join_names([User(username=name) for name in "abcdef"[:count]]) == said


def test_first_approval_is_valid_for_its_spec_while_pending(waiting_claim, both, lena, lars):
    effective_rule = authority.effective_rule_on(waiting_claim)
    assert approval_stage(waiting_claim, effective_rule) == (Approval.LEAD, None)
    old = waiting_claim.steps.create(role=Approval.LEAD, by=lars, at=timezone.now(), spec_hash="0" * 64)
    assert approval_stage(waiting_claim, effective_rule) == (Approval.LEAD, None)
    old.spec_hash = waiting_claim.spec_hash
    old.save()
    assert approval_stage(waiting_claim, effective_rule) == (Approval.ADMIN, old)
    waiting_claim.state = ClaimState.PROVISIONED
    assert approval_stage(waiting_claim, effective_rule) == (Approval.ADMIN, None)


# Time.


@pytest.fixture
def slow(vision):
    return ApprovalRule.objects.create(team=vision, approval="", escalate_after=4 * HOUR)


def test_overdue_requests_are_escalated(waiting_claim, ask, slow, root, fra, clock):
    ada = make_user("ada", admin=True)
    make_user("former", admin=True, is_active=False)
    other = ask(name="other", by=ada)
    Claim.objects.update(state_since=timezone.now() - 4 * HOUR)
    nlp = make_team("nlp", leads=(make_user("olaf"),))
    slower = make_claim(nlp, cluster=fra, state_since=timezone.now() - 9 * DAY)
    Notice.objects.all().delete()
    kept = {claim.pk: row_of(claim) for claim in (waiting_claim, other, slower)}
    now = timezone.now()
    assert escalation.escalate_overdue(now - timedelta(seconds=1)) == 0
    assert escalation.escalate_overdue(now) == 2
    assert escalation.escalate_overdue(now) == 0
    for claim in (waiting_claim, other):
        before = kept[claim.pk]
        assert row_of(claim) == before | {"escalated_at": now, "version": before["version"] + 1}
    assert row_of(slower) == kept[slower.pk]
    body = "The leads of vision have not decided. Now it waits for you too."
    of_wish = (
        "sam2 of vision has waited for a decision for 4 h",
        body,
        page_of(waiting_claim, "approval"),
        True,
    )
    of_other = ("other of vision has waited for a decision for 4 h", body, page_of(other, "approval"), True)
    assert sorted(told()) == sorted([("ada", *of_wish), ("root", *of_wish), ("root", *of_other)])


def test_failed_notice_rolls_the_escalation_back(waiting_claim, slow, root, monkeypatch):
    Claim.objects.update(state_since=timezone.now() - DAY)
    with monkeypatch.context() as broken:
        broken.setattr("claims.approvals.escalation.notify_of", lambda *_a, **_k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            escalation.escalate_overdue(timezone.now())
    assert row_of(waiting_claim)["escalated_at"] is None
    assert escalation.escalate_overdue(timezone.now()) == 1


def test_shortest_escalation_of_several_profiles_applies(waiting_claim, vision, root):
    quick = make_profile("quick")
    ApprovalRule.objects.create(profile=quick, approval="", escalate_after=HOUR)
    ApprovalRule.objects.create(
        profile=waiting_claim.profile_version.profile, approval="", escalate_after=DAY
    )
    for position, profile in enumerate((waiting_claim.profile_version.profile, quick)):
        Alternative.objects.create(
            claim=waiting_claim,
            position=position,
            name=f"gpu/{position}",
            profile_version=profile.current,
            devices=1,
        )
    assert escalation.escalate_overdue(waiting_claim.state_since + HOUR) == 1
