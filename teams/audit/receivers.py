"""What allauth and Django tell of sign-ins and second factors, for the audit log."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.signals import (
    authentication_failed,
    authenticator_added,
    authenticator_removed,
    authenticator_reset,
)
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import Q
from django.dispatch import receiver

from teams.models import User, record


def _record_person(
    action: str, person: User, *, by: User | AnonymousUser | None = None, text: str = ""
) -> None:
    record(
        by=by or person,
        action=action,
        kind="user",
        object_id=str(person.pk),
        name=person.username,
        text=text,
    )


@receiver(user_logged_in, dispatch_uid="teams.audit")
def record_sign_in(*, user: User, **_: Any) -> None:
    _record_person("session.signed_in", user, text="signed in")


@receiver(user_logged_out, dispatch_uid="teams.audit")
def record_sign_out(*, user: User | None, **_: Any) -> None:
    if user is not None:  # else the session was over already
        _record_person("session.signed_out", user, text="signed out")


@receiver(user_login_failed, dispatch_uid="teams.audit")
def record_failed_sign_in(*, credentials: dict[str, Any], **_: Any) -> None:
    """
    Record it with the account; a name that nobody has is not stored, since people type passwords there.

    `ACCOUNT_RATE_LIMITS` bounds how many there are.
    """
    login = str(credentials.get("username") or credentials.get("email") or "")
    person = User.objects.filter(Q(username=login) | Q(email__iexact=login)).first() if login else None
    if person is None:
        text = "wrong password, or no such account"
        record(by=AnonymousUser(), action="session.failed", kind="user", name="unknown name", text=text)
    else:
        text = "wrong password" if person.is_active else "the account is deactivated"
        _record_person("session.failed", person, by=AnonymousUser(), text=text)


@receiver(authentication_failed, dispatch_uid="teams.audit")
def record_wrong_code(*, user: User, reauthentication: bool = False, **_: Any) -> None:
    by = user if reauthentication else AnonymousUser()
    _record_person("second_factor.failed", user, by=by, text="wrong code of the second factor")


SECOND_FACTOR = {
    authenticator_added: ("second_factor.added", "added"),
    authenticator_removed: ("second_factor.removed", "removed"),
    authenticator_reset: ("second_factor.reset", "renewed"),
}


@receiver(list(SECOND_FACTOR), dispatch_uid="teams.audit")
def record_second_factor(*, signal: Any, user: User, authenticator: Authenticator, **_: Any) -> None:
    action, what = SECOND_FACTOR[signal]
    kind = Authenticator.Type(authenticator.type).label
    _record_person(action, user, text=f"{what} a second factor: {kind}")
