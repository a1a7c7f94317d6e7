"""
Signing out at both ends.

Back-channel logout (OpenID Connect Back-Channel Logout 1.0): a provider tells that somebody has signed out
there, and their sessions here end. The logout token is the only credential. It is refused with 400 and a
sentence in `error_description`.

RP-Initiated Logout (OpenID Connect RP-Initiated Logout 1.0): who signs out here is led to the provider, which
signs them out too and leads back. The session here is over before, whatever the provider does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import structlog
from allauth.account.views import LogoutView
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST

from cluster.credentials import seal_fields, unseal_fields
from core.errors import Invalid, PortalError
from teams.access import user_of
from teams.identity.discovery import ProviderUnavailable, metadata, schemes
from teams.identity.models import IdentityGrant, IdentityProvider
from teams.identity.people import Identity, linked_person
from teams.identity.suspension import GRACE, may_suspend, note_sign_out
from teams.identity.tokens import ProviderTokenRefused, logout_claims
from teams.models import Session, User, record
from teams.sessions import PROVIDER_SESSION, end_provider_sessions

log = structlog.get_logger(__name__)

# What a browser keeps of pages (W3C Clear Site Data): not the cookies, of which the theme is one.
CLEARED = '"cache", "storage"'
MAX_HINT = 4096  # characters of an ID token that an address carries; servers take 8 KiB of one


@sensitive_post_parameters("logout_token")
@sensitive_variables("token")
@csrf_exempt
@login_not_required
@never_cache
@require_POST
def back_channel_logout(request: HttpRequest, provider_id: str) -> HttpResponse:
    """End the sessions that a logout token of the provider names; 404 unless it is enabled."""
    provider = IdentityProvider.objects.filter(slug=provider_id, enabled=True).first()
    if provider is None:
        raise Http404
    token = request.POST.get("logout_token", "")
    try:
        ended = end_named_sessions(provider, token)
    except PortalError as refusal:
        log.warning("logout_refused", provider=provider.slug, reason=refusal.message)
        code = "invalid_request" if isinstance(refusal, ProviderTokenRefused) else "temporarily_unavailable"
        error = {"error": code, "error_description": refusal.message}
        return JsonResponse(error, status=refusal.status)
    log.info("logged_out_by_provider", provider=provider.slug, sessions=ended)
    return HttpResponse()


@sensitive_variables("token")
def end_named_sessions(provider: IdentityProvider, token: str) -> int:
    """
    End the session of `sid`, or all that its person began through the provider; return how many.

    Raises ProviderTokenRefused, ProviderUnavailable.
    """
    subject, sid = logout_claims(provider, token)
    person = linked_person(provider, Identity(subject)) if subject else None
    if person is None and not sid:
        return 0  # of somebody who never signed in here
    note_sign_out(provider, person, sid)
    ended = end_provider_sessions(provider.slug, sid=sid, person=person)
    if ended:
        record(
            by=None,
            action="session.ended",
            kind="user" if person else "identityprovider",
            object_id=str((person or provider).pk),
            name=person.username if isinstance(person, User) else provider.slug,
            text=f"signed out at {provider.title}: {ended} of their sessions ended",
        )
    return ended


@sensitive_variables()
def sealed_id_token(provider: IdentityProvider, id_token: str) -> str:
    """Return the ID token of a sign-in as it is stored until the sign-out, "" where that does not need it."""
    if not provider.signs_out or len(id_token) > MAX_HINT:
        return ""
    return seal_fields({"id_token": id_token}).decode()


class SignOut(LogoutView):
    """allauth's page that signs out; who came through a provider is led there to sign out too."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        provider, _hint = _provider_of_session(self.request)
        context: dict[str, Any] = super().get_context_data(**kwargs)
        if provider and end_session_address(self.request, provider, ""):
            context |= {"provider": provider.title, "tokens_stop": _tokens_stop(self.request, provider)}
        return context

    @sensitive_variables("hint")
    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        provider, hint = _provider_of_session(self.request)
        tokens_stop = _tokens_stop(self.request, provider) if provider else None
        person, sid = self.request.user, str(self.request.session.get(PROVIDER_SESSION, ""))
        response: HttpResponse = super().post(*args, **kwargs)
        address = end_session_address(self.request, provider, hint) if provider else ""
        response["Clear-Site-Data"] = CLEARED
        if provider is None or not address:
            return response
        if isinstance(person, User):
            note_sign_out(provider, person, sid)
        # A page and not a redirect: CSP `form-action` is checked for redirects of the sign-out form too.
        page = {
            "url": address,
            "provider": provider.title,
            "is_sign_out": True,
            "tokens_stop": tokens_stop,
        }
        page_response = render(self.request, "teams/identity/continue.html", page)
        page_response["Refresh"] = f"0; url={address}"
        page_response["Clear-Site-Data"] = CLEARED
        return page_response


@sensitive_variables()
def _provider_of_session(request: HttpRequest) -> tuple[IdentityProvider | None, str]:
    """Return the provider through which a session began, if it signs people out, and the ID token or ""."""
    session: Any = request.session
    if not request.user.is_authenticated or not session.signed_in_with:
        return None, ""
    provider = IdentityProvider.objects.filter(
        slug=session.signed_in_with, enabled=True, signs_out=True
    ).first()
    if provider is None:
        return None, ""
    sealed = Session.objects.filter(pk=session.session_key).values_list("sealed_id_token", flat=True).first()
    try:
        return provider, str(unseal_fields(sealed)["id_token"]) if sealed else ""
    except (Invalid, KeyError):
        return provider, ""  # the key that sealed it is gone: the provider asks whom to sign out


def _tokens_stop(request: HttpRequest, provider: IdentityProvider) -> datetime | None:
    """Return when API tokens stop without another sign-in: the refresh token ends with the session there."""
    bound = IdentityGrant.objects.filter(
        provider=provider, user=request.user.pk, due_at__isnull=False, is_offline=False
    )
    stops = bound.exists() and may_suspend(provider, user_of(request))
    return timezone.now() + GRACE if stops else None


@sensitive_variables("hint")
def end_session_address(request: HttpRequest, provider: IdentityProvider, hint: str) -> str:
    """Return where the browser goes to sign out at the provider, "" if it has no such address or is away."""
    try:
        endpoint = metadata(provider).get("end_session_endpoint")
    except ProviderUnavailable as problem:
        log.warning("provider_unavailable", provider=provider.slug, problem=problem.message)
        return ""
    if not isinstance(endpoint, str) or not endpoint.startswith(schemes()):
        return ""
    parts = urlsplit(endpoint)
    query = {
        "client_id": provider.client_id,
        "post_logout_redirect_uri": request.build_absolute_uri(reverse("account_login")),
    }
    if hint:
        query["id_token_hint"] = hint
    return parts._replace(query="&".join(filter(None, (parts.query, urlencode(query))))).geturl()
