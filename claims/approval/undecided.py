"""Since when each wish waits that somebody has to decide on: the number beside Approvals, and on Home."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from claims.approval.approvals import Desk
from claims.models import Answer, Claim, Extension, QuotaRequest
from claims.states import ClaimState
from teams.models import User

# Who is asked depends on none of these, and they are most of the bytes of a row.
UNREAD = ("spec", "asked", "reason", "decision_note", "profile_version__spec")
RELATED = ("team", "profile_version__profile")
PARTS = ("alternatives__profile_version__profile", "steps__by")


def asked_at(user: User) -> list[datetime]:
    """
    Return when each wish that waits for `user` was made, oldest first.

    They are those of `claims.approval.inbox`. Every page counts them, so no more is read than it takes to
    tell whose they are.
    """
    desk = Desk(user)
    if not (user.is_superuser or desk.teams):
        return []
    # Only platform admins decide outside the teams that they lead or stand in for.
    places: dict[str, Any] = {} if user.is_superuser else {"team__in": desk.teams}
    claims = Claim.objects.filter(state=ClaimState.REQUESTED, **places)
    claims = claims.select_related(*RELATED).defer(*UNREAD).prefetch_related(*PARTS)
    found = [claim.created_at for claim in claims if desk.is_asked(claim)]
    of_claims = {f"claim__{name}": value for name, value in places.items()}
    extensions = Extension.objects.filter(answer=Answer.WAITING, **of_claims)
    extensions = extensions.select_related(*_of_claim(RELATED)).defer(*_of_claim(UNREAD))
    found += [
        one.asked_at
        for one in extensions.prefetch_related(*_of_claim(PARTS))
        if desk.is_asked(one.claim, asked_by=one.asked_by_id)
    ]
    if user.is_superuser:
        requests = QuotaRequest.objects.filter(answer=Answer.WAITING).exclude(asked_by=user)
        found += requests.values_list("asked_at", flat=True)
    return sorted(found)


def undecided() -> int:
    """Return how many wishes of all kinds and teams nobody has decided yet."""
    waiting = (model.objects.filter(answer=Answer.WAITING).count() for model in (Extension, QuotaRequest))
    return Claim.objects.filter(state=ClaimState.REQUESTED).count() + sum(waiting)


def _of_claim(names: Iterable[str]) -> list[str]:
    return [f"claim__{name}" for name in names]
