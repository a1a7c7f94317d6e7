"""
Device login (RFC 8628): a program without a browser gets a token that a person allows in theirs.

The program asks for two codes. It shows the short one, which the person types on the page `/device/`, and
asks with the long one until they have decided. Codes are stored as SHA-256, last `LIFETIME` and work once.
Wrong short codes are counted by person and by address: of 20⁸ codes nobody guesses one of the few that wait.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.utils import timezone

from core.errors import Conflict, Invalid, PortalError
from core.rates import incremented
from core.scopes import Scope
from core.text import one_line
from core.transactions import service
from teams.audit.refusals import record_refused_code
from teams.models import ApiToken, DeviceLogin, Team, User, record_change
from teams.tokens import MAX_LIFETIME, create_token

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # of RFC 8628, section 6.1: no vowels, so no words, and no digits
CODE_LENGTH = 8
LIFETIME = timedelta(minutes=10)
INTERVAL = 5  # seconds between two questions of the program
KEEP = timedelta(days=1)  # rows, after their end
MAX_WRONG = 10  # codes in a period of LIFETIME, of one person or from one address


class NotAllowed(PortalError):
    """The program gets no token, or not yet: 400, with the code as `error` too (RFC 8628, section 3.5)."""

    status = 400
    title = "There is no token"

    def __init__(self, message: str) -> None:
        super().__init__(message, error=self.code)


class AuthorizationPending(NotAllowed):
    code = "authorization_pending"


class SlowDown(NotAllowed):
    code = "slow_down"


class AccessDenied(NotAllowed):
    code = "access_denied"


class ExpiredToken(NotAllowed):
    code = "expired_token"


class TooManyCodes(PortalError):
    code = "too-often"
    status = 429
    title = "Too many wrong codes"


@dataclass(frozen=True, slots=True)
class Started:
    """What the program gets: neither code is stored."""

    row: DeviceLogin
    device_code: str
    user_code: str


@service
def start(*, client: str, scopes: Collection[str], address: str | None) -> Started:
    """Begin the login of a program that names itself `client`."""
    now = timezone.now()
    DeviceLogin.objects.filter(expires_at__lt=now - KEEP).delete()
    device_code = secrets.token_urlsafe(32)
    letters = "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
    row = DeviceLogin.objects.create(
        device_digest=_digest(device_code),
        user_digest=_digest(letters),
        client=one_line(client),
        scopes=[scope.value for scope in Scope if scope in scopes or scope == Scope.READ],
        address=address,
        created_at=now,
        expires_at=now + LIFETIME,
        interval=INTERVAL,
    )
    return Started(row, device_code, f"{letters[:4]}-{letters[4:]}")


def find_waiting(user_code: str, *, by: User, address: str | None) -> DeviceLogin:
    """
    Return the login with this code that waits for a decision.

    Raises Invalid if there is none, TooManyCodes after `MAX_WRONG` wrong ones.
    """
    counts = [f"device:{who}" for who in (by.pk, address) if who]
    if any(cache.get(key, 0) >= MAX_WRONG for key in counts):
        minutes = LIFETIME // timedelta(minutes=1)
        raise TooManyCodes(f"{MAX_WRONG} wrong codes are the limit. Try again in {minutes} minutes.")
    letters = "".join(letter for letter in user_code.upper() if letter.isalpha())
    rows = DeviceLogin.objects.filter(user_digest=_digest(letters), allowed=None)
    row = rows.filter(expires_at__gt=timezone.now()).first()
    if row is None:
        for key in counts:
            incremented(key, LIFETIME.total_seconds())
        record_refused_code(by, "typed a code with which no program waits")
        raise Invalid(
            "No program waits with this code. Check the letters; a code lasts 10 minutes.", field="code"
        )
    return row


@service
def decide(
    *,
    by: User,
    login: DeviceLogin,
    allow: bool,
    scopes: Collection[str] = (),
    team: Team | None = None,
    lifetime: timedelta | None = None,
) -> None:
    """
    Allow the program a token of `by`, with those of the scopes that it asked for, or deny it.

    Raises Conflict if it was decided or has expired meanwhile.
    """
    if lifetime is not None and not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise Invalid(f"A token lasts at most {MAX_LIFETIME.days} days.", field="days")
    granted = [scope for scope in login.scopes if scope == Scope.READ or scope in scopes]
    waiting = DeviceLogin.objects.filter(pk=login.pk, allowed=None, expires_at__gt=timezone.now())
    if not waiting.update(
        decided_by=by, allowed=allow, scopes=granted, limited_to=team, lifetime=lifetime if allow else None
    ):
        raise Conflict("This login was decided or has expired in the meantime. Start it again.")
    verb = "allowed" if allow else "denied"
    values = [
        ("Asked from", "–", login.address or "unknown"),
        ("Scopes", ", ".join(login.scopes), ", ".join(granted) if allow else "–"),
    ]
    record_change(
        by=by, of=login, change=verb, values=values, action=f"device_login.{verb}", in_activity=False
    )


def answer(device_code: str) -> tuple[ApiToken, str]:
    """
    Return the token that a person has allowed, and its text, once.

    Raises NotAllowed: nobody has decided yet, the program asks too fast, it was denied, or its code is
    unknown, used or expired. The row is locked, so that of two questions at once only one gets a token.
    """
    now = timezone.now()
    with service:
        rows = DeviceLogin.objects.select_for_update(no_key=True, of=("self",))
        login = (
            rows.select_related("decided_by", "limited_to").filter(device_digest=_digest(device_code)).first()
        )
        refusal = _refusal(login, now)
        if refusal is None and login is not None and login.decided_by is not None:
            DeviceLogin.objects.filter(pk=login.pk).update(used_at=now)
            return _token_for(login, login.decided_by, now)
        if login is not None and login.allowed is None:
            too_fast = isinstance(refusal, SlowDown)
            interval = login.interval + (INTERVAL if too_fast else 0)
            DeviceLogin.objects.filter(pk=login.pk).update(asked_at=now, interval=min(interval, 60))
    if login is None:
        record_refused_code(AnonymousUser(), "a program sent an unknown code")
    raise refusal or ExpiredToken("This code is unknown. Start the login again.")


def _token_for(login: DeviceLogin, person: User, now: datetime) -> tuple[ApiToken, str]:
    try:
        return create_token(
            by=person,
            title=login.client,
            scopes=login.scopes,
            team=login.limited_to,
            expires_at=None if login.lifetime is None else now + login.lifetime,
        )
    except PortalError as refusal:  # who allowed it has left the team since
        raise AccessDenied(refusal.message) from refusal


def _refusal(login: DeviceLogin | None, now: datetime) -> NotAllowed | None:
    if login is None or login.used_at is not None or login.expires_at <= now:
        return ExpiredToken("This code is unknown, used or expired. Start the login again.")
    if login.allowed is False or (login.decided_by is not None and not login.decided_by.is_active):
        return AccessDenied("The login was denied.")
    if login.allowed:
        return None
    if login.asked_at is not None and now - login.asked_at < timedelta(seconds=login.interval):
        wait = min(login.interval + INTERVAL, 60)
        return SlowDown(f"Ask every {wait} s.")
    return AuthorizationPending("Nobody has allowed or denied it yet.")


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
