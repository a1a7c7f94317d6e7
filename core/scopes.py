"""
Scopes of API tokens: what a token may do of what its owner may.

Every operation of the API needs one scope. Reading needs `read`; a view or a handler that writes says what
it needs with `@needs(Scope.REQUEST)`. An operation that says nothing needs `admin`, and a test refuses it.
Who is signed in with a session has no scopes and is not limited by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allauth.account.app_settings import REAUTHENTICATION_TIMEOUT
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from core.errors import Forbidden


class Scope(models.TextChoices):
    """In the order in which pages and answers list them. Every token may read."""

    READ = "read", "Read"
    REQUEST = "request", "Request"
    APPROVE = "approve", "Approve"
    ADMIN = "admin", "Administer"


MEANING = {
    Scope.READ: "see what you may see",
    Scope.REQUEST: "manage claims, request quota, manage its own tokens",
    Scope.APPROVE: "decide on requests, and delegate decisions",
    Scope.ADMIN: "all other changes, and what only platform admins may do",
}


class ScopeMissing(Forbidden):
    """The token has not the scope that the operation needs: 403, as in RFC 6750, section 3.1."""

    code = "scope_missing"
    title = "The token does not allow this"

    def __init__(self, scope: Scope) -> None:
        sentence = f"This needs a token with the scope “{scope}”. Create one under API tokens."
        super().__init__(sentence, scope=scope.value)
        challenge = f'Bearer realm="Dragoman", error="insufficient_scope", scope="{scope}"'
        self.headers = {"WWW-Authenticate": challenge}


def needs[T: Callable[..., Any]](scope: Scope, *, reading: bool = False) -> Callable[[T], T]:
    """
    Declare the scope of an operation, or of all operations of a view that write and declare none themselves;
    with `reading`, of those that read too.
    """

    def declared(of: T) -> T:
        of.needs_scope = scope  # type: ignore[attr-defined]
        if reading:
            of.reading_needs = scope  # type: ignore[attr-defined]
        return of

    return declared


def declared_scope(view: Any, method: str) -> Scope | None:
    """Return the scope that an operation of a view needs; None if it writes and declares none."""
    handler = getattr(view, getattr(view, "action", None) or method.lower(), None)
    if (scope := getattr(handler, "needs_scope", None)) is not None:
        return Scope(scope)
    if method in SAFE_METHODS:
        return Scope(getattr(view, "reading_needs", Scope.READ))
    scope = getattr(view, "needs_scope", None)
    return None if scope is None else Scope(scope)


class WithinScopes(BasePermission):
    """Refuse what the token of a request does not allow, before anything is looked up."""

    def has_permission(self, request: Request, view: Any) -> bool:
        token: Any = request.auth
        method = request.method or ""
        if getattr(view, "action", "") is None or method not in view.allowed_methods:
            return True  # 405
        if token is None:
            if method == "POST" and "token" in getattr(view, "shown_once", ()):
                require_recent_sign_in(request._request)
            return True
        needed = declared_scope(view, method) or Scope.ADMIN
        if needed not in token.scopes:
            raise ScopeMissing(needed)
        if getattr(view, "shown_once", None) and method not in SAFE_METHODS:
            require_current_text(token)
        return True


def require_recent_sign_in(request: HttpRequest) -> None:
    """Raise Forbidden for a session without password or second factor just now, as the pages ask for them."""
    if is_reauthentication_required(request, app="teams"):
        again = request.build_absolute_uri(reverse("account_reauthenticate"))
        raise Forbidden(
            f"A new token in a browser needs your password or second factor again: open {again}, and repeat "
            f"this within {REAUTHENTICATION_TIMEOUT // 60} minutes. Or send a token instead."
        )


def require_current_text(token: Any) -> None:
    """Raise Forbidden for the text of a token from before its rotation, which a thief may have."""
    if token.by_previous:
        raise Forbidden(
            f"This is the text of “{token.title}” from before its rotation: it neither makes, rotates nor "
            "revokes anything that is shown once. Send the new text."
        )
