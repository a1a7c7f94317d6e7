"""Who is behind an API request: a bearer token, or the session of the browser."""

from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from teams.models import ApiToken, User
from teams.tokens import token_of


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
