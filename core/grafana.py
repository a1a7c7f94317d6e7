"""Links to the dashboards of deploy/monitoring/dashboards in the Grafana of the site, if it has one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlencode

from django.conf import settings


class Dashboard(StrEnum):
    """The uid of each dashboard."""

    FLEET = "dragoman-fleet"
    TEAM = "dragoman-team"
    CLAIM = "dragoman-claim"
    DRA = "dragoman-dra"
    PORTAL = "dragoman-portal"


def dashboard_url(
    dashboard: Dashboard,
    variables: Iterable[tuple[str, str]] = (),
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> str:
    """
    Return the address of a dashboard with these values of its variables, "" without `GRAFANA_URL`.

    A variable may come several times; the time range is that of the dashboard unless both ends are given.
    """
    if not settings.GRAFANA_URL:
        return ""
    query = [(f"var-{name}", value) for name, value in variables]
    if since is not None and until is not None:
        query += [("from", milliseconds(since)), ("to", milliseconds(until))]
    address = f"{settings.GRAFANA_URL.rstrip('/')}/d/{dashboard}/"
    return f"{address}?{urlencode(query)}" if query else address


def milliseconds(instant: datetime) -> str:
    """Return the time as Grafana writes it in addresses."""
    return str(int(instant.timestamp() * 1000))
