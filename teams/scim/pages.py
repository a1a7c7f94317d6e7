"""Page of platform admins: SCIM of an identity provider, with its token."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from core.errors import PortalError, cleaned
from teams.access import user_of
from teams.identity.models import IdentityProvider
from teams.identity.views import provider_for
from teams.scim.groups import groups_of
from teams.scim.models import ScimToken
from teams.scim.people import people_of
from teams.scim.tokens import create_scim_token, remove_scim_token
from teams.token_views import RotateForm, ask_again


@dataclass(frozen=True, slots=True)
class ScimUse:
    """The token of a provider, if it has one, and how many people and groups it keeps."""

    token: ScimToken | None
    people: int
    groups: int

    @property
    def previous_ends_at(self) -> datetime | None:
        """Until when the text before the last rotation works, None if it does not."""
        ends = self.token.previous_ends_at if self.token else None
        return ends if ends and ends > timezone.now() else None


def scim_use(provider: IdentityProvider) -> ScimUse:
    """Return what there is; three queries."""
    token = ScimToken.objects.filter(provider=provider).first()
    return ScimUse(token, people_of(provider).count(), groups_of(provider).count())


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def provider_scim(request: HttpRequest, slug: str) -> HttpResponse:
    """Show address and token; POST makes a token, or gives the one that there is a new text."""
    provider, text, status = provider_for(request, slug), "", 200
    if request.method == "POST":
        overlap = cleaned(RotateForm(request.POST))["overlap"]
        ask_again(request)
        try:
            _token, text = create_scim_token(by=user_of(request), provider=provider, overlap=overlap)
        except PortalError as refusal:
            messages.error(request, refusal.message)
            status = refusal.status
    page: dict[str, Any] = {
        "provider": provider,
        "use": scim_use(provider),
        "rotate_form": RotateForm(),
        "text": text,
        "base": request.build_absolute_uri("/scim/v2"),
    }
    return render(request, "teams/identity/scim.html", page, status=status)


@require_POST
def provider_scim_remove(request: HttpRequest, slug: str) -> HttpResponse:
    """End SCIM of the provider."""
    provider = provider_for(request, slug)
    remove_scim_token(by=user_of(request), provider=provider)
    messages.success(
        request, f"{provider.title} no longer keeps people and groups here. They stay as they are."
    )
    return redirect("teams:provider_scim", slug)
