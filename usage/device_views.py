"""The utilization of one device over time: a fragment of its page, without JavaScript a page of its own."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from inventory.models import Device
from teams.access import user_of
from usage import device_use
from usage.series import Range

RANGES = ((Range.HOUR, "1 h"), (Range.DAY, "24 h"), (Range.WEEK, "7 d"))


@require_safe
def device_usage(request: HttpRequest, device_id: UUID) -> HttpResponse:
    """Return only the panel to htmx, otherwise the page. An unknown range is a day."""
    devices = Device.objects.select_related("cluster", "held_by").defer("cluster__credentials")
    device = get_object_or_404(devices, pk=device_id)
    asked = request.GET.get("range", "")
    time_range = next((one for one, _label in RANGES if one == asked), Range.DAY)
    usage = device_use.device_usage(user_of(request), device, time_range, now=timezone.now())
    page = {"device": device, "usage": usage, "ranges": RANGES}
    in_page = bool(request.headers.get("HX-Request"))
    response = render(request, "usage/device.html#panel" if in_page else "usage/device.html", page)
    patch_vary_headers(response, ["HX-Request"])
    return response
