"""Times are stored in UTC and shown in the zone of the reader."""

import zoneinfo
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone


class TimezoneMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        name = getattr(request.user, "timezone", "") or request.COOKIES.get("timezone", "")
        try:
            zone = zoneinfo.ZoneInfo(name) if name else None
        except (ValueError, zoneinfo.ZoneInfoNotFoundError):
            zone = None
        if zone is None:
            return self.get_response(request)
        with timezone.override(zone):
            return self.get_response(request)
