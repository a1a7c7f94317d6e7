"""
Escalation: a request that leads have not decided in time waits for platform admins too.

How long leads have is part of the approval rule (`claims.approvals.rules`); a task looks every five minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import batched

from django.db import transaction
from django.db.models import F
from django.urls import reverse

from claims.approvals import pending
from claims.approvals.authority import approval_stage, deciders, without_requester
from claims.approvals.rules import Rules
from claims.models import Approval, Claim, Delegation
from claims.notices import notify_of
from claims.states import ClaimState
from core.times import duration
from notify.models import NoticeKind
from notify.services import resolve_others
from teams.models import User

AT_ONCE = 200  # undecided requests in memory


def escalate_overdue(now: datetime) -> int:
    """
    Escalate every request that has waited as long as its rule allows; return their number.

    Each request is escalated once. A request that only platform admins decide on is never escalated.
    Delegates need not remember a delegation that is over.
    """
    lasting = Delegation.objects.filter(ends_at__gt=now).values_list("pk", flat=True)
    resolve_others("delegated:", [f"delegated:{pk}" for pk in lasting])
    rules = Rules()
    undecided = Claim.objects.filter(state=ClaimState.REQUESTED, escalated_at=None)
    claims = undecided.select_related("team", "profile_version__profile", "requested_by").prefetch_related(
        "alternatives__profile_version__profile", "steps"
    )
    escalated = 0
    for batch in batched(list(undecided.values_list("pk", flat=True)), AT_ONCE):
        escalated += sum(_escalate(claim, rules, now) for claim in claims.filter(pk__in=batch))
    return escalated


def _escalate(claim: Claim, rules: Rules, now: datetime) -> bool:
    effective_rule = rules.for_claim(claim)
    escalate_after = effective_rule.escalate_after
    stage, _first_approval = approval_stage(claim, effective_rule)
    if escalate_after is None or stage == Approval.ADMIN or claim.state_since + escalate_after > now:
        return False
    with transaction.atomic():
        not_escalated = Claim.objects.filter(pk=claim.pk, state=ClaimState.REQUESTED, escalated_at=None)
        if not not_escalated.update(escalated_at=now, version=F("version") + 1):
            return False
        pending.refresh(claims=[claim.pk])
        admins = without_requester(deciders(claim.team, Approval.ADMIN), claim.requested_by, effective_rule)
        _notify_admins(claim, admins, waited=duration(now - claim.state_since))
    return True


def _notify_admins(claim: Claim, admins: Iterable[User], *, waited: str) -> None:
    """Notify platform admins that the leads have not decided in time."""
    notify_of(
        claim,
        admins,
        kind=NoticeKind.DECIDE,
        key=f"escalated:{claim.pk}",
        title=f"{claim} of {claim.team} has waited for a decision for {waited}",
        body=f"The leads of {claim.team} have not decided. Now it waits for you too.",
        url=reverse("claims:approval", args=[claim.pk]),
        important=True,
    )
