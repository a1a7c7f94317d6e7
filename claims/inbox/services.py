"""Questions about a request, and answers. They pause nothing: who decides may still do so."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import F

from claims.approvals import notices
from claims.approvals.authority import deciders_on, may_decide
from claims.inbox.inbox import question_of
from claims.models import Claim, Comment, QuotaRequest, RequestStatus
from claims.states import ClaimState
from core.errors import Invalid, violated_constraint
from teams.access import require_role
from teams.models import Role, User

LONGEST = 2000  # characters


def comment_on_claim(*, claim: Claim, by: User, text: str, key: str) -> Comment:
    """
    Write under a claim. From somebody who may decide on it while it waits, it is a question to who asked.

    The same `key` of the same person says it once. Raises Http404, PermissionDenied for a viewer, Invalid.
    """
    _require_may_write(by, claim)
    claim = Claim.objects.select_related("team", "requested_by", "profile_version__profile").get(pk=claim.pk)
    waits = claim.state == ClaimState.REQUESTED
    question = waits and by != claim.requested_by and may_decide(by, claim)
    comment, made = _say(Comment(claim=claim, by=by, text=_sound(text, key), key=key, question=question))
    if made:
        asked = deciders_on(claim) if waits and by == claim.requested_by else []
        _tell(comment, claim.requested_by, asked)
    return comment


def comment_on_quota_request(*, quota_request: QuotaRequest, by: User, text: str, key: str) -> Comment:
    """Write under a request for quota, as under a claim."""
    require_role(by, quota_request.team, at_least=Role.MEMBER)
    waits = quota_request.answer == RequestStatus.WAITING
    question = waits and by.is_superuser and by != quota_request.asked_by
    comment, made = _say(
        Comment(quota_request=quota_request, by=by, text=_sound(text, key), key=key, question=question)
    )
    if made:
        _tell(comment, quota_request.asked_by, [])
    return comment


def _require_may_write(by: User, claim: Claim) -> None:
    require_role(by, claim.team, at_least=Role.MEMBER)


def _sound(text: str, key: str) -> str:
    if not key or len(key) > 80:
        raise Invalid("A line needs a key of 1 to 80 characters, so that sending it twice says it once.")
    text = text.strip()
    if not 0 < len(text) <= LONGEST:
        raise Invalid(f"Write from 1 to {LONGEST} characters; these are {len(text)}.")
    return text


def _say(comment: Comment) -> tuple[Comment, bool]:
    try:
        with transaction.atomic(durable=True):
            comment.save(force_insert=True)
            if comment.claim_id:
                Claim.objects.filter(pk=comment.claim_id).update(version=F("version") + 1)
    except IntegrityError as error:
        if violated_constraint(error) != "comment_once_per_key":
            raise
        return Comment.objects.get(by=comment.by, key=comment.key), False
    return comment, True


def _tell(comment: Comment, user_of: User, deciders: list[User]) -> None:
    """Tell who asked, and who asked them; of an answer to nobody's question, those who decide."""
    about = {"claim": comment.claim} if comment.claim_id else {"quota_request": comment.quota_request}
    thread = Comment.objects.filter(**about).exclude(pk=comment.pk).select_related("by")
    earlier = [line.by for line in thread if line.question]
    if comment.by == user_of:
        people = earlier if question_of(thread) is not None or earlier else deciders
    else:
        people = [user_of, *(earlier if not comment.question else [])]
    notices.said(comment, people)
