"""Devices: the list, and one device with all that the cluster says of it."""

from collections.abc import Callable

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from core.listing import Column, Listing
from inventory.cuts import boards_for
from inventory.filters import DeviceFilter
from inventory.freshness import OF_DEVICES, ages
from inventory.history import device_history
from inventory.masking import holders_for, name_holders
from inventory.models import Device, ResourceClaim
from inventory.pool_facts import pool_facts
from inventory.values import attribute_rows, capacity_rows


def columns(holder: Callable[[Device], str]) -> list[Column[Device]]:
    return [
        Column("name", "Device", lambda d: d.name, sort="name", fixed=True),
        Column("node", "Node", lambda d: d.node_name or d.pool, sort=("node_name", "name")),
        Column("product", "Product", lambda d: d.product, sort=("product", "partition")),
        Column("memory", "Memory", lambda d: d.memory_bytes, sort="memory_bytes", numeric=True),
        Column("state", "State", lambda d: d.look.label, sort="state"),
        Column("holder", "Held by", holder),
        Column("cluster", "Cluster", lambda d: d.cluster.name, sort="cluster__name"),
        Column("classes", "Classes", lambda d: " ".join(d.classes), shown=False),
        Column("partition", "Partition", lambda d: d.partition, sort="partition", shown=False),
        Column("uuid", "UUID", lambda d: d.uuid, sort="uuid", shown=False),
        Column("pool", "Pool", lambda d: d.pool, sort="pool", shown=False),
        Column("driver", "Driver", lambda d: d.driver, sort="driver", shown=False),
        Column("taints", "Taints", lambda d: " ".join(taint["key"] for taint in d.taints), shown=False),
        Column("changed", "Changed", lambda d: d.changed_at.isoformat(), sort="changed_at", shown=False),
    ]


def holder_texts(request: HttpRequest) -> Callable[[Device], str]:
    """Return the cell of the CSV: the holders of all devices are asked for at once, by the first row."""
    texts: dict[int, str] = {}

    def text(device: Device) -> str:
        if device.held_by_id is None:
            return ""
        if not texts:
            held = ResourceClaim.objects.filter(devices__gone_at=None).defer("raw").distinct()
            texts.update({pk: one.text for pk, one in holders_for(request.user, held).items()})
        return texts.get(device.held_by_id, "")

    return text


@require_safe
def devices(request: HttpRequest) -> HttpResponseBase:
    listing = Listing(
        request,
        Device.objects.present().for_list(),
        columns=columns(holder_texts(request)),
        title="Devices",
        filters=DeviceFilter,
        search=("name", "node_name", "pool", "product", "uuid", "parent_uuid", "partition"),
        sort="node",
    )
    if request.GET.get("format") != "csv":
        name_holders(request.user, listing.page.object_list)
    context = {
        "ages": ages(OF_DEVICES),
        "empty_icon": "cpu",
        "empty_title": "No devices yet",
        "empty_text": "Devices appear when a cluster is connected and its drivers publish ResourceSlices.",
    }
    return listing.respond("inventory/devices.html", context)


@require_safe
def device(request: HttpRequest, pk: str) -> HttpResponse:
    found = get_object_or_404(
        Device.objects.with_state()
        .select_related("cluster", "held_by", "node", "slice")
        .defer("cluster__credentials"),
        pk=pk,
    )
    name_holders(request.user, [found])
    siblings = (
        Device.objects.present()
        .with_state()
        .filter(cluster=found.cluster, parent_uuid=found.parent_uuid, parent_uuid__gt="")
        .exclude(pk=found.pk)
        .order_by(F("name"))
    )
    context = {
        "device": found,
        "attributes": attribute_rows(found.driver, found.attributes),
        "capacities": capacity_rows(found.driver, found.capacity),
        "siblings": siblings,
        "boards": boards_for(found.cluster, Device.objects.present().filter(pk=found.pk)),
        "pool": pool_facts(found),
        "history": device_history(found),
        "ages": ages(OF_DEVICES, cluster=found.cluster),
    }
    return render(request, "inventory/device.html", context)
