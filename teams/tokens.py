"""API authentication: bearer tokens, stored as SHA-256 (256 random bits need no slow hash), and sessions."""

import hashlib
import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from core.errors import Invalid
from core.origin import Source, came_from
from core.times import require_date, utc_moment
from teams.models import ApiToken, User, record_change

PREFIX = "drg_"
PREFIX_LENGTH = 10  # characters shown in lists
DEFAULT_LIFETIME = timedelta(days=90)
MAX_LIFETIME = timedelta(days=365)
LAST_USED_PRECISION = timedelta(minutes=1)  # at most one write per token and minute


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(
    *, by: User, title: str, expires_at: datetime | None = None, made_with: ApiToken | None = None
) -> tuple[ApiToken, str]:
    """
    Create a token; return its row and its text, which is not stored.

    A token made with another one ends with it at the latest. Raises Invalid for an expiry in the past, after
    a year, or after that of `made_with`.
    """
    now = timezone.now()
    latest = made_with.expires_at if made_with else None
    if expires_at is None:
        expires_at = min(filter(None, (now + DEFAULT_LIFETIME, latest)))
    require_date(expires_at)
    if expires_at <= now:
        raise Invalid("Choose an expiry in the future.", field="expires_at")
    if expires_at > now + MAX_LIFETIME:
        raise Invalid(f"A token lasts at most {MAX_LIFETIME.days} days.", field="expires_at")
    if latest and expires_at > latest:
        raise Invalid(
            f"The token of this request expires on {utc_moment(latest)}; one that it creates cannot "
            "last longer.",
            field="expires_at",
        )
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiToken.objects.create(
            user=by,
            title=title,
            digest=digest(text),
            start=text[:PREFIX_LENGTH],
            expires_at=expires_at,
            made_with=made_with,
        )
        record_change(by=by, of=row, change="created")
    return row, text


@transaction.atomic
def revoke_token(*, by: User, token: ApiToken) -> None:
    """Revoke a token of `by` at once, with those made with it. Repeating it keeps the first time."""
    ApiToken.objects.filter(pk=token.pk, user=by).revoke(by=by)


def find_token(text: str) -> ApiToken | None:
    """Return the valid token with this text and its user, and record its use; None if there is none."""
    now = timezone.now()
    valid = ApiToken.objects.select_related("user").filter(
        Q(expires_at=None) | Q(expires_at__gt=now), digest=digest(text), revoked_at=None, user__is_active=True
    )
    token = valid.first() if text.startswith(PREFIX) else None
    if token and (token.last_used_at is None or now - token.last_used_at >= LAST_USED_PRECISION):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer drg_…` (RFC 6750). Other schemes are ignored."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _space, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        token = find_token(text.strip().decode("latin-1"))
        if token is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        came_from(Source.TOKEN, token.title, token.start)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Dragoman"'


class Session(SessionAuthentication):
    """DRF's, listed after BearerToken so that a missing login answers 401 instead of 403."""
