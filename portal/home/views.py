"""Home: the page, and the part of it that polls."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_safe

from claims.catalogue.listing import counted_at
from claims.models import PendingDecision
from claims.quotas.usage import team_usage
from inventory.counts import fleet_counts
from inventory.fleet import totals
from portal.context import Shell
from portal.home.needs import needs
from portal.home.parts import MyClaims, cluster_rows, free_profiles, monthly_spend, my_claims
from teams.access import user_of
from teams.models import Role


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show Home for the current team; a platform admin sees the fleet and the clusters too."""
    shell = Shell.of(request)
    user, now = user_of(request), timezone.now()
    claims = my_claims(user, now=now)
    cluster_status = cluster_rows()
    free = free_profiles(user)
    page: dict[str, Any] = live_context(request, shell, claims) | {
        "team": shell.team,
        "free": free,
        "counted_at": counted_at(row.entry for row in free),
        "may_request": shell.has_role(Role.MEMBER),
        "ages": [cluster.age for cluster in cluster_status if cluster.age.is_stale],
    }
    if shell.team:
        page["quotas"] = team_usage([shell.team])
        page["spend"] = monthly_spend(shell.team, user, now=now)
    if shell.is_admin:
        page |= {
            "totals": totals(fleet_counts().values()),
            "clusters": cluster_status,
            "undecided": PendingDecision.objects.count(),
        }
    return render(request, "home.html", page)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Render the part that polls: 304 until it changes. The browser keeps relative times current."""
    claims = my_claims(user_of(request), now=timezone.now())
    page = live_context(request, Shell.of(request), claims)
    response = get_conditional_response(request, etag=page["etag"])
    if response is None:
        response = render(request, "home.html#live", page)
        response["ETag"] = page["etag"]
    patch_cache_control(response, private=True, no_cache=True)
    return response


def live_context(request: HttpRequest, shell: Shell, claims: MyClaims) -> dict[str, Any]:
    """Return the context of the part that polls."""
    shown = needs(shell, claims, now=claims.now)
    etag = claims.etag([need.key for need in shown])
    return {"needs": shown, "mine": claims, "now": claims.now, "etag": etag}
