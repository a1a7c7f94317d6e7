"""
Celery tasks of the portal: owners of API tokens are reminded 7 days and 1 day before a token expires, and
platform admins are told that the audit log was changed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from celery import shared_task
from django.urls import reverse
from django.utils import timezone

from core.times import utc_moment
from notify.models import NoticeKind
from notify.services import notify, resolve_others
from teams.audit.chain import Verification, verify_and_store
from teams.models import ApiToken, User

log = structlog.get_logger(__name__)

BEFORE = (timedelta(days=1), timedelta(days=7))


@shared_task
def remind_of_token_expiry() -> None:
    """Remind owners of API tokens that expire soon."""
    remind_of_expiry(timezone.now())


def remind_of_expiry(now: datetime) -> None:
    """
    Notify the owners of tokens that expire soon, those of service accounts their leads; never twice.

    A token that lives no longer than twice the time of a reminder gets none: who made it knows.
    """
    tokens = ApiToken.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + max(BEFORE))
    keys = []
    for token in tokens.select_related("user__service_of"):
        before = next(span for span in BEFORE if token.expires_at <= now + span)
        if token.expires_at - (token.rotated_at or token.created_at) <= 2 * before:
            continue
        keys.append(f"token-{token.pk}-{token.expires_at:%Y-%m-%dT%H:%M}-{before.days}")
        team = token.user.service_of
        whose = f"“{token.title}”" if team is None else f"“{token.title}” of {token.user.label}"
        page = reverse("teams:tokens")
        if team is not None:
            page = reverse("teams:account", args=[team.slug, token.user_id])
        notify(
            [token.user],
            kind=NoticeKind.TOKEN,
            key=keys[-1],
            team_id=None if team is None else team.pk,
            title=f"The API token {whose} expires on {utc_moment(token.expires_at)}",
            body="Rotate it: the new text lasts as long as this one did, which works for a day more.",
            url=page,
            important=True,
        )
    resolve_others("token-", keys)


@shared_task
def verify_audit_log() -> None:
    """Verify the whole chain; the page of the log shows the result, platform admins are told of a fault."""
    found = verify_and_store()
    if found.problem:
        log.error("audit_log_changed", problem=found.problem)
        tell_admins(found)


def tell_admins(found: Verification) -> None:
    """Notify platform admins of a fault of the audit log, once for each."""
    notify(
        User.objects.filter(is_superuser=True),
        kind=NoticeKind.PLATFORM,
        key=f"audit-log-{found.number}-{found.entry or ''}",
        title="The audit log was changed",
        body=f"{found.problem} Keep a copy of the database, and compare it with your SIEM and a backup.",
        url=reverse("audit:log"),
        important=True,
    )
