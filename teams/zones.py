"""
In whose time zone a moment is told.

In whose time zone a moment is told: the one a person has chosen, else that of their browser.

Times are stored in UTC and shown in the zone of the reader.
"""

import zoneinfo
from collections.abc import Callable
from datetime import tzinfo
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from teams.models import User

COOKIE = "timezone"  # the browser says in it where it is


def zone_named(name: str) -> zoneinfo.ZoneInfo | None:
    """Return the zone of the IANA database, None for a name that it does not have."""
    try:
        return zoneinfo.ZoneInfo(name) if name else None
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):  # also a folder, and too long a name
        return None


def zone_of(person: User) -> tzinfo:
    """Return the zone in which `person` reads what is not shown on a page of theirs: a notice, a mail."""
    chosen = zone_named(person.timezone) or zone_named(person.seen_timezone)
    return chosen or timezone.get_default_timezone()


@receiver(user_logged_in)
def remember_zone(sender: object, request: HttpRequest, user: User, **more: Any) -> None:
    """Keep the zone of the browser in which somebody signs in."""
    name = request.COOKIES.get(COOKIE, "")
    if name != user.seen_timezone and zone_named(name) is not None:
        User.objects.filter(pk=user.pk).update(seen_timezone=name)


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
