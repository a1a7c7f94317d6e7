"""Choices that a browser keeps in a cookie: the theme, and the team whose pages the sidebar shows."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from teams.access import asker, team_for
from teams.models import User

YEAR = 365 * 24 * 3600


def back(request: HttpRequest) -> HttpResponse:
    """Redirect to where the form stood, if that is an address of ours."""
    there = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(there, {request.get_host()}, require_https=request.is_secure())
    # Without a slash it would be taken for the name of a view.
    return redirect(there if allowed and "/" in there else "home")


def remember(request: HttpRequest, response: HttpResponse, name: str, value: str) -> HttpResponse:
    response.set_cookie(name, value, max_age=YEAR, secure=request.is_secure(), httponly=True, samesite="Lax")
    return response


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Choose light, dark or as the system; known to the browser, and to the person on other browsers."""
    chosen = request.POST.get("theme", "")
    if chosen not in User.Theme.values:
        return HttpResponseBadRequest()
    if request.user.is_authenticated:
        User.objects.filter(pk=request.user.pk).update(theme=chosen)
    return remember(request, back(request), "theme", chosen)


@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """Choose the current team; empty is all teams, which only a platform admin sees."""
    slug = request.POST.get("team", "")
    if slug:
        team_for(asker(request), slug)
    return remember(request, back(request), "team", slug)
