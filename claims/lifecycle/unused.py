"""Reminders of claims that hold quota and that no pod uses."""

from datetime import datetime, timedelta

from django.urls import reverse

from claims.models import Claim
from claims.notices import notify_of
from claims.states import ClaimState
from core.times import duration as in_words
from core.times import utc_moment
from notify.models import NoticeKind
from notify.services import already_notified

SOONEST, LATEST = timedelta(hours=1), timedelta(days=1)


def remind_after(duration: timedelta) -> timedelta:
    """Return how long a claim may wait for a pod: a quarter of its duration, within SOONEST and LATEST."""
    return min(max(duration / 4, SOONEST), LATEST)


def remind_of_pods(now: datetime) -> None:
    """Notify owners of claims that have waited for a pod for long, once per wait; one query without any."""
    waiting = Claim.objects.filter(state=ClaimState.PROVISIONED, state_since__lte=now - SOONEST)
    due = {
        f"unused:{claim.pk}:{claim.state_since.isoformat()}": claim
        for claim in waiting.select_related("team", "cluster", "requested_by")
        if claim.state_since <= now - remind_after(claim.duration)
        and (claim.expires_at is None or claim.expires_at > now)  # its end is told otherwise
    }
    notified = already_notified(due)
    for key, claim in due.items():
        if (key, claim.requested_by_id) not in notified:
            _notify(claim, key, now)


def _notify(claim: Claim, key: str, now: datetime) -> None:
    until = f" until {utc_moment(claim.expires_at)}" if claim.expires_at else ""
    notify_of(
        claim,
        kind=NoticeKind.UNUSED,
        key=key,
        title=f"{claim} has been waiting for a pod for {in_words(now - claim.state_since)}",
        body=(
            f"No pod in {claim.cluster} uses it. Nothing is billed, but it counts against the quota of "
            f"{claim.team}{until}. Start a pod that uses it, or release it."
        ),
        url=f"{reverse('claims:detail', args=[claim.pk])}#snippets",
        important=True,
    )
