"""
Pages of the inventory.

Fleet: totals, age, and the map. Devices and nodes: the lists, and one of each with what the cluster
publishes. Clusters: what they are, how fresh their mirror is, and which permissions the portal lacks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Case, CharField, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from core.grafana import Dashboard, dashboard_url
from core.listing import Column, Listing, csv_response, wants_csv
from core.markup import joined, markup
from core.prepared import by_keys
from core.templatetags.ui import state_badge
from core.times import ago
from dra.devices import partition_width
from dra.manifests import device_taint_rule, to_yaml
from inventory import dra_health
from inventory.counts import counted_at, fleet_counts, with_device_counts, with_figures
from inventory.device_list import CsvHolders, cluster_cell, device_columns, read_rows, table_rows
from inventory.device_search import device_has_text
from inventory.filters import HELD, DeviceFilter, NodeFilter
from inventory.fleet import (
    MAX_GROUPS,
    NO_CLUSTER,
    NO_NODE,
    Grouping,
    fleet_map,
    out_of_service,
    physical_gpus_for,
    pool_facts,
    totals,
)
from inventory.freshness import OF_DEVICES, OF_NODES, ages, ages_for, is_stale
from inventory.hardware_events import device_errors
from inventory.history import (
    MAX_EVENTS,
    MAX_LINES,
    attribute_rows,
    capacity_rows,
    device_history,
    object_history,
    recent_changes,
)
from inventory.holders import name_holders, shares_of
from inventory.models import Cluster, Device, DraHealth, Freshness, Node, ObjectEvent
from inventory.plugin_devices import of_node, summed
from inventory.states import DeviceState
from inventory.sync.session import OPTIONAL, mirrored_kinds
from inventory.team_marks import TeamMarks
from teams.access import is_platform_admin

FILTERS = ("cluster", "product", "state", "device_class", "memory")


@require_safe
def freshness(request: HttpRequest) -> HttpResponse:
    """Render the ages of all clusters alone, which the frame of each page polls."""
    return render(request, "_freshness.html")


@require_safe
def fleet(request: HttpRequest) -> HttpResponse:
    asked = request.GET.get("group")
    grouping = Grouping(asked) if asked and asked in Grouping else Grouping.MODEL
    counts = fleet_counts(with_places=grouping is not Grouping.MODEL)
    filterset = DeviceFilter(request.GET, Device.objects.present().with_state(), request=request)
    filters = sum(bool(request.GET.get(name)) for name in FILTERS)
    filtering = bool(filters) and filterset.is_valid()
    with_uses = is_platform_admin(request.user)
    marks = TeamMarks.read(request.user) if request.GET.get("color") == "team" else None
    groups = fleet_map(
        counts,
        filterset.qs if filtering else None,
        person=request.user,
        with_uses=with_uses,
        grouping=grouping,
        marks=marks,
    )
    by_size = sorted(groups, key=lambda group: -group.count)
    shown, others = {id(group) for group in by_size[:MAX_GROUPS]}, by_size[MAX_GROUPS:]
    groups = [group for group in groups if id(group) in shown]
    ages_of_devices = ages_for(request)
    for group in groups:
        group.ages = [age for age in ages_of_devices if age.cluster.name in group.clusters]
        group.counted_at = counted_at(counts.values())
    query = request.GET.copy()
    for name in ("group", "color"):
        query.pop(name, None)
    context = {
        "totals": totals(counts.values(), with_uses=with_uses),
        "plugin_devices": summed(row for count in counts.values() for row in count.plugin_devices),
        "groups": groups,
        "hits": filterset.qs.count() if filtering else None,
        "filterset": filterset,
        "filters": filters,
        "others": len(others),
        "hidden": sum(group.hidden for group in groups) + sum(group.count for group in others),
        "ages": ages_of_devices,
        "counted_at": counted_at(counts.values()),
        "marks": marks,
        "devices_url": reverse("inventory:devices"),
        "groupings": Grouping.choices,
        "grouping": grouping,
        "query": query.urlencode(),
    }
    return render(request, "inventory/fleet.html", context)


@require_safe
def devices(request: HttpRequest) -> HttpResponseBase:
    holders = CsvHolders(request.user)
    listing = Listing(
        request,
        Device.objects.present(),  # its state would join the node where no column needs it
        columns=device_columns(holders),
        title="Devices",
        filters=DeviceFilter,
        search=(device_has_text,),
        sort="node",
        load=partial(read_rows, request.user),
        read_batch=holders.read,
        scan_once=lambda: True,
    )
    compares = listing.q and re.search(r"[<>=:]", listing.q)
    context = {
        "rows": lambda: table_rows(listing.loaded, listing.shows),
        "ages": ages(OF_DEVICES),
        "search_hint": "The search compares names, products and UUIDs. Attributes such as memory cannot be "
        "searched: use the filters."
        if compares
        else "",
        "empty_icon": "cpu",
        "empty_title": "No devices yet",
        "empty_text": "Devices appear when a cluster is connected and its drivers publish ResourceSlices.",
    }
    return listing.respond("inventory/devices.html", context)


class TaintRule(NamedTuple):
    """How an admin of the cluster keeps new claims off a device: the portal has no permission to do it."""

    sentence: str
    manifest: str  # YAML, "" if the cluster does not serve DeviceTaintRules

    @classmethod
    def of(cls, device_row: Device) -> TaintRule:
        version = device_row.cluster.discovery.get("taint_rules")
        if not version:
            name = device_row.cluster.name
            return cls(f"{name} does not serve DeviceTaintRules; only its driver can taint a device.", "")
        rule = device_taint_rule(device_row.driver, device_row.pool, device_row.name, version=version)
        sentence = "The portal reads taints and never writes them. This rule keeps new claims off the device:"
        return cls(sentence, to_yaml(rule))


@require_safe
def device(request: HttpRequest, pk: str) -> HttpResponse:
    """Show a device; to htmx only the part that the drawer of the map shows."""
    device_row = get_object_or_404(
        Device.objects.with_state()
        .with_use(visible=is_platform_admin(request.user))
        .select_related("cluster", "held_by", "node", "slice", "utilization")
        .defer("cluster__credentials"),
        pk=pk,
    )
    name_holders(request.user, [device_row])
    is_admin = is_platform_admin(request.user)
    partitions: list[Device] = []
    if device_row.parent_uuid:
        of_gpu = Device.objects.present().filter(
            cluster=device_row.cluster, parent_uuid=device_row.parent_uuid
        )
        of_gpu = of_gpu.with_state().with_use(visible=is_admin).order_by("name")
        partitions = list(of_gpu.defer("attributes", "capacity", "counters", "search"))
    capacities = capacity_rows(device_row.driver, device_row.capacity)
    in_drawer = bool(request.headers.get("HX-Request"))
    context = {
        "device": device_row,
        "in_drawer": in_drawer,
        "attributes": attribute_rows(device_row.driver, device_row.attributes),
        "capacities": capacities,
        "capacities_count": len(capacities),
        "partitions": [(other, partition_width(other.partition)) for other in partitions],
        "partitions_held": sum(other.state == DeviceState.IN_USE for other in partitions),
        "taint_rule": TaintRule.of(device_row) if is_admin else None,
        "shares": shares_of(request.user, device_row) if device_row.shareable and device_row.held_by else [],
        "gpus": physical_gpus_for(device_row.cluster, Device.objects.present().filter(pk=device_row.pk)),
        "pool": pool_facts(device_row),
        "history": device_history(device_row),
        "errors": device_errors(device_row),
        "ages": ages(OF_DEVICES, cluster=device_row.cluster),
    }
    response = render(
        request, "inventory/device.html#device" if in_drawer else "inventory/device.html", context
    )
    patch_vary_headers(response, ["HX-Request"])
    return response


COLUMNS: list[Column[Any]] = [  # rows carry the annotations of `nodes_for_list`
    Column("name", "Node", lambda node: node.name, sort="name", fixed=True),
    Column("state", "State", lambda node: node.condition, sort=("ready", "unschedulable")),
    Column("cluster", "Cluster", lambda node: node.cluster.name, sort="cluster__name"),
    Column("devices", "Devices", lambda node: node.device_count, sort="count__devices", numeric=True),
    Column("held", "Held", lambda node: node.held_count, sort="count__held", numeric=True),
    Column("free", "Free", lambda node: node.free_count, sort="count__free", numeric=True),
    Column(
        "plugin",
        "GPUs outside DRA",
        lambda node: plugin_count(node.plugin_devices),
        numeric=True,
        shown=False,
    ),
    Column("created", "In the cluster since", lambda node: node.created_at, sort="created_at", shown=False),
]


def plugin_count(plugin_devices: Mapping[str, Sequence[int]]) -> int:
    return sum(capacity for capacity, _allocatable in plugin_devices.values())


def nodes_for_list() -> QuerySet[Node]:
    """Return nodes with the counts of their devices, computed only for the rows of the page."""
    nodes = Node.objects.filter(gone_at=None).select_related("cluster").defer("raw", "cluster__credentials")
    return with_figures(nodes).annotate(
        condition=Case(
            When(ready=False, then=Value("not-ready")),
            When(unschedulable=True, then=Value("cordoned")),
            default=Value("ready"),
            output_field=CharField(),
        ),
    )


class NodeRow(NamedTuple):
    """What a row shows."""

    pk: int
    name: str
    cluster: str
    ready: bool
    unschedulable: bool
    devices: int
    held: int
    free: int
    plugin_devices: str  # JSON
    created_at: datetime | None


def _node_row(key: int) -> QuerySet[Node, Any]:
    return (
        nodes_for_list()
        .filter(pk=key)
        .values_list(
            *("pk", "name", "cluster__name", "ready", "unschedulable"),
            *("device_count", "held_count", "free_count", "plugin_devices", "created_at"),
        )
    )


NODE_ROWS = by_keys(_node_row, int)


def node_rows(keys: Sequence[int]) -> list[NodeRow]:
    """Return the rows in the order of `keys`."""
    rows = {row[0]: NodeRow(*row) for row in (NODE_ROWS.rows(list(keys)) if keys else ())}
    return [rows[key] for key in keys if key in rows]


def node_state_cell(row: NodeRow) -> SafeString:
    if not row.ready:
        return markup('<td class="mr">{}</td>', state_badge("bad", "server-off", "Not ready"))
    if row.unschedulable:
        return markup('<td class="mr">{}</td>', state_badge("wait", "tool", "Cordoned"))
    return markup('<td class="mr">{}</td>', state_badge("over", "circle-check", "Ready", quiet=True))


def node_cells() -> dict[str, Callable[[NodeRow], SafeString]]:
    """Return the cells behind the name, by the names of their columns and in their order."""
    devices = reverse("inventory:devices")  # once for all rows

    def devices_cell(row: NodeRow) -> SafeString:
        address = f"{devices}?{urlencode({'cluster': row.cluster, 'q': row.name})}"
        return markup('<td class="dg-n mr" data-l="Devices"><a href="{}">{}</a></td>', address, row.devices)

    return {
        "state": node_state_cell,
        "cluster": lambda row: cluster_cell(row.cluster),
        "devices": devices_cell,
        "held": lambda row: markup('<td class="dg-n" data-l="Held">{}</td>', row.held),
        "free": lambda row: markup('<td class="dg-n mr" data-l="Free">{}</td>', row.free),
        "plugin": lambda row: markup(
            '<td class="dg-n" data-l="Outside DRA">{}</td>', plugin_count(json.loads(row.plugin_devices))
        ),
        "created": lambda row: markup('<td class="dg-nowrap">{}</td>', ago(row.created_at)),
    }


def node_table_rows(rows: Iterable[NodeRow], shows: Mapping[str, bool]) -> SafeString:
    """Return a `<tr>` per row, with a cell for each shown column."""
    shown = [cell for column, cell in node_cells().items() if shows[column]]
    name = '<td><a class="dg-link" href="{}"><code>{}</code></a></td>'
    address = reverse("inventory:node", args=[NO_CLUSTER, NO_NODE])

    def cells(row: NodeRow) -> Iterator[SafeString]:
        url = address.replace(NO_CLUSTER, row.cluster).replace(NO_NODE, row.name)
        yield markup(name, url, row.name)
        for cell in shown:
            yield cell(row)

    return joined("\n", (markup("<tr>{}</tr>", joined("", cells(row))) for row in rows))


SEARCHED = "name", "cluster__name"


@require_safe
def nodes(request: HttpRequest) -> HttpResponseBase:
    listing = Listing(
        request,
        nodes_for_list(),
        columns=COLUMNS,
        title="Nodes",
        filters=NodeFilter,
        search=SEARCHED,
        sort="name",
        load=node_rows,
    )
    context = {
        "rows": lambda: node_table_rows(listing.loaded, listing.shows),
        "ages": ages(OF_NODES),
        "empty_icon": "server",
        "empty_title": "No nodes yet",
        "empty_text": "Nodes appear when a cluster is connected whose credentials may list nodes.",
    }
    return listing.respond("inventory/nodes.html", context)


@require_safe
def node(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    node_row = get_object_or_404(
        Node.objects.select_related("cluster").defer("cluster__credentials"),
        cluster__name=cluster,
        name=name,
        gone_at=None,
    )
    here = Device.objects.present().filter(cluster=node_row.cluster, node_name=name)
    devices = list(here.for_list().order_by("pool", "name"))
    name_holders(request.user, devices)
    status = node_row.raw.get("status") or {}
    context = {
        "node": node_row,
        "devices": devices,
        "out_of_service": out_of_service(Counter(DeviceState(device.state) for device in devices)),
        "grafana_url": node_dashboard(node_row, devices),
        "plugin_devices": of_node(node_row),
        "gpus": physical_gpus_for(node_row.cluster, here),
        "info": status.get("nodeInfo") or {},
        "conditions": status.get("conditions") or [],
        "taints": (node_row.raw.get("spec") or {}).get("taints") or [],
        "history": object_history(node_row.cluster, "Node", name),
        "ages": ages((*OF_NODES, *OF_DEVICES), cluster=node_row.cluster),
    }
    return render(request, "inventory/node.html", context)


def node_dashboard(node: Node, devices: Iterable[Device]) -> str:
    """Return the dashboard of the node's GPUs; "" if none has a UUID, by which dcgm-exporter names it."""
    uuids = {device.parent_uuid or device.uuid for device in devices}
    gpus = sorted(uuid for uuid in uuids if uuid.startswith("GPU-"))
    if not gpus:
        return ""
    return dashboard_url(Dashboard.FLEET, [("cluster", node.cluster.name), ("gpu", "|".join(gpus))])


@require_safe
def clusters(request: HttpRequest) -> HttpResponse:
    rows = with_device_counts(Cluster.objects.defer("credentials").order_by("name"))
    if wants_csv(request):
        heads = ("Cluster", "Version", "Devices", "Held", "Simulated")
        cells = (
            (cluster.name, cluster.version, cluster.device_count, cluster.held_count, cluster.simulated)
            for cluster in rows
        )
        return csv_response("clusters", heads, cells)
    by_cluster = {age.cluster.pk: age for age in ages(("resourceslices", "resourceclaims", "deviceclasses"))}
    context = {
        "rows": [(cluster, by_cluster.get(cluster.pk)) for cluster in rows],
        "held_state": HELD if is_platform_admin(request.user) else DeviceState.IN_USE,
    }
    return render(request, "inventory/clusters.html", context)


@require_safe
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    cluster_row = get_object_or_404(Cluster.objects.defer("credentials"), name=name)
    rows = {row.resource: row for row in Freshness.objects.filter(cluster=cluster_row)}
    resources = [
        {
            "name": kind.plural,
            "row": rows.get(kind.plural),
            "optional": kind.plural in OPTIONAL,
            "stale": is_stale(rows[kind.plural].seen_at) if kind.plural in rows else True,
        }
        for kind in mirrored_kinds(cluster_row)
    ]
    events = ObjectEvent.objects.filter(cluster=cluster_row)[:MAX_EVENTS]
    counts = fleet_counts(cluster_row).values()
    context = {
        "cluster": cluster_row,
        "resources": resources,
        "totals": totals(counts, with_uses=is_platform_admin(request.user)),
        "plugin_devices": summed(row for count in counts for row in count.plugin_devices),
        "grafana_url": dashboard_url(Dashboard.FLEET, [("cluster", cluster_row.name)]),
        "grafana_health_url": dashboard_url(Dashboard.DRA),
        "health": dra_health.of_cluster(DraHealth.objects.filter(cluster=cluster_row).first()),
        "history": recent_changes(events)[:MAX_LINES],
    }
    return render(request, "inventory/cluster.html", context)
