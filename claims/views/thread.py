"""Writing under a wish: questions and answers."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from claims import services
from claims.access import claim_for
from claims.views.asks import quota_request_for
from core.errors import Invalid
from teams.access import asker


@require_POST
def comment(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = claim_for(request, claim_id)
    try:
        said = services.comment_on_claim(claim=claim, by=asker(request), **sent(request))
    except Invalid as refusal:
        messages.error(request, refusal.message)
        return redirect(back(request, reverse("claims:detail", args=[claim.pk])))
    person = {"person": claim.requested_by.label}
    messages.success(request, _("%(person)s is asked.") % person if said.question else _("It is said."))
    return redirect(back(request, reverse("claims:detail", args=[claim.pk])))


@require_POST
def quota_request_comment(request: HttpRequest, request_id: UUID) -> HttpResponse:
    one = quota_request_for(request, request_id)
    try:
        services.comment_on_quota_request(quota_request=one, by=asker(request), **sent(request))
    except Invalid as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, _("It is said."))
    return redirect(back(request, reverse("claims:quota_request_decision", args=[one.pk])))


def sent(request: HttpRequest) -> dict[str, str]:
    return {"text": request.POST.get("text", ""), "key": request.POST.get("key", "")}


def back(request: HttpRequest, otherwise: str) -> str:
    """Return the page of this portal that the form was on."""
    page = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(page, None, require_https=request.is_secure())
    return page if allowed and page.startswith("/") else otherwise
