"""Ends by the clock: undecided requests, and claims that have had their time."""

from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext as _

from claims.models import Claim
from claims.states import ClaimState
from core.times import duration as in_words

RUNNING = (ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED)


def end_overdue(now: datetime) -> list[UUID]:
    """Move everything overdue on; return the ids of the claims whose objects are now to be deleted."""
    for claim in Claim.objects.filter(state=ClaimState.REQUESTED, decide_by__lte=now):
        why = _("Nobody decided within %(span)s.") % {"span": in_words(now - claim.state_since)}
        claim.advance(ClaimState.EXPIRED, why=why)
    ended = []
    for claim in Claim.objects.filter(state__in=RUNNING, expires_at__lte=now):
        why = _("Its time of %(span)s is over.") % {"span": in_words(claim.duration)}
        if claim.advance(ClaimState.RELEASING, why=why):
            ended.append(claim.pk)
    return ended
