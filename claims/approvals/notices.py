"""
Notices while a request is decided, and escalation to platform admins. Each names its event, so it is sent
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.urls import reverse

from claims.approvals import authority
from claims.approvals.authority import able, deciders, stage_of
from claims.approvals.rules import Rules
from claims.models import Approval, Claim, Comment, Delegation, QuotaRequest
from claims.plans.changes import claim_size
from claims.states import ClaimState
from core.times import duration, moment_with_zone
from notify.services import notify
from teams.models import User


def asked(claim: Claim) -> None:
    """Tell those who decide of a request that waits; of the second consent, those who give it."""
    ruling = authority.ruling_on(claim)
    stage, consent = authority.stage_of(claim, ruling)
    body = [
        f"{claim.requested_by.label} asks for {claim_size(claim)} for {claim.team}.",
        claim.reason,
        ruling.sentence,
    ]
    if consent is not None:
        body.append(f"{authority.label_of(consent.by)} has consented.")
    notify(
        authority.deciders_on(claim),
        key=f"ask:{claim.pk}:{stage}:{claim.state_since.timestamp():.0f}:{claim.spec_hash[:8]}",
        title=f"{claim} waits for your decision",
        body=" ".join(filter(None, body)),
        url=reverse("claims:approval", args=[claim.pk]),
        important=True,
    )


def decided(claim: Claim, *, changes: Iterable[str] = (), note: str = "") -> None:
    """
    Tell the asker what was decided, by whom, why, and what they can do now; `note` is what the approver adds
    to the changes.
    """
    said = list(changes)
    if claim.state == ClaimState.DENIED:
        title = f"{claim} is denied"
        body = [
            f"By {authority.label_of(claim.decided_by)}:",
            claim.decision_note,
            "You can ask again from its page.",
        ]
    elif said:
        title = f"{claim} is approved with changes"
        body = [
            f"{authority.label_of(claim.decided_by)} changed it: {'; '.join(said)}.",
            note,
            "If it is of no use so, release it: nothing is billed before a pod holds its devices.",
        ]
    else:
        title = f"{claim} is approved"
        body = [f"By {authority.label_of(claim.decided_by)}.", claim.decision_note]
    notify(
        [claim.requested_by],
        key=f"decided:{claim.pk}:{claim.version}",
        title=title,
        body=" ".join(filter(None, body)),
        url=reverse("claims:detail", args=[claim.pk]),
        important=claim.state == ClaimState.DENIED or bool(said),
    )


def changed(claim: Claim, by: User, changes: Iterable[str]) -> None:
    """Tell the asker that the request was changed and waits for another consent."""
    notify(
        [claim.requested_by],
        key=f"changed:{claim.pk}:{claim.spec_hash[:8]}:{int(claim.duration.total_seconds())}",
        title=f"{claim} was changed before it is decided",
        body=f"{by.label} changed it: {'; '.join(changes)}. You may withdraw it.",
        url=reverse("claims:detail", args=[claim.pk]),
        important=True,
    )


def escalated(claim: Claim, admins: Iterable[User], *, waited: str) -> None:
    """Tell platform admins that leads have had their time."""
    notify(
        admins,
        key=f"escalated:{claim.pk}",
        title=f"{claim} of {claim.team} is undecided for {waited}",
        body=f"The leads of {claim.team} have not decided; from now on you are asked too.",
        url=reverse("claims:approval", args=[claim.pk]),
        important=True,
    )


def said(comment: Comment, people: Iterable[User]) -> None:
    """Tell of a line in a thread those whom it is for."""
    about: Claim | QuotaRequest = comment.claim or comment.quota_request  # type: ignore[assignment]
    url = (
        reverse("claims:detail", args=[comment.claim_id]) + "#thread"
        if comment.claim_id
        else reverse("claims:quota_request_decision", args=[comment.quota_request_id])
    )
    notify(
        (person for person in people if person.pk != comment.by_id),
        key=f"comment:{comment.pk}",
        title=(
            f"{comment.by.label} asks about {about}"
            if comment.question
            else f"{comment.by.label} wrote about {about}"
        ),
        body=comment.text,
        url=url,
        important=comment.question,
    )


def delegated(row: Delegation) -> None:
    """Tell the stand-in for whom they decide, and until when."""
    values = {"lead": row.lead.label, "team": row.team}

    def body() -> str:
        when = {"from": moment_with_zone(row.starts_at), "to": moment_with_zone(row.ends_at)}
        said = "From %(from)s to %(to)s requests of %(team)s wait for you too, save your own."
        return said % (values | when)

    notify(
        [row.to],
        key=f"delegated:{row.pk}",
        title=f"You decide for {row.lead.label} in {row.team}",
        body=body,
        url=reverse("claims:away"),
        important=True,
    )


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
        escalated(claim, admins, waited=duration(now - claim.state_since))
    return True
