"""
Bearer tokens: how they are made, looked up and recognised in a request.

How bearer tokens are made and looked up. Only the SHA-256 is kept: 256 random bits need no slow hash.

Who is behind an API request: a bearer token, or the session of the browser.
"""

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
SHOWN = 10  # of the token, to recognise it by
USED_AT_MOST_EVERY = timedelta(minutes=1)  # one write a minute per token, not one per request


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(*, by: User, title: str, expires_at: datetime | None) -> tuple[ApiToken, str]:
    """Make a token; return its row and the text that is shown this once."""
    require_date(expires_at)
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("A token that expires in the past is of no use.", field="expires_at")
    text = PREFIX + secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        user=by, title=title, digest=digest(text), start=text[:SHOWN], expires_at=expires_at
    )
    return row, text


def revoke_token(*, by: User, token: ApiToken) -> None:
    """End a token at once. Repeating it changes nothing, the time least of all."""
    ApiToken.objects.filter(pk=token.pk, user=by, revoked_at=None).update(revoked_at=timezone.now())


def token_of(text: str) -> ApiToken | None:
    """Return the valid token behind the text with its user, noting the use; None if there is none."""
    now = timezone.now()
    valid = ApiToken.objects.select_related("user").filter(
        Q(expires_at=None) | Q(expires_at__gt=now), digest=digest(text), revoked_at=None, user__is_active=True
    )
    token = valid.first() if text.startswith(PREFIX) else None
    if token and (token.last_used_at is None or now - token.last_used_at >= USED_AT_MOST_EVERY):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer drg_…` (RFC 6750). A header of another scheme is left to others."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _space, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        token = token_of(text.strip().decode("latin-1"))
        if token is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Dragoman"'


class Session(SessionAuthentication):
    """As DRF's, but listed after the token so that a missing login answers 401, not 403."""
