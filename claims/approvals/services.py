"""
Create, change and remove delegations, approval rules and reasons to deny.

Every function is safe to repeat: the same call again has no further effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.utils import timezone

from claims.approvals import notices, pending
from claims.models import Approval, ApprovalRule, Delegation, Profile, ReasonTemplate
from core.errors import Conflict, Forbidden, Invalid, violated_constraint
from core.text import DASH
from core.times import duration, moment, require_date, utc_moment
from core.transactions import service
from teams.access import require_admin, require_role, role_in, teams_where
from teams.models import Membership, Role, Team, User, record_change

MAX_DELEGATION = timedelta(days=92)


@service
def delegate(*, by: User, team: Team, to: User, starts_at: datetime, ends_at: datetime) -> Delegation:
    """
    Let `to`, a member of the team, decide for `by`, a lead of it, in a period.

    Raises Http404 for an outsider, PermissionDenied if `by` does not lead the team, Invalid for the delegate
    or the period, Conflict if `by` has a delegate in that period.
    """
    require_role(by, team, at_least=Role.LEAD)
    # Locked, so that two delegations of one lead are not created at once.
    membership = Membership.objects.select_for_update(no_key=True).filter(user=by, team=team).first()
    if membership is None:
        raise Forbidden(f"You do not lead {team}, so you cannot delegate its approvals.")
    role = role_in(to, team)
    is_person = to.is_active and not to.is_service_account
    if to == by or not is_person or role is None or role.rank < Role.MEMBER.rank or to.is_superuser:
        raise Invalid(f"Choose another member of {team} as your delegate.")
    require_date(starts_at)
    require_date(ends_at)
    if ends_at <= max(starts_at, timezone.now()):
        raise Invalid("The delegation must end after it starts, and in the future.")
    if ends_at - starts_at > MAX_DELEGATION:
        longest, span = duration(MAX_DELEGATION), duration(ends_at - starts_at)
        raise Invalid(f"A delegation can last up to {longest}; this is {span}.")
    overlapping = Delegation.objects.filter(
        team=team, lead=by, starts_at__lt=ends_at, ends_at__gt=max(starts_at, timezone.now())
    ).select_related("to")
    for row in overlapping:
        if (row.to_id, row.starts_at, row.ends_at) == (to.pk, starts_at, ends_at):
            return row
        start, end = moment(row.starts_at), moment(row.ends_at)
        raise Conflict(f"{row.to.label} is already your delegate from {start} to {end}.")
    delegation = Delegation.objects.create(team=team, lead=by, to=to, starts_at=starts_at, ends_at=ends_at)
    period = f"{utc_moment(starts_at)} to {utc_moment(ends_at)}"
    change, values = f"delegated approvals to {to.label}, {period}", [("Delegate", "–", to.username)]
    record_change(by=by, of=delegation, change=change, values=values)
    notices.notify_delegate(delegation)
    return delegation


def delegations_of(user: User) -> QuerySet[Delegation]:
    """Return the delegations that `user` gave or received, in teams that they may still see."""
    mine = Delegation.objects.filter(Q(lead=user) | Q(to=user), team__in=Team.objects.visible_to(user))
    return mine.select_related("team", "lead", "to")


@service
def end_delegation(*, by: User, delegation: Delegation) -> Delegation:
    """
    End the delegation now, or cancel it if it has not started. Raises Forbidden for anybody but its lead and
    its delegate.
    """
    require_role(by, delegation.team, at_least=Role.VIEWER)
    if by.pk not in (delegation.lead_id, delegation.to_id):
        raise Forbidden(f"Only {delegation.lead} and {delegation.to} may end this delegation.")
    row = Delegation.objects.select_for_update(no_key=True).get(pk=delegation.pk)
    now = timezone.now()
    if row.ends_at > now:
        row.starts_at, row.ends_at = min(row.starts_at, now), now
        row.save(update_fields=["starts_at", "ends_at"])
        change = f"ended the delegation to {delegation.to.label}"
        record_change(by=by, of=delegation, change=change, values=[("Delegate", delegation.to.username, "–")])
    return row


@service
def save_rule(
    *,
    by: User,
    team: Team | None = None,
    profile: Profile | None = None,
    approval: str = Approval.LEAD,
    automatic_devices: int = 0,
    automatic_duration: timedelta | None = None,
    self_approval: bool = False,
    escalate_after: timedelta | None = None,
) -> ApprovalRule:
    """
    Create or change the rule for this team and this profile. It applies to pending requests too.

    With an empty `approval` the profile says who decides.

    Raises Forbidden, Invalid.
    """
    require_admin(by)
    if team is None and profile is None:
        raise Invalid("Choose a team, a profile, or both.")
    if approval and approval not in Approval.values:
        raise Invalid(f"“{approval}” is not a kind of approval.")
    if approval in ("", Approval.AUTOMATIC) and (automatic_devices or automatic_duration is not None):
        raise Invalid("Choose an approver before you set an automatic limit.")
    if automatic_duration is not None and (automatic_duration <= timedelta(0) or not automatic_devices):
        raise Invalid("Automatic approval needs a number of devices and a duration above 0.")
    if escalate_after is not None and escalate_after <= timedelta(0):
        raise Invalid("Escalation needs a duration above 0.")
    fields = {
        "approval": approval,
        "automatic_devices": automatic_devices,
        "automatic_duration": automatic_duration,
        "self_approval": self_approval,
        "escalate_after": escalate_after,
    }
    before = ApprovalRule.objects.filter(team=team, profile=profile).first()
    rule, _created = ApprovalRule.objects.update_or_create(team=team, profile=profile, defaults=fields)
    values = [
        (name.replace("_", " ").capitalize(), old, new)
        for name, value in fields.items()
        if (old := _recorded(getattr(before, name, None))) != (new := _recorded(value))
    ]
    if values:
        record_change(by=by, of=rule, change="changed" if before else "added", values=values)
    _refresh_pending(rule)
    return rule


@service
def remove_rule(*, by: User, rule: ApprovalRule) -> None:
    """Delete the rule; the next less specific one applies from now on. Raises Forbidden."""
    require_admin(by)
    deleted, _of_kinds = ApprovalRule.objects.filter(pk=rule.pk).delete()
    if deleted:
        record_change(by=by, of=rule, change="removed")
    _refresh_pending(rule)


def _recorded(value: object) -> str:
    """Return a field of a rule for the record; a dash for nothing."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return duration(value) if isinstance(value, timedelta) else str(value or DASH)


def _refresh_pending(rule: ApprovalRule) -> None:
    """Change who decides on what is undecided: in the team of the rule, else on its profile."""
    if rule.team_id is not None:
        pending.refresh(teams=[rule.team_id])
    else:
        pending.refresh(profile=rule.profile)


@dataclass(frozen=True, slots=True)
class SavedReason:
    title: str
    text: str


def reasons_for(team: Team | None) -> Sequence[SavedReason]:
    """Return the reasons saved for everybody and for this team, if any, then the default ones."""
    rows = ReasonTemplate.objects.filter(Q(team=None) | Q(team=team))
    return [SavedReason(row.title, row.text) for row in rows] + default_reasons()


def editable_reasons(user: User) -> QuerySet[ReasonTemplate]:
    """Return the reasons that `user` may edit: of the teams that they lead; for platform admins all."""
    if user.is_superuser:
        return ReasonTemplate.objects.all()
    return ReasonTemplate.objects.filter(team__in=teams_where(user, at_least=Role.LEAD))


def default_reasons() -> list[SavedReason]:
    """Return the reasons that the portal offers everywhere."""
    return [
        SavedReason(
            "Too long",
            "We cannot keep devices for one job this long. Request a shorter duration and extend it.",
        ),
        SavedReason(
            "Smaller device is enough",
            "A smaller device is enough for this work. Request the smaller profile instead.",
        ),
        SavedReason(
            "Other work has priority",
            "The devices are needed for work with an earlier deadline. Request them again afterward.",
        ),
        SavedReason(
            "Purpose unclear",
            "Describe what the devices are for and how long you need them, then request again.",
        ),
    ]


MAX_TITLE_LENGTH = 80
MAX_REASON_LENGTH = 500  # as the note of a decision


@service
def save_reason(
    *, by: User, title: str, text: str, team: Team | None = None, reason: ReasonTemplate | None = None
) -> ReasonTemplate:
    """
    Create a reason, or change `reason`; for one team, or for every team if `team` is None.

    Raises Http404 for an outsider, PermissionDenied if `by` does not lead the team, Forbidden if only
    platform admins may save it, Invalid.
    """
    _require_may_edit(by, team)
    if reason is not None:
        _require_may_edit(by, reason.team)
    title, text = title.strip(), text.strip()
    if not 0 < len(title) <= MAX_TITLE_LENGTH:
        raise Invalid(f"A reason needs a title of 1 to {MAX_TITLE_LENGTH} characters.")
    if not 0 < len(text) <= MAX_REASON_LENGTH:
        raise Invalid(f"Write 1 to {MAX_REASON_LENGTH} characters; this text has {len(text)}.", field="text")
    same_title = ReasonTemplate.objects.filter(team=team, title=title)
    if reason is not None:
        same_title = same_title.exclude(pk=reason.pk)
    if existing := same_title.first():
        if reason is None and existing.text == text:
            return existing
        raise _title_exists(title, team)
    saved = reason or ReasonTemplate()
    before = f"{saved.title}: {saved.text}" if reason else DASH
    saved.title, saved.text, saved.team = title, text, team
    try:
        saved.save()
    except IntegrityError as error:  # somebody saved the same title at the same moment
        if violated_constraint(error) != "reason_title_once":
            raise
        raise _title_exists(title, team) from None
    _record_reason(by, saved, "changed" if reason else "added", before, f"{title}: {text}")
    return saved


def _title_exists(title: str, team: Team | None) -> Invalid:
    teams = team or "all teams"
    return Invalid(
        f"A reason “{title}” already exists for {teams}. Edit it, or choose another title.", field="title"
    )


@service
def remove_reason(*, by: User, reason: ReasonTemplate) -> None:
    """Delete the reason; past decisions keep its text. Raises as `save_reason`."""
    _require_may_edit(by, reason.team)
    deleted, _of_kinds = ReasonTemplate.objects.filter(pk=reason.pk).delete()
    if deleted:
        _record_reason(by, reason, "removed", f"{reason.title}: {reason.text}", DASH)


def _record_reason(by: User, reason: ReasonTemplate, change: str, before: str, after: str) -> None:
    """Record it, though not in Activity: a saved reason decides nothing."""
    if before != after:
        values = [("Reason", before, after)]
        record_change(by=by, of=reason, change=change, values=values, in_activity=False)


def _require_may_edit(by: User, team: Team | None) -> None:
    if team is None:
        require_admin(by)
    else:
        require_role(by, team, at_least=Role.LEAD)
