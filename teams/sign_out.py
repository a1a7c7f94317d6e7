"""
Signing out elsewhere: one of one's own sessions, all but this one; for platform admins all of a person.
"""

from __future__ import annotations

from django.db.models import QuerySet

from core.text import counted
from core.transactions import service
from teams.access import require_admin
from teams.models import Session, User, record_change
from teams.sessions import end_sessions, going_on


def sessions_of(person: User) -> QuerySet[Session]:
    """Return where a person is signed in, the one seen last first."""
    return going_on().filter(user=person).order_by("-last_seen_at", "pk")


@service
def sign_out(*, by: User, session: Session) -> None:
    """End one session of `by`. Repeating it changes nothing."""
    if Session.objects.filter(pk=session.pk, user=by).delete()[0]:
        _record(by, by, f"ended a session: {session.browser}")


@service
def sign_out_others(*, by: User, here: str | None) -> int:
    """End the sessions of `by`, except that with the key `here`; return how many were not over."""
    if ended := end_sessions(by, but=here):
        what = "other session" if here else "session"
        _record(by, by, f"ended {counted(ended, what)}")
    return ended


@service
def sign_out_person(*, by: User, person: User) -> int:
    """End all sessions of a person; return how many were not over. Their tokens stay. Raises Forbidden."""
    require_admin(by)
    if ended := end_sessions(person):
        _record(by, person, f"ended {counted(ended, 'session')}")
    return ended


def _record(by: User, person: User, change: str) -> None:
    record_change(by=by, of=person, change=change, action="session.ended", in_activity=by != person)
