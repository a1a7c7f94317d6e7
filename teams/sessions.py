"""
Sessions of browsers: read, written, and ended before their time. One query reads a session with its user,
their roles and the settings of the installation, which nearly every page needs.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import CreateError, UpdateError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from core.models import Installation
from core.origin import client_address
from core.prepared import Prepared, Statement
from teams.access import TEAM_FIELDS, USER_FIELDS, roles_from_rows
from teams.models import Session, User

INSTALLATION_FIELDS = ("name", "currency", "timezone", "logo_digest", "second_factor")
# Where a sign-in with a provider leaves the provider's own id of the session (`sid` of OpenID Connect).
PROVIDER_SESSION = "provider_session"
PASSKEY = "passkey"
SEEN_PRECISION = timedelta(hours=1)  # at most one write per session and hour
# However often a session is saved, it ends so long after the sign-in.
LONGEST = timedelta(seconds=settings.SESSION_COOKIE_AGE)
# What a page that is only open sends by itself; it does not keep a session alive (static/dragoman/js/app.js).
BY_ITSELF = "X-By-Itself"


def _session(key: str, now: datetime, used_after: datetime, begun_after: datetime) -> Statement:
    user = ", ".join(f'"user"."{name}"' for name in USER_FIELDS)
    team = ", ".join(f'team."{name}"' for name in TEAM_FIELDS)
    installation = ", ".join(INSTALLATION_FIELDS)
    sql = f"""
        SELECT session_data, last_seen_at, signed_in_with, EXISTS (
            SELECT FROM mfa_authenticator factor WHERE factor.user_id = "user".id AND type <> 'recovery_codes'
        ), (
            SELECT json_agg(json_build_array(role, {team}) ORDER BY slug)::text
            FROM teams_membership JOIN teams_team team ON team.id = team_id WHERE user_id = "user".id
        ), (SELECT json_build_array({installation})::text FROM core_installation), {user}
        FROM teams_session session LEFT JOIN teams_user "user" ON "user".id = user_id
        WHERE session_key = %s AND expire_date > %s AND last_seen_at > %s
            AND session.created_at > %s"""  # noqa: S608 - names of columns
    return sql, (key, now, used_after, begun_after)


SESSION = Prepared(_session, str, datetime, datetime, datetime)


class SessionStore(db.SessionStore):
    """
    Django's sessions in the database, in rows that name the person. `request_user` trusts that only if the
    signed text names the same one.
    """

    user: User | None = None
    installation: Installation | None = None
    last_seen_at: datetime | None = None
    signed_in_with = ""
    has_second_factor = False
    seen: dict[str, Any] | None = None  # columns to save, where they are new

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def load(self) -> dict[str, Any]:
        """Return the data of a session, {} if it is unknown or over, and keep what was read with it."""
        now = timezone.now()
        found = SESSION.rows(self.session_key, now, now - settings.SESSION_IDLE, now - LONGEST)
        for data, self.last_seen_at, self.signed_in_with, has_factor, roles, installation, *values in found:
            self.has_second_factor = has_factor
            fields = json.loads(installation) if installation else ()
            self.installation = Installation(**dict(zip(INSTALLATION_FIELDS, fields, strict=False)))
            if values[USER_FIELDS.index("id")] is not None:
                self.user = User.from_db("default", USER_FIELDS, values)
                rows = json.loads(roles or "[]")
                self.user.roles_read = roles_from_rows((role, UUID(pk), *team) for role, pk, *team in rows)
            return self.decode(data)
        self._session_key = None
        return {}

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's signature
        """Save the data, and in columns of their own whose session it is and how they signed in."""
        if self.session_key is None:
            self.create()
            return
        data: dict[str, Any] = self._get_session(no_load=must_create)  # type: ignore[attr-defined]
        columns = {
            "session_data": self.encode(data),
            "expire_date": self.get_expiry_date(),
            "user_id": data.get(auth.SESSION_KEY),
            "signed_in_with": way_of_sign_in(data),
            "provider_session": str(data.get(PROVIDER_SESSION, "")),
            **(self.seen or {}),
        }
        if not must_create:
            if not Session.objects.filter(pk=self.session_key).update(**columns):
                raise UpdateError
            return
        try:
            with transaction.atomic():
                Session.objects.create(session_key=self.session_key, **columns)
        except IntegrityError as error:
            if Session.objects.filter(pk=self.session_key).exists():
                raise CreateError from error
            raise


def way_of_sign_in(data: dict[str, Any]) -> str:
    """Return "password", "passkey" or the slug of a provider: what allauth noted first, "" without a note."""
    for record in data.get(AUTHENTICATION_METHODS_SESSION_KEY) or ():
        if record["method"] == "socialaccount":
            return str(record.get("provider", ""))[:60]
        return PASSKEY if record["method"] == "mfa" else str(record["method"])[:60]
    return ""


def going_on() -> QuerySet[Session]:
    """Return the sessions that are not over: neither expired, nor idle, nor too old."""
    now = timezone.now()
    return Session.objects.filter(
        expire_date__gt=now, last_seen_at__gt=now - settings.SESSION_IDLE, created_at__gt=now - LONGEST
    )


def remove_ended_sessions() -> int:
    """Delete the sessions that are over; return how many."""
    now = timezone.now()
    over = Q(expire_date__lte=now) | Q(last_seen_at__lte=now - settings.SESSION_IDLE)
    return Session.objects.filter(over | Q(created_at__lte=now - LONGEST)).delete()[0]


def seen_precision() -> timedelta:
    """Return how old `last_seen_at` may get: a session ends by so much too early, and never too late."""
    return min(SEEN_PRECISION, settings.SESSION_IDLE / 12)


def columns_seen(request: HttpRequest) -> dict[str, Any]:
    """Return the columns that say when and from where a session was used last."""
    return {
        "last_seen_at": timezone.now(),
        "address": client_address(request),
        "user_agent": request.META.get("HTTP_USER_AGENT", "").replace("\x00", "")[:300],
    }


@receiver(user_logged_in)
def note_client(sender: object, request: HttpRequest, **more: Any) -> None:
    """Save with the session from where its person has signed in."""
    request.session.seen = columns_seen(request)  # type: ignore[attr-defined]


def end_sessions(person: User, *, but: str | None = None) -> int:
    """End the sessions of a person, except that with the key `but`; return how many were not over."""
    return _end(going_on().filter(user=person).exclude(session_key=but or ""))


def end_provider_sessions(provider: str, *, sid: str = "", person: User | None = None) -> int:
    """
    End the sessions that began with a sign-in at this provider, by its slug: the one of its `sid`, those of
    the person whom its subject stands for, or both (OpenID Connect Back-Channel Logout 1.0 §2.6).

    Return how many were not over. Raises ValueError without both.
    """
    if not sid and person is None:
        raise ValueError("A sid or a person is required.")
    sessions = going_on().filter(signed_in_with=provider)
    sessions = sessions.filter(provider_session=sid) if sid else sessions
    return _end(sessions.filter(user=person) if person else sessions)


def _end(sessions: QuerySet[Session]) -> int:
    return sessions.delete()[0]


def request_user(request: HttpRequest) -> User | AnonymousUser:
    """Return the user who was read with the session, if it is valid for them; else what Django returns."""
    session: Any = request.session
    user_id = session.get(auth.SESSION_KEY)
    user: User | None = session.user
    is_valid = (
        user is not None
        and user.is_active
        and str(user.pk) == user_id
        and session.get(auth.BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS
        and constant_time_compare(session.get(auth.HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    )
    is_active = BY_ITSELF not in request.headers
    if is_valid and is_active and timezone.now() - session.last_seen_at >= seen_precision():
        Session.objects.filter(pk=session.session_key).update(**columns_seen(request))
    found = user if user is not None and is_valid else auth.get_user(request)
    is_account = isinstance(found, User) and found.is_service_account  # which uses tokens and never signs in
    return AnonymousUser() if is_account else found


def installation_for(request: HttpRequest) -> Installation:
    """Return the settings of the installation: those read with the session, else in one query."""
    session: Any = getattr(request, "session", None)
    if session is not None:
        session.get(auth.SESSION_KEY)  # reads the session, if nothing has
    return getattr(session, "installation", None) or Installation.load()


class UserMiddleware(AuthenticationMiddleware):
    """Django's, with the user who was read with the session."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: request_user(request))  # type: ignore[assignment]
