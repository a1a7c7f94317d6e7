"""API authentication: bearer tokens, stored as SHA-256 (256 random bits need no slow hash), and sessions."""

import hashlib
import secrets
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from core.errors import Invalid
from core.times import require_date
from teams.models import ApiToken, User

PREFIX = "drg_"
PREFIX_LENGTH = 10  # characters shown in lists
LAST_USED_PRECISION = timedelta(minutes=1)  # at most one write per token and minute


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(*, by: User, title: str, expires_at: datetime | None) -> tuple[ApiToken, str]:
    """Create a token; return its row and its text, which is not stored. Raises Invalid for a past expiry."""
    require_date(expires_at)
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("Choose an expiry in the future.", field="expires_at")
    text = PREFIX + secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        user=by, title=title, digest=digest(text), start=text[:PREFIX_LENGTH], expires_at=expires_at
    )
    return row, text


def revoke_token(*, by: User, token: ApiToken) -> None:
    """Revoke a token at once. Repeating it keeps the first time."""
    ApiToken.objects.filter(pk=token.pk, user=by, revoked_at=None).update(revoked_at=timezone.now())


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
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Dragoman"'


class Session(SessionAuthentication):
    """DRF's, listed after BearerToken so that a missing login answers 401 instead of 403."""
