"""
Sessions: one query reads a session with its user, their roles and the settings of the installation, which
nearly every page needs.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends import db
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from core.models import Installation
from core.prepared import Prepared, Statement
from teams.access import TEAM_FIELDS, USER_FIELDS, roles_from_rows
from teams.models import User

INSTALLATION_FIELDS = ("name", "currency", "timezone", "logo_digest")
UUID_PATTERN = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[|]"


def _session(key: str, now: datetime) -> Statement:
    user = ", ".join(f'"user"."{name}"' for name in USER_FIELDS)
    team = ", ".join(f'team."{name}"' for name in TEAM_FIELDS)
    installation = ", ".join(INSTALLATION_FIELDS)
    sql = """
        SELECT session_data, (
            SELECT json_agg(json_build_array(role, {team}) ORDER BY slug)::text
            FROM teams_membership JOIN teams_team team ON team.id = team_id WHERE user_id = "user".id
        ), (SELECT json_build_array({installation})::text FROM core_installation), {user}
        FROM django_session LEFT JOIN teams_user "user" ON "user".id = CASE
            WHEN session_data ~ '{pattern}' THEN split_part(session_data, '|', 1)::uuid END
        WHERE session_key = %s AND expire_date > %s"""
    return sql.format(team=team, installation=installation, user=user, pattern=UUID_PATTERN), (key, now)


SESSION = Prepared(_session, str, datetime)


class SessionStore(db.SessionStore):
    """
    Django's sessions in the database. The id of the user stands before the signed text, to join the user;
    `request_user` trusts it only if Django would return the same user.
    """

    user: User | None = None
    installation: Installation | None = None

    def encode(self, session_dict: dict[str, Any]) -> str:
        return f"{session_dict.get(auth.SESSION_KEY, '')}|{super().encode(session_dict)}"

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        text = session_data if isinstance(session_data, str) else session_data.decode()
        return super().decode(text.rpartition("|")[2])

    def load(self) -> dict[str, Any]:
        """Return the data of a session, {} if it is unknown or over, and keep what was read with it."""
        for data, roles, installation, *values in SESSION.rows(self.session_key, timezone.now()):
            fields = json.loads(installation) if installation else ()
            self.installation = Installation(**dict(zip(INSTALLATION_FIELDS, fields, strict=False)))
            if values[USER_FIELDS.index("id")] is not None:
                self.user = User.from_db("default", USER_FIELDS, values)
                rows = json.loads(roles or "[]")
                self.user.roles_read = roles_from_rows((role, UUID(pk), *team) for role, pk, *team in rows)
            return self.decode(data)
        self._session_key = None
        return {}


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
