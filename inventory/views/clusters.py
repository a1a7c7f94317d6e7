"""Clusters: what they are, how fresh their mirror is, and what the portal may not see there."""

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from core.sheets import sheet, wants_sheet
from inventory.fleet import totals
from inventory.freshness import ages, is_stale
from inventory.history import LINES, line_of
from inventory.models import Cluster, Device, Freshness, ObjectEvent
from inventory.sync.resources import OPTIONAL, kinds_of


@require_safe
def clusters(request: HttpRequest) -> HttpResponse:
    rows = Cluster.objects.defer("credentials").annotate(
        device_count=Count("devices", filter=Q(devices__gone_at=None)),
        held_count=Count("devices", filter=Q(devices__gone_at=None, devices__held_by__isnull=False)),
    )
    rows = rows.order_by("name")  # what is grouped is not ordered by itself
    if wants_sheet(request):
        heads = ("Cluster", "Version", "Devices", "In use", "Simulated")
        cells = ((one.name, one.version, one.device_count, one.held_count, one.simulated) for one in rows)
        return sheet("clusters", heads, cells)
    by_cluster = {age.cluster.pk: age for age in ages(("resourceslices", "resourceclaims", "deviceclasses"))}
    context = {"rows": [(cluster, by_cluster.get(cluster.pk)) for cluster in rows]}
    return render(request, "inventory/clusters.html", context)


@require_safe
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    found = get_object_or_404(Cluster.objects.defer("credentials"), name=name)
    rows = {row.resource: row for row in Freshness.objects.filter(cluster=found)}
    resources = [
        {
            "name": kind.plural,
            "row": rows.get(kind.plural),
            "optional": kind.plural in OPTIONAL,
            "stale": is_stale(rows[kind.plural].seen_at) if kind.plural in rows else True,
        }
        for kind in kinds_of(found)
    ]
    events = ObjectEvent.objects.filter(cluster=found)[:LINES]
    context = {
        "cluster": found,
        "resources": resources,
        "totals": totals(Device.objects.present().filter(cluster=found)),
        "history": [(event, line_of(event)) for event in events],
    }
    return render(request, "inventory/cluster.html", context)
