"""Nodes: the list, and one node with its devices."""

from typing import Any

from django.db.models import Case, CharField, Count, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from core.listing import Column, Listing
from inventory.cuts import boards_for
from inventory.filters import NodeFilter
from inventory.freshness import OF_DEVICES, OF_NODES, ages
from inventory.history import history_of
from inventory.masking import name_holders
from inventory.models import Device, Node

COLUMNS: list[Column[Any]] = [  # rows carry the annotations of `nodes_for_list`
    Column("name", "Node", lambda node: node.name, sort="name", fixed=True),
    Column("state", "State", lambda node: node.condition, sort=("ready", "unschedulable")),
    Column("cluster", "Cluster", lambda node: node.cluster.name, sort="cluster__name"),
    Column("devices", "Devices", lambda node: node.device_count, sort="device_count", numeric=True),
    Column("held", "In use", lambda node: node.held_count, sort="held_count", numeric=True),
    Column("free", "Free", lambda node: node.free_count, sort="free_count", numeric=True),
    Column("created", "In the cluster since", lambda node: node.created_at, sort="created_at", shown=False),
]


def _devices(which: Q) -> Coalesce:
    here = Device.objects.present().filter(which, node=OuterRef("pk")).order_by()
    return Coalesce(Subquery(here.values("node").annotate(count=Count("pk")).values("count")), 0)


def nodes_for_list() -> QuerySet[Node]:
    """Return nodes with the figures of their devices, which are counted of no more nodes than are shown."""
    usable = Q(held_by=None, condition=Device.Condition.GOOD, pool_complete=True)
    return (
        Node.objects.filter(gone_at=None)
        .select_related("cluster")
        .defer("raw", "cluster__credentials")
        .annotate(
            device_count=_devices(Q()),
            held_count=_devices(Q(held_by__isnull=False)),
            free_count=Case(When(ready=True, unschedulable=False, then=_devices(usable)), default=Value(0)),
            condition=Case(
                When(ready=False, then=Value("not-ready")),
                When(unschedulable=True, then=Value("cordoned")),
                default=Value("ready"),
                output_field=CharField(),
            ),
        )
    )


@require_safe
def nodes(request: HttpRequest) -> HttpResponseBase:
    listing = Listing(
        request,
        nodes_for_list(),
        columns=COLUMNS,
        title="Nodes",
        filters=NodeFilter,
        search=("name", "cluster__name"),
        sort="name",
    )
    context = {
        "ages": ages(OF_NODES),
        "empty_icon": "server",
        "empty_title": "No nodes yet",
        "empty_text": "Nodes appear when a cluster is connected whose credentials may list nodes.",
    }
    return listing.respond("inventory/nodes.html", context)


@require_safe
def node(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    found = get_object_or_404(
        Node.objects.select_related("cluster").defer("cluster__credentials"),
        cluster__name=cluster,
        name=name,
        gone_at=None,
    )
    here = Device.objects.present().filter(cluster=found.cluster, node_name=name)
    devices = list(here.for_list().order_by("pool", "name"))
    name_holders(request.user, devices)
    status = found.raw.get("status") or {}
    context = {
        "node": found,
        "devices": devices,
        "boards": boards_for(found.cluster, here),
        "info": status.get("nodeInfo") or {},
        "conditions": status.get("conditions") or [],
        "taints": (found.raw.get("spec") or {}).get("taints") or [],
        "history": history_of(found.cluster, "Node", name),
        "ages": ages((*OF_NODES, *OF_DEVICES), cluster=found.cluster),
    }
    return render(request, "inventory/node.html", context)
