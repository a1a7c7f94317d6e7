"""Delegations, approval rules and reasons to deny."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from claims.approvals import notices
from claims.models import Approval, ApprovalRule, Delegation, Profile, ReasonTemplate
from core.errors import Conflict, Forbidden, Invalid
from core.times import duration, moment, require_date
from teams.access import require_admin, require_role, role_in, teams_where
from teams.models import Membership, Role, Team, User

LONGEST_DELEGATION = timedelta(days=92)


@transaction.atomic(durable=True)
def delegate(*, by: User, team: Team, to: User, starts_at: datetime, ends_at: datetime) -> Delegation:
    """
    Let `to`, a member of the team, decide in the place of `by`, a lead of it, from an instant to an instant.

    The same again is the same. Raises Http404 for an outsider, PermissionDenied for who does not lead the
    team, Invalid for a stand-in or a time that is none, Conflict where somebody stands in already.
    """
    require_role(by, team, at_least=Role.LEAD)
    # Locked, so that of two wishes at once one is second.
    own = Membership.objects.select_for_update(no_key=True).filter(user=by, team=team).first()
    if own is None:
        raise Forbidden(f"You do not lead {team}, so nobody can stand in for you there.")
    role = role_in(to, team)
    if to == by or not to.is_active or role is None or role.rank < Role.MEMBER.rank or to.is_superuser:
        raise Invalid(f"Somebody else who is a member of {team} has to stand in for you.")
    require_date(starts_at)
    require_date(ends_at)
    if ends_at <= max(starts_at, timezone.now()):
        raise Invalid("It has to end after it begins, and not in the past.")
    if ends_at - starts_at > LONGEST_DELEGATION:
        longest, span = duration(LONGEST_DELEGATION), duration(ends_at - starts_at)
        raise Invalid(f"Somebody may stand in for {longest} at most; this is {span}.")
    standing = Delegation.objects.filter(
        team=team, lead=by, starts_at__lt=ends_at, ends_at__gt=max(starts_at, timezone.now())
    ).select_related("to")
    for row in standing:
        if (row.to_id, row.starts_at, row.ends_at) == (to.pk, starts_at, ends_at):
            return row
        begins, ends = moment(row.starts_at), moment(row.ends_at)
        raise Conflict(f"{row.to.label} stands in for you from {begins} to {ends} already.")
    row = Delegation.objects.create(team=team, lead=by, to=to, starts_at=starts_at, ends_at=ends_at)
    notices.delegated(row)
    return row


@transaction.atomic(durable=True)
def end_delegation(*, by: User, delegation: Delegation) -> Delegation:
    """
    End it now; one that has not begun has never held. Ending twice is ending once. Raises Forbidden for
    anybody but the lead whose it is and the stand-in.
    """
    require_role(by, delegation.team, at_least=Role.VIEWER)
    if by.pk not in (delegation.lead_id, delegation.to_id):
        raise Forbidden(f"Only {delegation.lead} and {delegation.to} may end this.")
    row = Delegation.objects.select_for_update(no_key=True).get(pk=delegation.pk)
    now = timezone.now()
    if row.ends_at > now:
        row.starts_at, row.ends_at = min(row.starts_at, now), now
        row.save(update_fields=["starts_at", "ends_at"])
    return row


@transaction.atomic(durable=True)
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
    Make the rule for this team and this profile, or change the one there is; an empty `approval` leaves who
    decides to the profile. What waits already is decided by it too.

    Raises Forbidden, Invalid.
    """
    require_admin(by)
    if team is None and profile is None:
        raise Invalid("A rule is for a team, for a profile, or for a profile of a team.")
    if approval and approval not in Approval.values:
        raise Invalid(f"“{approval}” is no way to decide.")
    if approval in ("", Approval.AUTOMATIC) and (automatic_devices or automatic_duration is not None):
        raise Invalid("Choose an approver before you set an automatic limit.")
    if automatic_duration is not None and (automatic_duration <= timedelta(0) or not automatic_devices):
        raise Invalid("Up to how long nobody is asked goes with up to how many devices.")
    if escalate_after is not None and escalate_after <= timedelta(0):
        raise Invalid("Platform admins can be asked only after some time.")
    rule, _made = ApprovalRule.objects.update_or_create(
        team=team,
        profile=profile,
        defaults={
            "approval": approval,
            "automatic_devices": automatic_devices,
            "automatic_duration": automatic_duration,
            "self_approval": self_approval,
            "escalate_after": escalate_after,
        },
    )
    return rule


@transaction.atomic(durable=True)
def remove_rule(*, by: User, rule: ApprovalRule) -> None:
    """Forget the rule; the next less specific one counts from now on. Raises Forbidden."""
    require_admin(by)
    ApprovalRule.objects.filter(pk=rule.pk).delete()


@dataclass(frozen=True, slots=True)
class SavedReason:
    title: str
    text: str


def reasons_for(team: Team | None) -> Sequence[SavedReason]:
    """Return those written for this team (None: for no team alone) or for everybody, then the usual ones."""
    rows = ReasonTemplate.objects.filter(Q(team=None) | Q(team=team))
    return [SavedReason(row.title, row.text) for row in rows] + usual()


def kept_by(user: User) -> QuerySet[ReasonTemplate]:
    """Return those that `user` may change: of the teams that they lead; for platform admins every one."""
    if user.is_superuser:
        return ReasonTemplate.objects.all()
    return ReasonTemplate.objects.filter(team__in=teams_where(user, at_least=Role.LEAD))


def usual() -> list[SavedReason]:
    """Return those that come with the product."""
    return [
        SavedReason(
            "Too long",
            "This is longer than we can keep devices for one piece of work. Ask for less and extend it.",
        ),
        SavedReason(
            "Smaller devices do",
            "A smaller device is enough for this work. Ask for the smaller profile instead.",
        ),
        SavedReason(
            "Others come first",
            "The devices are needed for work with a nearer date. Request again when that is done.",
        ),
        SavedReason(
            "Purpose unclear",
            "Say what the devices are for and how long that takes, and ask again.",
        ),
    ]


LONGEST_TITLE, LONGEST_REASON = 80, 500  # characters; a note that goes with a decision has no more


@transaction.atomic(durable=True)
def save_reason(
    *, by: User, title: str, text: str, team: Team | None = None, reason: ReasonTemplate | None = None
) -> ReasonTemplate:
    """
    Make a reason, or change `reason`; for one team, or (None) for everybody.

    Raises Http404 for an outsider, PermissionDenied for who does not lead the team, Forbidden for what is for
    everybody, Invalid.
    """
    _require_may_keep(by, team)
    if reason is not None:
        _require_may_keep(by, reason.team)
    title, text = title.strip(), text.strip()
    if not 0 < len(title) <= LONGEST_TITLE:
        raise Invalid(f"A reason needs a title of 1 to {LONGEST_TITLE} characters.")
    if not 0 < len(text) <= LONGEST_REASON:
        raise Invalid(f"Write from 1 to {LONGEST_REASON} characters; these are {len(text)}.")
    same = ReasonTemplate.objects.filter(team=team, title=title)
    if reason is not None:
        same = same.exclude(pk=reason.pk)
    if other := same.first():
        if reason is None and other.text == text:
            return other  # making it twice is making it once
        raise Invalid(f"There is a reason “{title}” already.")
    kept = reason or ReasonTemplate()
    kept.title, kept.text, kept.team = title, text, team
    kept.save()
    return kept


@transaction.atomic(durable=True)
def remove_reason(*, by: User, reason: ReasonTemplate) -> None:
    """Offer it no more; what was denied with it keeps its words. Raises as `save_reason`."""
    _require_may_keep(by, reason.team)
    ReasonTemplate.objects.filter(pk=reason.pk).delete()


def _require_may_keep(by: User, team: Team | None) -> None:
    if team is None:
        require_admin(by)
    else:
        require_role(by, team, at_least=Role.LEAD)
