"""The fleet: totals, age, and the map."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from inventory.filters import DeviceFilter
from inventory.fleet import MOST_CELLS, fleet_map, totals
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Device

FILTERS = ("cluster", "product", "state", "device_class", "memory")


@require_safe
def fleet(request: HttpRequest) -> HttpResponse:
    everything = Device.objects.present()
    filterset = DeviceFilter(request.GET, everything.with_state(), request=request)
    filtering = any(request.GET.get(name) for name in FILTERS) and filterset.is_valid()
    hits = set(filterset.qs.order_by().values_list("pk", flat=True)) if filtering else None
    sums = totals(everything)
    # With a filter the groups without a match fall away, so that what matches is seen at once.
    shown = (
        everything.filter(product__in=filterset.qs.order_by().values("product")) if filtering else everything
    )
    context = {
        "totals": sums,
        "groups": fleet_map(shown, hits),
        "hits": None if hits is None else len(hits),
        "filterset": filterset,
        "too_many": sums.devices > MOST_CELLS,
        "most_cells": MOST_CELLS,
        "ages": ages(OF_DEVICES),
        "devices_url": reverse("inventory:devices"),
        "query": request.GET.urlencode(),
    }
    return render(request, "inventory/fleet.html", context)
