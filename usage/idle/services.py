"""What people do about idle claims: snooze one, and change the policy."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F

from claims.access import reason_not_to_release
from claims.models import Claim
from claims.models.limits import IDLE_AFTER
from claims.notices import resolve_idle
from core.errors import Conflict, Forbidden, Invalid
from core.text import counted
from core.times import duration as in_words
from core.times import utc_moment
from core.transactions import service
from teams.access import require_admin, require_role
from teams.models import Role, User, record_change
from usage.models import IdlePeriod, IdlePolicy

MAX_SNOOZES = 10
LONGEST_SNOOZE = timedelta(days=14)


@service
def snooze(*, claim: Claim, by: User, now: datetime) -> datetime:
    """
    Keep an idle claim from the later steps for a while, and return until when; who may release a claim may
    snooze it.

    Raises Forbidden, and Conflict if it is not idle, is snoozed already, or was snoozed as often as the
    policy allows.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    if reason := reason_not_to_release(by, claim, role):
        raise Forbidden(reason)
    period = IdlePeriod.objects.lasting().filter(claim=claim).first()
    if period is None:
        raise Conflict(f"{claim} is not idle any more, so there is nothing to snooze.")
    policy = IdlePolicy.load()
    if refusal := reason_not_to_snooze(period, policy, now):
        raise Conflict(f"{claim} cannot be snoozed: {refusal}")
    until = now + policy.snooze_for
    same = IdlePeriod.objects.lasting().filter(pk=period.pk, snoozes=period.snoozes)
    if not same.update(snoozed_until=until, snoozes=F("snoozes") + 1):
        raise Conflict(f"{claim} has changed in the meantime; look at it again.")
    claim.remark(f"Idle; snoozed until {utc_moment(until)}.", by=by, action="claim.snoozed")
    resolve_idle(claim.pk)
    return until


def reason_not_to_snooze(period: IdlePeriod, policy: IdlePolicy, now: datetime) -> str:
    """Return why an idle time cannot be snoozed, "" if it can."""
    if period.snoozed_until is not None and period.snoozed_until > now:
        return f"it is snoozed until {utc_moment(period.snoozed_until)}."
    if period.snoozes >= policy.snoozes:
        return f"it was snoozed {period.snoozes} of {counted(policy.snoozes, 'time')}."
    return ""


@service
def change_policy(
    *,
    by: User,
    notify_owner_after: timedelta | None,
    snoozes: int,
    snooze_for: timedelta,
    notify_leads_after: timedelta | None,
    release_after: timedelta | None,
) -> IdlePolicy:
    """
    Change what is done about idle claims, from the next run on.

    Raises Forbidden for everybody but platform admins, Invalid for times that contradict one another.
    """
    require_admin(by)
    for name, after in (("owner", notify_owner_after), ("leads", notify_leads_after)):
        if after is not None and after < IDLE_AFTER:
            raise Invalid(
                f"A claim is idle after {in_words(IDLE_AFTER)}; its {name} cannot be notified after "
                f"{in_words(after)}."
            )
    if release_after is not None and (notify_leads_after is None or release_after <= notify_leads_after):
        raise Invalid("A claim is released only some time after its leads were notified.")
    if not 0 <= snoozes <= MAX_SNOOZES:
        raise Invalid(f"A claim can be snoozed 0 to {MAX_SNOOZES} times; {snoozes} was sent.")
    if not timedelta(0) < snooze_for <= LONGEST_SNOOZE:
        raise Invalid(f"A snooze lasts at most {in_words(LONGEST_SNOOZE)}.")
    policy = IdlePolicy.load()
    before = _described(policy)
    policy.notify_owner_after, policy.notify_leads_after = notify_owner_after, notify_leads_after
    policy.release_after, policy.snoozes, policy.snooze_for = release_after, snoozes, snooze_for
    policy.save()
    after_change = _described(policy)
    values = [
        (label, old, new)
        for (label, old), (_label, new) in zip(before, after_change, strict=True)
        if old != new
    ]
    if values:
        record_change(by=by, of=policy, change="changed", values=values)
    return policy


def _described(policy: IdlePolicy) -> list[tuple[str, str]]:
    def after(span: timedelta | None) -> str:
        return "off" if span is None else f"after {in_words(span)}"

    return [
        ("Notify the owner", after(policy.notify_owner_after)),
        ("Snooze", f"{counted(policy.snoozes, 'time')}, {in_words(policy.snooze_for)} each"),
        ("Notify the leads", after(policy.notify_leads_after)),
        ("Release", after(policy.release_after)),
    ]
