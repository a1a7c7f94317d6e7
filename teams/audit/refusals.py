"""
Refusals in the audit log: writes that somebody may not make, and tokens and codes that open nothing.

Nobody may fill the log with them. Of one kind, one person (or one address, for who is not signed in) adds at
most one entry in `EVERY`; the next entry says how many more there were. What no other follows is only in the
log of requests.
"""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from http import HTTPStatus

from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.http import HttpRequest
from django.utils import timezone

from core.origin import current_origin
from core.rates import incremented
from teams.models import AuditEntry, User, record

EVERY = timedelta(minutes=1)
KEPT = timedelta(days=1)  # how long what was not recorded is counted
REFUSED = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
SAFE = ("GET", "HEAD", "OPTIONS")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def record_refusal(
    *, by: User | AnonymousUser, action: str, kind: str, name: str, text: str, object_id: str = ""
) -> None:
    """
    Record that something was refused, unless the same person or address was so in the last minute.

    While the cache is away, the log itself is asked.
    """
    origin = current_origin(by=by)
    who = str(by.pk) if by.is_authenticated else hashlib.sha256((origin.address or "").encode()).hexdigest()
    mark, uncounted = f"refused:{action}:{who}", f"refused-more:{action}:{who}"
    if not cache.add(mark, 1, EVERY.total_seconds()):
        incremented(uncounted, KEPT.total_seconds())
        return
    recent = AuditEntry.objects.filter(action=action, at__gt=timezone.now() - EVERY)
    recent = recent.filter(by=by) if by.is_authenticated else recent.filter(by=None, address=origin.address)
    if recent.exists():
        return
    more = cache.get(uncounted, 0)
    cache.delete(uncounted)
    values = [("More of these since the entry before", "–", str(more))] if more else []
    record(by=by, action=action, kind=kind, name=name, text=text, object_id=object_id, values=values)


def record_refused_write(request: HttpRequest, status: int) -> None:
    """Record a write that somebody signed in may not make, or of what they may not know of."""
    match = request.resolver_match
    if request.method in SAFE or status not in REFUSED or match is None or not request.user.is_authenticated:
        return
    ids = [text for value in match.kwargs.values() if UUID.fullmatch(text := str(value))]
    record_refusal(
        by=request.user,
        action="request.refused",
        kind="request",
        name=f"{request.method} {match.view_name}",
        text="may not do this" if status == HTTPStatus.FORBIDDEN else "not found, or hidden from this person",
        object_id=ids[0] if ids else "",
    )


def record_refused_token(start: str) -> None:
    """
    Record a text that is no valid token; `start` are the first characters of what looks like one, else "".

    Of other texts nothing is recorded: they may be a secret of somewhere else.
    """
    record_refusal(
        by=AnonymousUser(),
        action="token.refused",
        kind="apitoken",
        name=start or "no token of the portal",
        text="sent a token that is unknown, expired or revoked" if start else "sent what is no token",
    )


def record_refused_code(by: User | AnonymousUser, what: str) -> None:
    """Record a wrong code of a device login: typed by a person, or sent by a program."""
    record_refusal(by=by, action="device_login.failed", kind="devicelogin", name="unknown code", text=what)
