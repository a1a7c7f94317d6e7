"""Which drafts a person has, and when they are forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet

from claims.models import Claim, Draft
from teams.models import User

KEPT = timedelta(days=30)  # after somebody last typed


def unsent(by: User) -> QuerySet[Draft]:
    """
    Return the drafts of a person, the newest first.

    One that was saved in the very instant in which it was sent is none, though its row may still be there.
    """
    sent = Claim.objects.filter(requested_by=by, key=OuterRef("key"))
    return Draft.objects.filter(~Exists(sent), by=by)


def forget_drafts(now: datetime) -> int:
    """Forget what nobody has touched for 30 days; return how many that were."""
    return Draft.objects.filter(updated_at__lt=now - KEPT).delete()[0]
