"""The quotas that the portal keeps in a cluster: what is written there, what is used, what others changed."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from claims.models import TeamNamespace, WrittenQuota
from claims.quota.quotas import Standing, standing
from claims.quota.tasks import write_cluster
from core.errors import PortalError
from dra import quota_keys
from inventory.enrolment import write_quotas
from inventory.models import Cluster
from teams.access import is_platform_admin


@dataclass(frozen=True)
class Line:
    """One class of one team: the limit there, what the cluster counts and what the portal does."""

    label: str
    written: str
    used: str
    standing: Standing


@dataclass(frozen=True)
class PlaceRow:
    place: TeamNamespace
    written: WrittenQuota | None
    lines: list[Line]
    ignored: list[str]


@require_safe
def cluster_quotas(request: HttpRequest, name: str) -> HttpResponse:
    cluster = cluster_for(request, name)
    places = TeamNamespace.objects.filter(cluster=cluster).select_related("team").order_by("team__slug")
    written = {row.place_id: row for row in WrittenQuota.objects.filter(place__cluster=cluster)}
    by_team: dict[object, list[Standing]] = {}
    for each in standing([place.team for place in places]):
        if each.quota.device_class:
            by_team.setdefault(each.team.pk, []).append(each)
    rows = [row_of(place, written.get(place.pk), by_team.get(place.team_id, [])) for place in places]
    page = {
        "cluster": cluster,
        "rows": rows,
        "drifted": sum(bool(row.written and row.written.drift) for row in rows),
        "failing": sum(bool(row.written and row.written.problem) for row in rows),
    }
    return render(request, "claims/cluster_quotas.html", page)


@require_POST
def cluster_quotas_write(request: HttpRequest, name: str) -> HttpResponse:
    """Switch the writing on or off."""
    cluster = cluster_for(request, name)
    try:
        write = request.POST.get("write") == "on"
        write_quotas(name=cluster.name, write=write)
        write_cluster.delay(str(cluster.pk))
        told = (
            _("Quotas are kept in %(cluster)s from now on.")
            if write
            else _("The portal's quotas are taken away from %(cluster)s.")
        )
        messages.success(request, told % {"cluster": cluster})
    except PortalError as refusal:
        messages.error(request, refusal.message)
    return redirect("claims:cluster_quotas", cluster.name)


@require_POST
def cluster_quotas_repair(request: HttpRequest, name: str) -> HttpResponse:
    """Look at every namespace now and put right what differs."""
    cluster = cluster_for(request, name)
    write_cluster.delay(str(cluster.pk))
    messages.success(request, _("The quotas of %(cluster)s are being looked at now.") % {"cluster": cluster})
    return redirect("claims:cluster_quotas", cluster.name)


def cluster_for(request: HttpRequest, name: str) -> Cluster:
    """Return the cluster; 403 for anybody but platform admins, who alone see all teams."""
    cluster = get_object_or_404(Cluster.objects.defer("credentials"), name=name)
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only platform admins see the quotas of all teams."))
    return cluster


def row_of(place: TeamNamespace, written: WrittenQuota | None, standings: list[Standing]) -> PlaceRow:
    lines = []
    for each in standings:
        key = quota_keys.of_class(each.quota.device_class)
        seen = written.seen_hard.get(key, "") if written else ""
        used = written.seen_used.get(key, "") if written else ""
        lines.append(Line(each.label, seen, used, each))
    seen_hard = written.seen_hard if written else {}
    ignored = [said for key, value in seen_hard.items() if (said := quota_keys.why_ignored(key, value))]
    return PlaceRow(place, written, lines, ignored)
