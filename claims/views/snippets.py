"""The manifests of a claim: one as a part of its page, and one as a file."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from claims.access import claim_for
from claims.models import Claim
from claims.snippets import Snippet
from claims.views.snippet_page import snippets_page


@require_safe
def snippet(request: HttpRequest, claim_id: UUID, key: str) -> HttpResponse:
    """One snippet as a part of the page. The browser's address follows, so that it can be passed on."""
    claim = claim_for(request, claim_id)
    return part(request, claim, key)


@require_safe
def options(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """The same after an option has changed; the form says which snippet is shown."""
    return part(request, claim_for(request, claim_id), request.GET.get("snippet", ""))


@require_safe
def snippet_file(request: HttpRequest, claim_id: UUID, key: str) -> HttpResponse:
    """The snippet as a file. Options that cannot be taken are told on the page, not here: 404."""
    page = snippets_page(request, claim_for(request, claim_id), key)
    if page["snippet"].key != key or page["snippet_form"].errors:
        raise Http404
    found: Snippet = page["snippet"]
    response = HttpResponse(found.text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{found.filename}"'
    return response


def part(request: HttpRequest, claim: Claim, key: str) -> HttpResponse:
    page = snippets_page(request, claim, key)
    if page["snippet"].key != key:
        raise Http404
    response = render(request, "claims/detail.html#snippets", page | {"claim": claim})
    response["HX-Replace-Url"] = f"{reverse('claims:detail', args=[claim.pk])}?{page['snippet_query']}"
    return response
