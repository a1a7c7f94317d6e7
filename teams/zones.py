"""
Times are stored in UTC and shown in the zone that a person has chosen, else in that of their browser, else in
that of the installation.
"""

import zoneinfo
from collections.abc import Callable
from datetime import tzinfo
from functools import cache
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from core.models import Installation
from teams.models import User

COOKIE = "timezone"  # set by our JavaScript


def parse_zone(name: str) -> zoneinfo.ZoneInfo | None:
    """Return the zone of the IANA database, None for an unknown name."""
    try:
        return zoneinfo.ZoneInfo(name) if name else None
    except (
        ValueError,
        OSError,
        zoneinfo.ZoneInfoNotFoundError,
    ):  # ValueError, OSError: a folder, too long a name
        return None


@cache
def _zones() -> list[tuple[str, str]]:
    """Return all zones of the IANA database with their names for people; finding them reads many folders."""
    return [(name, name.replace("_", " ")) for name in sorted(zoneinfo.available_timezones())]


def zone_choices(default: str) -> list[tuple[str, str]]:
    """Return the choices of a field: all zones of the IANA database, after what "" stands for."""
    return [("", default), *_zones()]


def zone_for(person: User) -> tzinfo:
    """Return the zone for texts that `person` reads outside a request: notices, mails."""
    chosen = parse_zone(person.timezone) or parse_zone(person.seen_timezone)
    return chosen or parse_zone(Installation.load().timezone) or timezone.get_default_timezone()


@receiver(user_logged_in)
def remember_zone(sender: object, request: HttpRequest, user: User, **more: Any) -> None:
    """Store the browser's zone at sign-in."""
    name = request.COOKIES.get(COOKIE, "")
    if name != user.seen_timezone and parse_zone(name) is not None:
        User.objects.filter(pk=user.pk).update(seen_timezone=name)


class TimezoneMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        chosen = parse_zone(getattr(request.user, "timezone", ""))
        installation = getattr(request.session, "installation", None)  # read with the user
        zone = (
            chosen
            or parse_zone(request.COOKIES.get(COOKIE, ""))
            or parse_zone(installation.timezone if installation else "")
        )
        if zone is None:
            return self.get_response(request)
        with timezone.override(zone):
            return self.get_response(request)
