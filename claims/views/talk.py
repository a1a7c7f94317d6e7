"""The thread under a wish, for every page that shows it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from claims.approval.inbox import question_of
from claims.models import Answer, Claim, QuotaRequest
from claims.states import ClaimState
from teams.access import role_in
from teams.models import Role, User


def thread_of(about: Claim | QuotaRequest, user: User) -> dict[str, Any]:
    """Return its lines, the question that waits for an answer, and whether the reader may write."""
    lines = list(about.comments.select_related("by"))
    if isinstance(about, Claim):
        waits, asker = about.state == ClaimState.REQUESTED, about.requested_by
    else:
        waits, asker = about.answer == Answer.WAITING, about.asked_by
    role = role_in(user, about.team)
    return {
        "thread": lines,
        "thread_key": str(uuid4()),
        "question": question_of(lines) if waits else None,
        "asked_person": asker.label,
        "may_write": role is not None and role.rank >= Role.MEMBER.rank,
    }
