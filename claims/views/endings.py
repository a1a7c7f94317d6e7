"""Whose end would make room for a request that does not fit now."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from claims.request.endings import endings_for
from claims.request.preview import RequestPreview
from claims.views.request import panel_of


@require_safe
def request_endings(request: HttpRequest) -> HttpResponse:
    """Answer with a page of its own, or with the lines for the panel of the request form."""
    page = panel_of(request, request.GET)
    found: RequestPreview | None = page["panel"]
    if found is None:
        return render(request, "claims/endings.html", page, status=422)
    page["scattered"] = endings_for(request.user, found.wish.cluster, found.picture, found.wish.spec)
    fragment = "#rows" if request.headers.get("HX-Request") else ""
    return render(request, f"claims/endings.html{fragment}", page)
