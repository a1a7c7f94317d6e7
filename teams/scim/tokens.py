"""
The token of a provider: made, rotated, removed by platform admins; found with each request.

Its text is one of `teams.tokens`, so that secret scanners find it; it opens `/scim/v2/` and nothing else.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from core.errors import Conflict, Invalid
from core.origin import client_address
from core.times import utc_moment
from core.transactions import service
from teams.access import require_admin
from teams.identity.models import IdentityProvider
from teams.models import User, record_change
from teams.scim.models import ScimToken
from teams.tokens import (
    DEFAULT_OVERLAP,
    LAST_USED_PRECISION,
    OVERLAPS,
    START_LENGTH,
    digest,
    is_well_formed,
    new_text,
)


def create_scim_token(
    *, by: User, provider: IdentityProvider, overlap: timedelta = DEFAULT_OVERLAP
) -> tuple[ScimToken, str]:
    """
    Give a provider a token, or a new text for the one that it has; return it and the text, which is not
    stored. The text before works for `overlap`. Raises Forbidden, Invalid for another overlap, Conflict for
    a token that somebody else has made at this moment.
    """
    require_admin(by)
    if overlap not in OVERLAPS:
        raise Invalid("The token before works for 0, 1 hour, 1 day or 7 days more.", field="overlap")
    now, text = timezone.now(), new_text()
    before = ScimToken.objects.filter(provider=provider).first()
    keeps = bool(before and overlap)
    columns = {
        "digest": digest(text),
        "start": text[:START_LENGTH],
        "created_at": now,
        "last_used_at": None,
        "last_used_from": None,
        "previous_digest": before.digest if before and keeps else None,
        "previous_ends_at": now + overlap if keeps else None,
    }
    is_first = False
    with service:
        if before is None:
            _row, is_first = ScimToken.objects.get_or_create(provider=provider, defaults=columns)
        else:
            is_first = bool(ScimToken.objects.filter(pk=before.pk, digest=before.digest).update(**columns))
        if not is_first:
            raise Conflict(f"Somebody else has made a token of {provider.title} just now. Look again.")
        until = f"; the text before works until {utc_moment(now + overlap)}" if keeps else ""
        change = f"SCIM token rotated{until}" if before else "SCIM token created"
        record_change(by=by, of=provider, change=change)
    return ScimToken.objects.get(provider=provider), text


@service
def remove_scim_token(*, by: User, provider: IdentityProvider) -> None:
    """End SCIM of a provider; people and groups stay as they are. Repeating it changes nothing."""
    require_admin(by)
    if ScimToken.objects.filter(provider=provider).delete()[0]:
        change = "SCIM token removed"
        record_change(by=by, of=provider, change=change)


def find_scim_token(text: str, request: HttpRequest) -> ScimToken | None:
    """Return the valid token with its provider, None for any other text; note its use once a minute."""
    if not is_well_formed(text):
        return None
    now, found = timezone.now(), digest(text)
    tokens = ScimToken.objects.select_related("provider").defer("provider__sealed")
    token = tokens.filter(Q(digest=found) | Q(previous_digest=found, previous_ends_at__gt=now)).first()
    if token and (token.last_used_at is None or now - token.last_used_at >= LAST_USED_PRECISION):
        used = {"last_used_at": now, "last_used_from": client_address(request)}
        ScimToken.objects.filter(pk=token.pk).update(**used)
    return token
