"""
Notices about requests, comments and delegations.

Each notice has the key of its event, so a person gets it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.urls import reverse

from claims.approvals.authority import (
    approval_stage,
    deciders_on,
    effective_rule_on,
    person_label,
)
from claims.approvals.rules import EffectiveRule
from claims.models import Claim, Comment, Delegation, QuotaRequest
from claims.notices import notify_of
from claims.plans.changes import claim_size
from claims.states import ClaimState
from core.times import utc_moment
from notify.models import NoticeKind
from notify.services import notify
from teams.models import User


def notify_deciders(
    claim: Claim, effective_rule: EffectiveRule | None = None, leads: Sequence[User] | None = None
) -> None:
    """
    Notify the people who decide on a pending request, or who give its second approval.

    `effective_rule` is the rule for the claim, `leads` the leads of its team and their delegates, if the
    caller has them.
    """
    effective_rule = effective_rule or effective_rule_on(claim)
    stage, first_approval = approval_stage(claim, effective_rule)
    body = [
        f"{claim.requested_by.label} requests {claim_size(claim)} for {claim.team}.",
        claim.reason,
        effective_rule.sentence,
    ]
    if first_approval is not None:
        body.append(f"{person_label(first_approval.by)} gave the first approval.")
    notify_of(
        claim,
        deciders_on(claim, effective_rule, leads),
        kind=NoticeKind.DECIDE,
        key=f"ask:{claim.pk}:{stage}:{claim.state_since.timestamp():.0f}:{claim.spec_hash[:8]}",
        title=f"{claim} waits for your decision",
        body=" ".join(filter(None, body)),
        url=reverse("claims:approval", args=[claim.pk]),
        important=True,
    )


def notify_decision(claim: Claim, *, changes: Iterable[str] = (), note: str = "") -> None:
    """
    Notify the requester of the decision: who decided, why, and the next step.

    `note` is what the approver wrote about the changes.
    """
    changes = list(changes)
    decider = person_label(claim.decided_by)
    if claim.state == ClaimState.DENIED:
        title = f"{claim} was denied"
        body = [f"Denied by {decider}:", claim.decision_note, "You can request it again from its page."]
    elif changes:
        title = f"{claim} was approved with changes"
        body = [
            f"{decider} changed it: {'; '.join(changes)}.",
            note,
            "If you cannot use it like this, release it: costs start only when a pod holds its devices.",
        ]
    else:
        title = f"{claim} was approved"
        body = [f"Approved by {decider}.", claim.decision_note]
    notify_of(
        claim,
        kind=NoticeKind.DECISION,
        key=f"decided:{claim.pk}:{claim.version}",
        title=title,
        body=" ".join(filter(None, body)),
        important=claim.state == ClaimState.DENIED or bool(changes),
    )


def notify_change(claim: Claim, by: User, changes: Iterable[str]) -> None:
    """Notify the requester that the request was changed and needs another approval."""
    notify_of(
        claim,
        kind=NoticeKind.DECISION,
        key=f"changed:{claim.pk}:{claim.spec_hash[:8]}:{int(claim.duration.total_seconds())}",
        title=f"{claim} was changed and still waits for approval",
        body=f"{by.label} changed it: {'; '.join(changes)}. You can withdraw it.",
        important=True,
    )


def notify_comment(comment: Comment, people: Iterable[User]) -> None:
    """Notify `people`, except its author, of a comment on a claim or quota request."""
    subject: Claim | QuotaRequest = comment.claim or comment.quota_request  # type: ignore[assignment]
    url = (
        reverse("claims:detail", args=[comment.claim_id]) + "#thread"
        if comment.claim_id
        else reverse("claims:quota_request_decision", args=[comment.quota_request_id])
    )
    notify(
        (person for person in people if person.pk != comment.by_id),
        kind=NoticeKind.COMMENT,
        key=f"comment:{comment.pk}",
        team_id=subject.team_id,
        title=(
            f"{comment.by.label} has a question about {subject}"
            if comment.question
            else f"{comment.by.label} commented on {subject}"
        ),
        body=comment.text,
        url=url,
        important=comment.question,
    )


def notify_delegate(delegation: Delegation) -> None:
    """Notify the delegate of whose requests they decide on, from when to when."""
    start, end = utc_moment(delegation.starts_at), utc_moment(delegation.ends_at)
    notify(
        [delegation.to],
        kind=NoticeKind.DECIDE,
        key=f"delegated:{delegation.pk}",
        team_id=delegation.team_id,
        title=f"You are the delegate of {delegation.lead.label} in {delegation.team}",
        body=f"From {start} to {end} you also decide on requests of {delegation.team}, except your own.",
        url=reverse("claims:delegations"),
        important=True,
    )
