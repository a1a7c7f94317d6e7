"""
Validates what a provider signs: ID tokens (OpenID Connect Core 1.0 §3.1.3.7) and logout tokens (OpenID
Connect Back-Channel Logout 1.0 §2.6).
"""

from __future__ import annotations

import hashlib
from typing import Any

import jwt
from django.core.cache import cache
from django.utils import timezone

from core.errors import PortalError
from core.text import is_text
from teams.identity.discovery import keys_to_try
from teams.identity.models import IdentityProvider

# Signed with a private key of the provider: never "none", and never with a secret that the portal has too.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
    "ES256K",
)
LEEWAY = 60  # seconds by which clocks may differ
MAX_TOKEN = 64 * 1024  # characters
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
# `typ` of the header (RFC 8725 §3.11): not every provider names that of a logout token.
PLAIN = frozenset(("", "jwt"))
LOGOUT_TYPES = PLAIN | {"logout+jwt"}
MAX_LOGOUT_AGE = 300  # seconds since a logout token was issued
MAX_SUBJECT = 255  # characters (OpenID Connect Core 1.0 §2)


class ProviderTokenRefused(PortalError):
    """A token that is not what it should be; the sentence says why, and has nothing of the token: 400."""

    code = "token-refused"
    status = 400
    title = "The token of the identity provider is refused"


def verified_claims(
    provider: IdentityProvider, token: str, *, required: tuple[str, ...], types: frozenset[str] = PLAIN
) -> dict[str, Any]:
    """
    Return the claims of a token that this provider signed for this portal.

    Checks its type, if the provider names one, so that a token of one kind does not pass for another;
    signature, issuer, audience, the party it was issued to, and times, with `LEEWAY`. Raises
    ProviderTokenRefused, ProviderUnavailable.
    """
    problem = "This is no signed token."
    try:
        header = jwt.get_unverified_header(token) if len(token) <= MAX_TOKEN else {}
    except jwt.PyJWTError:
        header = {}
    algorithm, kid = header.get("alg"), header.get("kid")
    if str(header.get("typ") or "").lower().removeprefix("application/") not in types:
        raise ProviderTokenRefused("This is a token of another kind.")
    if header and algorithm not in ALGORITHMS:
        problem = "The token is signed with an algorithm that the portal does not accept."
    elif header:
        problem = "The token is signed with a key that the provider does not publish."
        for key in keys_to_try(provider, kid if isinstance(kid, str) else None):
            if key.get("alg", algorithm) != algorithm:
                continue
            try:
                return _decoded(provider, token, key, str(algorithm), required)
            except jwt.InvalidSignatureError:
                problem = "The signature of the token is not that of the provider."
            except jwt.PyJWTError as error:
                problem = _reason(error)
                break
    raise ProviderTokenRefused(problem)


def _decoded(
    provider: IdentityProvider, token: str, key: dict[str, Any], algorithm: str, required: tuple[str, ...]
) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        jwt.PyJWK.from_dict(key, algorithm=algorithm),
        algorithms=[algorithm],
        audience=provider.client_id,
        leeway=LEEWAY,
        options={"require": list(required), "verify_iss": False},
    )
    if str(claims.get("iss", "")).rstrip("/") != provider.issuer:
        raise jwt.InvalidIssuerError
    if not is_text(claims):
        raise jwt.DecodeError
    audience = claims.get("aud")
    others = isinstance(audience, list) and len(audience) > 1
    if claims.get("azp", provider.client_id if not others else None) != provider.client_id:
        raise jwt.InvalidAudienceError
    return claims


REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "The token has expired."),
    (jwt.ImmatureSignatureError, "The token is not valid yet: compare the clocks of provider and portal."),
    (jwt.InvalidIssuerError, "The token is of another issuer."),
    (jwt.InvalidAudienceError, "The token was issued to another client."),
    (jwt.InvalidIssuedAtError, "The time of issue of the token is no number."),
)


def _reason(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"The token lacks the claim {error.claim}."
    return next((text for kind, text in REASONS if isinstance(error, kind)), "The token is malformed.")


def id_token_claims(provider: IdentityProvider, token: str) -> dict[str, Any]:
    """Return the claims of an ID token. Raises ProviderTokenRefused, ProviderUnavailable."""
    claims = verified_claims(provider, token, required=("iss", "sub", "aud", "exp", "iat"))
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or "\x00" in subject:
        raise ProviderTokenRefused(
            f"The token names nobody: its subject has 1 to {MAX_SUBJECT} characters and no NUL."
        )
    return claims


def session_of(sid: object) -> str:
    """Return what stands here for the `sid` of a token, "" for none: a long one as its digest, whole."""
    text = sid if isinstance(sid, str) else ""
    is_short = len(text) <= MAX_SUBJECT and "\x00" not in text
    return text if is_short else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def logout_claims(provider: IdentityProvider, token: str) -> tuple[str, str]:
    """
    Return (`sub`, `sid`) of a logout token, "" for what it does not name. Raises ProviderTokenRefused for one
    that is malformed, old or was used already; ProviderUnavailable.
    """
    required = ("iss", "aud", "iat", "exp", "jti", "events")
    claims = verified_claims(provider, token, required=required, types=LOGOUT_TYPES)
    events, jti = claims["events"], claims["jti"]
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise ProviderTokenRefused("The token is not about a logout.")
    if "nonce" in claims:
        raise ProviderTokenRefused("A logout token has no nonce.")
    subject, session = claims.get("sub", ""), claims.get("sid", "")
    if not all(isinstance(text, str) for text in (subject, session, jti)) or not (subject or session):
        raise ProviderTokenRefused("The token names neither a person nor a session.")
    age = timezone.now().timestamp() - float(claims["iat"])
    if age > MAX_LOGOUT_AGE + LEEWAY:
        raise ProviderTokenRefused(
            f"The token was issued {age:.0f} s ago; at most {MAX_LOGOUT_AGE} s are accepted."
        )
    used = hashlib.sha256(jti.encode()).hexdigest()
    if not cache.add(f"identity:logout:{provider.pk}:{used}", 1, MAX_LOGOUT_AGE + 2 * LEEWAY):
        raise ProviderTokenRefused("The token was used already.")
    return subject, session_of(session)
