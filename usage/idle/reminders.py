"""Ask the owner of a claim whether they still need what it holds: what leads do before they release it."""

from __future__ import annotations

from datetime import datetime

from django.urls import reverse

from claims.access import lock_claim
from claims.models import Claim
from claims.notices import notify_of
from claims.states import MAY_HOLD_DEVICES
from core.errors import Conflict, Forbidden
from core.transactions import service
from notify.models import NoticeKind
from notify.services import already_notified
from teams.access import role_in
from teams.models import Role, User
from usage.daily import utc_day
from usage.idle.escalation import idle_fact, with_evidence
from usage.idle.evidence import graph_url
from usage.models import IdlePeriod


def reason_not_to_remind(user: User, claim: Claim) -> str:
    """Return why a person may not remind the owner of a claim, "" if they may; the state is not checked."""
    owner = claim.requested_by
    if user.pk == owner.pk:
        return f"{claim} is yours."
    role = None if user.is_superuser else role_in(user, claim.team)
    if not user.is_superuser and (role is None or role.rank < Role.LEAD.rank):
        return f"Only leads of {claim.team} and platform admins may remind {owner.label}."
    return "" if owner.is_active else f"The account of {owner.label} is deactivated."


def key_of(claim: Claim, now: datetime) -> str:
    """Return the key of the notice of a day (UTC)."""
    return f"remind:{claim.pk}:{utc_day(now)}"


@service
def remind_owner(*, claim: Claim, by: User, now: datetime) -> list[User]:
    """
    Notify the owner of a claim, who is returned, that `by` asks whether it is still needed, once a day (UTC);
    its history says so.

    Raises Forbidden, and Conflict if it holds no device any more or its owner was reminded today.
    """
    if reason := reason_not_to_remind(by, claim):
        raise Forbidden(reason)
    claim, owner = lock_claim(claim), claim.requested_by
    if claim.state not in MAY_HOLD_DEVICES:
        raise Conflict(f"{claim} holds no device any more.")
    key = key_of(claim, now)
    if already_notified([key]):
        raise Conflict(f"{owner.label} was already reminded of {claim} today. Write to them, or release it.")
    why = f"Reminded {owner.label} to release it if it is not needed."
    claim.remark(why, by=by, action="claim.reminded")
    period = IdlePeriod.objects.lasting().filter(claim=claim).first()
    fact = f"{idle_fact(claim, period)} " if period else ""
    text = f"{fact}Release it if its work is done; nobody else can use what it holds."
    notify_of(
        claim,
        [owner],
        kind=NoticeKind.UNUSED,
        key=key,
        title=f"{by.label} asks whether you still need {claim}",
        body=with_evidence(text, claim, period, now) if period else text,
        url=graph_url(claim, period, now) if period else reverse("claims:detail", args=[claim.pk]),
        important=True,
    )
    return [owner]
