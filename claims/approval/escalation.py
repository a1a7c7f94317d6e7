"""Requests that leads leave undecided for longer than their rule allows: platform admins are asked too."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F

from claims.approval import announce
from claims.approval.approvals import able, deciders, stage_of
from claims.approval.rules import Rules
from claims.models import Approval, Claim
from claims.states import ClaimState
from core.times import duration


def escalate_overdue(now: datetime) -> int:
    """
    Escalate what has waited for as long as its rule says; return how many. Once per request, however often it
    runs. A request that platform admins decide anyway has nobody to go to.
    """
    rules = Rules()
    waiting = (
        Claim.objects.filter(state=ClaimState.REQUESTED, escalated_at=None)
        .select_related("team", "profile_version__profile", "requested_by")
        .prefetch_related("alternatives__profile_version__profile", "steps")
    )
    return sum(_escalate(claim, rules, now) for claim in waiting)


def _escalate(claim: Claim, rules: Rules, now: datetime) -> bool:
    ruling = rules.on(claim)
    span = ruling.escalate_after
    stage, _consent = stage_of(claim, ruling)
    if span is None or stage == Approval.ADMIN or claim.state_since + span > now:
        return False
    with transaction.atomic():
        mine = Claim.objects.filter(pk=claim.pk, state=ClaimState.REQUESTED, escalated_at=None)
        if not mine.update(escalated_at=now, version=F("version") + 1):
            return False
        admins = able(deciders(claim.team, Approval.ADMIN), claim.requested_by, ruling)
        announce.escalated(claim, admins, waited=duration(now - claim.state_since))
    return True
