"""Comments on claims and quota requests; a comment can be a question, which never blocks the decision."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q

from claims.approvals import notices
from claims.approvals.authority import deciders_on, may_decide
from claims.models import Claim, Comment, QuotaRequest, RequestStatus
from claims.states import ClaimState
from core.errors import Invalid, violated_constraint
from core.idempotency import KeyUsed
from core.transactions import service
from notify.services import resolve
from teams.access import require_role
from teams.models import Role, User

MAX_LENGTH = 2000  # characters
MAX_KEY_LENGTH = 80

# An unanswered question: nobody else has commented since.
LATER = Q(at__gt=OuterRef("at")) | Q(at=OuterRef("at"), pk__gt=OuterRef("pk"))
ANSWERS = Comment.objects.filter(LATER, claim=OuterRef("claim")).exclude(by=OuterRef("by"))
OPEN_QUESTION = Comment.objects.filter(~Exists(ANSWERS.order_by()), claim=OuterRef("pk"), question=True)


def open_question(comments: Iterable[Comment]) -> Comment | None:
    """Return the last question without a later comment by somebody else, None if there is none."""
    question: Comment | None = None
    for comment in comments:
        if comment.question:
            question = comment
        elif question is not None and comment.by_id != question.by_id:
            question = None
    return question


@service
def comment_on_claim(*, claim: Claim, by: User, text: str, key: str) -> Comment:
    """
    Comment on a claim. From somebody who may decide on a pending claim, it is a question to its requester.

    A second call with the same `key` returns the first comment. Raises Http404, PermissionDenied for a
    viewer, Invalid.
    """
    require_role(by, claim.team, at_least=Role.MEMBER)
    claim = Claim.objects.select_related("team", "requested_by", "profile_version__profile").get(pk=claim.pk)
    pending = claim.state == ClaimState.REQUESTED
    question = pending and by != claim.requested_by and may_decide(by, claim)
    comment = Comment(claim=claim, by=by, text=_clean_text(text, key), key=key, question=question)
    comment, created = _save_once(comment)
    if created:
        deciders = deciders_on(claim) if pending and by == claim.requested_by else []
        _notify(comment, claim.requested_by, deciders)
    return comment


@service
def comment_on_quota_request(*, quota_request: QuotaRequest, by: User, text: str, key: str) -> Comment:
    """Comment on a quota request, as on a claim."""
    require_role(by, quota_request.team, at_least=Role.MEMBER)
    pending = quota_request.status == RequestStatus.WAITING
    question = pending and by.is_superuser and by != quota_request.requested_by
    comment = Comment(
        quota_request=quota_request, by=by, text=_clean_text(text, key), key=key, question=question
    )
    comment, created = _save_once(comment)
    if created:
        _notify(comment, quota_request.requested_by, [])
    return comment


def _clean_text(text: str, key: str) -> str:
    if not key or len(key) > MAX_KEY_LENGTH:
        raise Invalid(f"A comment needs a key of 1 to {MAX_KEY_LENGTH} characters, so that it is saved once.")
    text = text.strip()
    if not 0 < len(text) <= MAX_LENGTH:
        raise Invalid(f"Write 1 to {MAX_LENGTH} characters; this text has {len(text)}.", field="text")
    return text


def _save_once(comment: Comment) -> tuple[Comment, bool]:
    """Save the comment; return it, or the one with its key, and whether it is new."""
    try:
        with transaction.atomic():
            comment.save(force_insert=True)
            if comment.claim_id:
                Claim.objects.filter(pk=comment.claim_id).update(version=F("version") + 1)
    except IntegrityError as error:
        if violated_constraint(error) != "comment_once_per_key":
            raise
        earlier = Comment.objects.get(by=comment.by, key=comment.key)
        about = ("text", "claim_id", "quota_request_id")
        if any(getattr(earlier, name) != getattr(comment, name) for name in about):
            raise KeyUsed("another comment") from error
        return earlier, False
    return comment, True


def _notify(comment: Comment, requester: User, deciders: list[User]) -> None:
    """
    Notify the other side of a comment.

    A comment of the requester goes to everybody who asked a question, else to `deciders`; a question goes to
    the requester; any other comment to the requester and everybody who asked.
    """
    subject = {"claim": comment.claim} if comment.claim_id else {"quota_request": comment.quota_request}
    earlier = Comment.objects.filter(**subject).exclude(pk=comment.pk).select_related("by")
    questioners = [previous.by for previous in earlier if previous.question]
    if comment.by == requester:
        people = questioners or deciders
    else:
        people = [requester, *([] if comment.question else questioners)]
    if comment.by == requester:  # the questions so far are answered
        resolve(*(f"comment:{previous.pk}" for previous in earlier if previous.question))
    notices.notify_comment(comment, people)
