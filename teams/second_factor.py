"""
Who has to set up a second factor before anything else (`Installation.second_factor`).

It is about people who sign in with a password of the portal: an identity provider has its own rules, and API
tokens are not affected. The session was read with what this needs, so it costs no query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from core.models import SecondFactor

LOCAL = frozenset(("", "password", "passkey"))  # ways of signing in that are the portal's own
# What stays open meanwhile: setting one up, the frame of that page, and leaving.
OPEN = frozenset(("account_reauthenticate", "account_logout", "teams:theme"))


def lacks_second_factor(request: HttpRequest) -> bool:
    """Return whether the person of this session has to set up a second factor first; no query."""
    user: Any = request.user
    session: Any = request.session
    required = getattr(getattr(session, "installation", None), "second_factor", "")
    if not required or not user.is_authenticated or session.has_second_factor:
        return False
    return session.signed_in_with in LOCAL and (required == SecondFactor.ALL or user.is_superuser)


class SecondFactorMiddleware:
    """Leads them to the page on which they do, from every other one. `teams.tokens` refuses at the API."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], *_arguments: object
    ) -> HttpResponse | None:
        if request.path.startswith("/api/") or not getattr(view, "login_required", True):
            return None
        if not lacks_second_factor(request):
            return None
        request.lacks_second_factor = True  # type: ignore[attr-defined]  # the page says why
        name = request.resolver_match.view_name if request.resolver_match else ""
        if name in OPEN or name.startswith("mfa_"):
            return None
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=204)  # parts of the frame fetch themselves again
        return redirect("mfa_index")
