"""Two views: the page, and the part of it that polls itself."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_safe

from claims.inbox.inbox import count_pending
from claims.quotas.usage import team_usage
from inventory.fleet import totals
from inventory.models import Device
from portal.context import Shell
from portal.home.needs import needs
from portal.home.parts import Mine, clusters, free_now, mine, spend
from teams.access import user_of
from teams.models import Role


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show the page of the current team; an admin without one sees the fleet in its place."""
    shell = Shell.of(request)
    user, now = user_of(request), timezone.now()
    held = mine(user, now=now)
    seen = clusters()
    page: dict[str, Any] = live_of(request, shell, held) | {
        "team": shell.team,
        "free": free_now(user),
        "may_request": any(role.rank >= Role.MEMBER.rank for role in shell.roles.values()),
        "ages": [cluster.age for cluster in seen if cluster.age.is_stale],
    }
    if shell.team:
        page["quotas"] = team_usage([shell.team])
        page["spend"] = spend(shell.team, user, now=now)
    if shell.is_admin:
        page |= {
            "totals": totals(Device.objects.present()),
            "clusters": seen,
            "undecided": count_pending(),
        }
    return render(request, "home.html", page)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """What moves by itself: 304 until something in it has. Relative times are kept current by the page."""
    held = mine(user_of(request), now=timezone.now())
    page = live_of(request, Shell.of(request), held)
    response = get_conditional_response(request, etag=page["etag"])
    if response is None:
        response = render(request, "home.html#live", page)
        response["ETag"] = page["etag"]
    patch_cache_control(response, private=True, no_cache=True)
    return response


def live_of(request: HttpRequest, shell: Shell, held: Mine) -> dict[str, Any]:
    """Return the context of the part that polls."""
    found = needs(shell, held, now=held.now)
    return {"needs": found, "mine": held, "now": held.now, "etag": held.etag([need.key for need in found])}
