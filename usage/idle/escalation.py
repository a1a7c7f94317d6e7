"""
What is done about idle claims, step by step: notify the owner, then the leads, then release; by the policy.

Each step is recorded in the history of the claim and taken once per idle time, however often the task runs.
Whoever snoozes a claim keeps it from the later steps for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import batched

from django.db import transaction
from django.db.models import Q, QuerySet

from claims.delivery.eviction import start_release
from claims.delivery.tasks import remove
from claims.models import Claim
from claims.models.limits import IDLE_PERCENT
from claims.notices import notify_of
from claims.states import ClaimState
from core.text import counted
from core.times import duration as in_words
from core.times import utc_moment
from core.transactions import after_commit
from notify.models import NoticeKind
from teams.access import people_in
from teams.models import Role, User
from usage.idle import periods
from usage.idle.evidence import evidence_text, graph_url
from usage.models import IdlePeriod, IdlePolicy

AT_ONCE = 200  # claims in memory
RELATED = ("team", "cluster", "requested_by", "profile_version")

type Step = Callable[[Claim, IdlePeriod, IdlePolicy, datetime], None]


def follow(now: datetime) -> None:
    """Store which claims are idle, and take every step that is due."""
    periods.refresh(now)
    policy, idle = IdlePolicy.load(), IdlePeriod.objects.lasting()
    awake = idle.filter(Q(snoozed_until=None) | Q(snoozed_until__lte=now))
    if policy.notify_owner_after is not None:
        due = idle.filter(owner_notified_at=None, since__lte=now - policy.notify_owner_after)
        _take(due, _notify_owner, policy, now)
    if policy.notify_leads_after is not None:
        due = awake.filter(lead_notified_at=None, since__lte=now - policy.notify_leads_after)
        _take(due, _notify_leads, policy, now)
    if policy.release_after is not None and policy.notify_leads_after is not None:
        # Leads have as long as the policy says between the two steps, also if it was changed meanwhile.
        notified_before = now - (policy.release_after - policy.notify_leads_after)
        due = awake.filter(lead_notified_at__lte=notified_before, since__lte=now - policy.release_after)
        _take(due, _release, policy, now)


def _take(due: QuerySet[IdlePeriod], step: Step, policy: IdlePolicy, now: datetime) -> None:
    """Take a step for each of these periods, in a transaction of its own."""
    for batch in batched(due.values_list("pk", "claim"), AT_ONCE):
        held = Claim.objects.filter(pk__in=[claim for _pk, claim in batch], state=ClaimState.ALLOCATED)
        claims = held.select_related(*RELATED).in_bulk()
        for pk, claim_id in batch:
            period = due.filter(pk=pk).first()  # another run may have taken the step meanwhile
            claim = claims.get(claim_id)
            if period is not None and claim is not None:
                with transaction.atomic():
                    step(claim, period, policy, now)


def idle_fact(claim: Claim, period: IdlePeriod) -> str:
    """Return since when its devices have been below which utilization."""
    which = "its device was" if period.devices == 1 else f"its {counted(period.devices, 'device')} were"
    below = claim.profile_version.idle_percent or IDLE_PERCENT
    return f"Since {utc_moment(period.since)} {which} below {below} % utilization."


def with_evidence(text: str, claim: Claim, period: IdlePeriod, now: datetime) -> str:
    """Return a text and, in lines of their own, the utilization of the last hours."""
    return "\n\n".join(part for part in (text, evidence_text(claim, period, now)) if part)


def _notify_owner(claim: Claim, period: IdlePeriod, policy: IdlePolicy, now: datetime) -> None:
    untold = IdlePeriod.objects.filter(pk=period.pk, owner_notified_at=None)
    if not untold.update(owner_notified_at=now):
        return  # by another run, at this moment
    idle_for = in_words(now - period.since)
    claim.remark(f"Idle for {idle_for}: owner notified.", action="claim.idle")
    until = f" until the claim ends on {utc_moment(claim.expires_at)}" if claim.expires_at else ""
    then = [""]
    if policy.notify_leads_after is not None:
        then.append(f"The leads of {claim.team} are notified after {in_words(policy.notify_leads_after)}.")
    if policy.release_after is not None:
        then.append(f"It is released after {in_words(policy.release_after)}, unless you snooze it.")
    notify_of(
        claim,
        kind=NoticeKind.UNUSED,
        key=f"idle:{claim.pk}:{period.since.isoformat()}",
        title=f"{claim} has been idle for {idle_for}",
        body=with_evidence(
            f"{idle_fact(claim, period)} Nobody else can use what it holds{until}. Release it if its work is "
            f"done.{' '.join(then)}",
            claim,
            period,
            now,
        ),
        url=graph_url(claim, period, now),
        important=True,
    )


def _notify_leads(claim: Claim, period: IdlePeriod, policy: IdlePolicy, now: datetime) -> None:
    leads = [lead for lead in people_in(claim.team, at_least=Role.LEAD) if lead.pk != claim.requested_by_id]
    people = leads or list(User.objects.filter(is_active=True, is_superuser=True))
    if not IdlePeriod.objects.filter(pk=period.pk, lead_notified_at=None).update(lead_notified_at=now):
        return
    idle_for = in_words(now - period.since)
    whom = "leads" if leads else "platform admins"
    claim.remark(f"Idle for {idle_for}: {whom} notified.", action="claim.idle")
    then = ""
    if policy.release_after is not None:
        then = f" The portal releases it after {in_words(policy.release_after)}, unless it is snoozed."
    notify_of(
        claim,
        people,
        kind=NoticeKind.UNUSED,
        key=f"idle-leads:{claim.pk}:{period.since.isoformat()}",
        team_id=claim.team_id if leads else None,
        title=f"{claim} of {claim.requested_by.label} has been idle for {idle_for}",
        body=with_evidence(
            f"{idle_fact(claim, period)} {claim.requested_by.label} was notified. Ask whether its work is "
            f"done, or release it.{then}",
            claim,
            period,
            now,
        ),
        url=graph_url(claim, period, now),
        important=True,
    )


def _release(claim: Claim, period: IdlePeriod, policy: IdlePolicy, now: datetime) -> None:
    idle_for = in_words(now - period.since)
    if not start_release(claim, why=f"Idle for {idle_for}; released by the policy for idle claims."):
        return
    after_commit(remove, str(claim.pk))
    notify_of(
        claim,
        [claim.requested_by, *people_in(claim.team, at_least=Role.LEAD)],
        kind=NoticeKind.UNUSED,
        key=f"idle-released:{claim.pk}:{period.since.isoformat()}",
        title=f"{claim} was released: it was idle for {idle_for}",
        body=f"{idle_fact(claim, period)} You can request the same again from its page.",
        important=True,
    )
