"""
API tokens: made, found, rotated and revoked; and the authentication of the API by token or session.

A token is `drg_`, 40 random characters and the CRC32 of these in 6 (base 62), as those of GitHub: a scanner
finds it, and a mistyped one is refused without a query. It is stored as its SHA-256: 238 random bits need no
slow hash.
"""

import hashlib
import json
import re
import secrets
import string
import zlib
from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from core.errors import Conflict, Forbidden, Invalid
from core.limits import limit_to_team
from core.origin import Source, came_from, client_address
from core.prepared import Prepared, Statement
from core.scopes import Scope, ScopeMissing, require_current_text
from core.times import require_date, utc_moment
from core.transactions import service
from teams.access import TEAM_FIELDS, USER_FIELDS, role_in, roles_from_rows
from teams.audit.refusals import record_refused_token
from teams.models import ApiToken, Team, User, record_token_change
from teams.second_factor import lacks_second_factor

PREFIX = "drg_"
RANDOM_LENGTH, CHECKSUM_LENGTH = 40, 6
PATTERN = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")  # for secret scanners
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
START_LENGTH = 10  # characters shown in lists
DEFAULT_LIFETIME = timedelta(days=90)
DEFAULT_SCOPES = (Scope.READ, Scope.REQUEST)
MAX_LIFETIME = timedelta(days=365)
LAST_USED_PRECISION = timedelta(minutes=1)  # at most one write per token and minute
# How long the text before a rotation works on.
OVERLAPS = (timedelta(0), timedelta(hours=1), timedelta(days=1), timedelta(days=7))
DEFAULT_OVERLAP = timedelta(days=1)


# Texts.


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def new_text() -> str:
    random = "".join(secrets.choice(DIGITS) for _ in range(RANDOM_LENGTH))
    return f"{PREFIX}{random}{checksum(random)}"


def checksum(random: str) -> str:
    """Return the CRC32 of the random part in base 62, with leading zeros."""
    value, digits = zlib.crc32(random.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        value, digit = divmod(value, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def is_well_formed(text: str) -> bool:
    """Return whether this can be a token: its prefix, length and checksum."""
    if PATTERN.fullmatch(text) is None:
        return False
    return text[-CHECKSUM_LENGTH:] == checksum(text[len(PREFIX) : -CHECKSUM_LENGTH])


# Making, rotating, revoking.


def create_token(
    *,
    by: User,
    title: str,
    scopes: Collection[str] = DEFAULT_SCOPES,
    team: Team | None = None,
    expires_at: datetime | None = None,
    made_with: ApiToken | None = None,
    account: User | None = None,
) -> tuple[ApiToken, str]:
    """
    Create a token of `by`, or of the service account `account`; return its row and its text, which is not
    stored. One that an account gets itself is not recorded: a pod gets one every hour.

    With `team` it is limited to that team of its user. A token made with another one never has more scopes,
    teams or time. Raises Invalid for an expiry in the past, after a year or after that of `made_with`, for an
    unknown scope and for a team that its user is not in; ScopeMissing, Forbidden for more than `made_with`.
    """
    owner = account or by
    chosen = _known(scopes)
    if account is not None:
        team = account.service_of
    elif team is not None and role_in(User(pk=owner.pk), team) is None:
        raise Invalid(f"{owner.username} is not a member of {team}.", field="team")
    if made_with is not None:
        if team is None and made_with.limited_to_id is not None:
            team = made_with.limited_to
        _require_within(made_with, chosen, team)
    expires_at = _expiry(expires_at, made_with)
    text = new_text()
    with service:
        _lock_maker(made_with)
        row = ApiToken.objects.create(
            user=owner,
            title=title,
            scopes=chosen,
            limited_to=team,
            digest=digest(text),
            start=text[:START_LENGTH],
            expires_at=expires_at,
            made_with=made_with,
        )
        where = team.slug if team else "all teams"
        values = [("May", "–", f"{', '.join(chosen)} in {where}")]
        if by != account:
            record_token_change(by=by, token=row, change="created", values=values)
    return row, text


def rotate_token(
    *,
    by: User,
    token: ApiToken,
    overlap: timedelta = DEFAULT_OVERLAP,
    end_made: bool = False,
    made_with: ApiToken | None = None,
) -> str:
    """
    Give a token a new text with the lifetime that it had; return the text, which is not stored. The one
    before works for `overlap`, an earlier one ends now. Tokens that it has made go on, unless `end_made`.

    With a token, `made_with`, the rotated one has no more scopes, teams or time than that, and ends with it,
    as one that it has made: whoever has that token has the new text. Raises Conflict for a token that was
    revoked, has expired, or was rotated meanwhile; Invalid for another overlap; ScopeMissing, Forbidden.
    """
    if overlap not in OVERLAPS:
        raise Invalid("The token before works for 0, 1 hour, 1 day or 7 days more.", field="overlap")
    now = timezone.now()
    if token.revoked_at or token.expires_at <= now:
        ended = "was revoked" if token.revoked_at else "has expired"
        raise Conflict(f"“{token.title}” {ended}. Create a new token.")
    expires_at = min(now + (token.expires_at - (token.rotated_at or token.created_at)), now + MAX_LIFETIME)
    if made_with is not None:
        _require_within(made_with, token.scopes, token.limited_to)
        expires_at = min(expires_at, made_with.expires_at)
    elif token.made_with is not None:
        expires_at = min(expires_at, token.made_with.expires_at)
    maker = made_with if made_with is not None and made_with.pk != token.pk else token.made_with
    text = new_text()
    with service:
        _lock_maker(made_with)
        same = ApiToken.objects.filter(pk=token.pk, digest=token.digest, revoked_at=None)
        rotated = same.update(
            digest=digest(text),
            start=text[:START_LENGTH],
            rotated_at=now,
            expires_at=expires_at,
            made_with=maker,
            previous_digest=token.digest if overlap else None,
            previous_ends_at=min(now + overlap, token.expires_at) if overlap else None,
        )
        if not rotated:
            raise Conflict(f"“{token.title}” was rotated or revoked in the meantime. Look again.")
        ended = f"; the text before works until {utc_moment(now + overlap)}" if overlap else ""
        record_token_change(by=by, token=token, change=f"rotated{ended}")
        if end_made:
            made = ApiToken.objects.filter(made_with=token).exclude(pk=(made_with or token).pk)
            made.revoke(by=by, reason="the token that made it was rotated")
    return text


@service
def revoke_token(*, by: User, token: ApiToken, made_with: ApiToken | None = None) -> None:
    """
    Revoke a token of `by` at once, with those made with it. Repeating it keeps the first time. With a token,
    `made_with`, only what has no more scopes or teams than that: ScopeMissing, Forbidden for others.
    """
    if made_with is not None:
        _require_within(made_with, token.scopes, token.limited_to)
    ApiToken.objects.filter(pk=token.pk, user=by).revoke(by=by)


def _known(scopes: Collection[str]) -> list[str]:
    if unknown := sorted(set(scopes) - set(Scope.values)):
        known = ", ".join(Scope.values)
        raise Invalid(f"Unknown scope {', '.join(unknown)}. Known: {known}.", field="scopes")
    return [scope.value for scope in Scope if scope in scopes or scope == Scope.READ]


def _require_within(maker: ApiToken, scopes: Collection[str], team: Team | None) -> None:
    """
    Raise ScopeMissing or Forbidden if a token of these scopes and this team may do more than `maker`, or if
    the request has the text of `maker` from before its rotation.
    """
    require_current_text(maker)
    for scope in Scope:
        if scope in scopes and scope not in maker.scopes:
            raise ScopeMissing(scope)
    if maker.limited_to is not None and (team is None or team.pk != maker.limited_to_id):
        raise Forbidden(f"The token of this request is limited to {maker.limited_to}.")


def _lock_maker(maker: ApiToken | None) -> None:
    """Lock the token of the request: whoever revokes it finds what it makes. Raises Conflict if it was."""
    if maker is None:
        return
    rows = ApiToken.objects.select_for_update(no_key=True).filter(pk=maker.pk, revoked_at=None)
    if not rows.exists():
        raise Conflict("The token of this request was revoked in the meantime.")


def _expiry(expires_at: datetime | None, made_with: ApiToken | None) -> datetime:
    """Return the chosen expiry, or the default one. Raises Invalid."""
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
    return expires_at


# Authentication.

TOKEN_FIELDS = tuple(field.attname for field in ApiToken._meta.concrete_fields)


def _valid(text: str, now: datetime) -> Statement:
    """Return the query of a valid token with its user, and with their roles where the token is valid."""
    token = ", ".join(f'token."{name}"' for name in TOKEN_FIELDS)
    user = ", ".join(f'"user"."{name}"' for name in USER_FIELDS)
    team = ", ".join(f'team."{name}"' for name in TEAM_FIELDS)
    sql = f"""
        SELECT (
            SELECT json_agg(json_build_array(role, {team}) ORDER BY slug)::text
            FROM teams_membership JOIN teams_team team ON team.id = team_id
            WHERE user_id = "user".id AND (limited_to_id IS NULL OR team_id = limited_to_id)
        ), {token}, {user}
        FROM teams_apitoken token JOIN teams_user "user" ON "user".id = token.user_id
        WHERE (digest = %s OR previous_digest = %s AND previous_ends_at > %s)
            AND expires_at > %s AND revoked_at IS NULL AND is_active"""  # noqa: S608 - names of columns
    return sql, (text, text, now, now)


VALID = Prepared(_valid, str, datetime)


class TokensSuspended(AuthenticationFailed):
    """The identity provider of the token's user no longer vouches for them (`teams.identity.suspension`)."""


def find_token(text: str, request: HttpRequest | None = None) -> ApiToken | None:
    """
    Return the valid token with this text and its user, and record its use; None if there is none.

    The user has the roles that the token leaves them: in its team, and without its scope `admin` not as a
    platform admin. One query, none for a text that cannot be a token, and a write at most once a minute.
    Raises TokensSuspended.
    """
    if not is_well_formed(text):
        return None
    now = timezone.now()
    for roles, *values in VALID.rows(digest(text), now):
        split = len(TOKEN_FIELDS)
        token = ApiToken.from_db("default", TOKEN_FIELDS, values[:split])
        token.user = user = User.from_db("default", USER_FIELDS, values[split:])
        token.by_previous = token.digest != digest(text)
        if user.tokens_suspended_at is not None and user.tokens_suspended_at <= now:
            raise TokensSuspended(
                f"API tokens of {user.username} are suspended since {utc_moment(user.tokens_suspended_at)}: "
                "the identity provider does not renew the sign-in. Sign in through it in a browser, and they "
                "work again."
            )
        rows = json.loads(roles or "[]")
        user.roles_read = roles_from_rows((role, UUID(pk), *team) for role, pk, *team in rows)
        if token.limited_to_id is not None:
            if not user.roles_read:
                return None  # its user has left the team
            (token.limited_to,) = user.roles_read
        user.is_superuser &= Scope.ADMIN in token.scopes and token.limited_to_id is None
        if token.last_used_at is None or now - token.last_used_at >= LAST_USED_PRECISION:
            address = client_address(request) if request is not None else None
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now, last_used_from=address)
        return token
    return None


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer drg_…` (RFC 6750). Other schemes are ignored."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _space, sent = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        text = sent.strip().decode("latin-1")
        try:
            token = find_token(text, request._request)
        except TokensSuspended:
            record_refused_token(text[:START_LENGTH])
            raise
        if token is None:
            record_refused_token(text[:START_LENGTH] if is_well_formed(text) else "")
            raise AuthenticationFailed("The token is unknown, expired or revoked. Create another one.")
        came_from(Source.TOKEN, token.title, token.start)
        limit_to_team(token.limited_to_id)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge, with an error only for who has sent a token (RFC 6750 §3)."""
        sent = get_authorization_header(request).lower().startswith(b"bearer")
        return 'Bearer realm="Dragoman"' + (', error="invalid_token"' if sent else "")


class BrowserSession(SessionAuthentication):
    """
    DRF's, listed after BearerToken so that a missing login answers 401 instead of 403. Raises Forbidden for
    whoever has to set up a second factor first.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        found: tuple[User, None] | None = super().authenticate(request)
        if found and lacks_second_factor(request._request):
            raise Forbidden("Set up a second factor in a browser first: Profile → Two-factor authentication.")
        return found
