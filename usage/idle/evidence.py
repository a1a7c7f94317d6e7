"""What shows that a claim is idle: its utilization in each hour, for lists and notices, and its graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.db import connection
from django.urls import reverse

from claims.models import Claim
from core.text import percent
from teams.zones import zone_for
from usage.models import IdlePeriod
from usage.series import Range

HOUR = timedelta(hours=1)
SPARK_HOURS = 48
BEFORE = 4  # hours before a claim went idle, so that the change is seen
FEWEST, MOST = 6, 24  # hours in a notice
BARS = "▁▂▃▄▅▆▇█"

# The mean of each hour of the claims of one page.
HOURLY = """
SELECT claim_id, floor(extract(epoch FROM bucket - %(since)s) / 3600)::int AS hour, avg(activity)
FROM usage_rollup
WHERE claim_id = ANY(%(claims)s) AND bucket >= %(since)s AND activity IS NOT NULL
GROUP BY claim_id, hour
"""


def activity_by_hour(
    claims: Iterable[UUID], now: datetime, hours: int = SPARK_HOURS
) -> dict[UUID, list[float | None]]:
    """Return the utilization of each of the last hours, None without telemetry; one query."""
    found: dict[UUID, list[float | None]] = {claim: [None] * hours for claim in claims}
    with connection.cursor() as cursor:
        cursor.execute(HOURLY, {"claims": list(found), "since": now - hours * HOUR})
        for claim, hour, activity in cursor.fetchall():
            found[claim][min(hour, hours - 1)] = activity
    return found


def evidence_text(claim: Claim, period: IdlePeriod, now: datetime) -> str:
    """
    Return the utilization of the last hours in words and as bars, from before the claim went idle if that
    is less than a day ago; "" without any telemetry. One query.
    """
    hours = min(max(-(-(now - period.since) // HOUR) + BEFORE, FEWEST), MOST)
    values = activity_by_hour([claim.pk], now, hours)[claim.pk]
    if not any(value is not None for value in values):
        return ""
    known = [value for value in values if value is not None]
    mean, highest = percent(sum(known) / len(known)), percent(max(known))
    return f"Utilization of the last {hours} hours: mean {mean}, highest {highest}.\n{bars(values)}"


def bars(values: Sequence[float | None]) -> str:
    """Return a bar of text for each share of 0 to 1, a dot where nothing was measured."""
    top = len(BARS) - 1
    return "".join("·" if value is None else BARS[min(round(value * top), top)] for value in values)


def graph_url(claim: Claim, period: IdlePeriod, now: datetime) -> str:
    """Return the path of the claim's page with its graph over the days (of its owner) of an idle time."""
    zone = zone_for(claim.requested_by)
    first, last = (at.astimezone(zone).date() for at in (period.since - BEFORE * HOUR, now))
    query = urlencode({"range": str(Range.OWN), "since": str(first), "until": str(last)})
    return f"{reverse('claims:detail', args=[claim.pk])}?{query}#claim-usage"
