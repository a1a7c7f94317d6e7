"""The address of SCIM as the portal knows it: what is below is imported at the first request."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import resolve
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt  # no cookie is read
@login_not_required
def scim(request: HttpRequest, rest: str) -> HttpResponse:
    """
    Serve an address of `teams.scim.urls`.

    These views need the models of scim2-models, 20 MiB, which workers and most web processes do without.
    """
    path = "/".join(filter(None, rest.split("/")))  # some providers send "//Users" or "/Users/"
    match = resolve(f"/{path}", urlconf="teams.scim.urls")
    request.resolver_match = match  # what the audit log names
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    return response
