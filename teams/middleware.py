"""Times are stored in UTC and shown in the zone of the reader."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from teams.zones import COOKIE, zone_named


class TimezoneMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        chosen = zone_named(getattr(request.user, "timezone", ""))
        zone = chosen or zone_named(request.COOKIES.get(COOKIE, ""))
        if zone is None:
            return self.get_response(request)
        with timezone.override(zone):
            return self.get_response(request)
