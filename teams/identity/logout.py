"""
Back-channel logout (OpenID Connect Back-Channel Logout 1.0): a provider tells that somebody has signed out
there, and their sessions here end.

The logout token is the only credential. It is refused with 400 and a sentence in `error_description`.
"""

from __future__ import annotations

import structlog
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST

from core.errors import PortalError
from teams.identity.models import IdentityProvider
from teams.identity.people import Identity, linked_person
from teams.identity.tokens import ProviderTokenRefused, logout_claims
from teams.models import User, record
from teams.sessions import end_provider_sessions

log = structlog.get_logger(__name__)


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
