"""
What a claim's devices are seen to do now: in use, idle, or no telemetry. Observations, never states.

Idle is a claim whose every five minutes stayed below 10 % for at least 30 minutes without a gap, so that
neither a new claim nor an exporter that fell silent looks idle. A claim's activity is its devices' mean.
"""

from collections.abc import Collection as Sized
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Avg

from claims.models import Claim
from claims.states import MAY_HOLD_DEVICES, ClaimState
from usage.models import Rollup
from usage.rollups import BUCKET

QUIET = 0.10  # below this share of its time an engine does nothing that counts
IDLE_AFTER = timedelta(minutes=30)
FRESH = 3 * BUCKET  # older than this is no telemetry: two readings may fail and the third may be under way
LOOK_BACK = timedelta(days=7)  # an idle span that is longer is given as at least so long

# A run is an unbroken row of buckets. Idle since: the later of where the last run began and where the last
# busy bucket ended.
LATEST = """
WITH seen AS (
  SELECT claim_id, bucket, avg(activity) AS activity
  FROM usage_rollup
  WHERE claim_id = ANY(%(claims)s) AND bucket >= %(from)s AND activity IS NOT NULL
  GROUP BY claim_id, bucket
), runs AS (
  SELECT *, lag(bucket) OVER (PARTITION BY claim_id ORDER BY bucket) AS earlier FROM seen
)
SELECT claim_id, max(bucket), (array_agg(activity ORDER BY bucket DESC))[1],
       max(bucket) FILTER (WHERE activity >= %(quiet)s),
       max(bucket) FILTER (WHERE earlier IS DISTINCT FROM bucket - %(width)s)
FROM runs GROUP BY claim_id
"""


class UseState(StrEnum):
    IN_USE = "in-use"
    IDLE = "idle"
    NO_TELEMETRY = "no-telemetry"
    NOT_HELD = "not-held"  # no device, so nothing to observe


@dataclass(frozen=True, slots=True)
class Observation:
    """`activity` is that of the last five minutes, of 0 to 1; `idle_since` is set where the claim is idle."""

    use: UseState
    activity: float | None = None
    idle_since: datetime | None = None
    measured_at: datetime | None = None

    @property
    def percent(self) -> int | None:
        return None if self.activity is None else round(self.activity * 100)

    @property
    def is_idle(self) -> bool:
        return self.use is UseState.IDLE


NOT_HELD = Observation(UseState.NOT_HELD)
NO_TELEMETRY = Observation(UseState.NO_TELEMETRY)


def observe(claims: Iterable[Claim], *, now: datetime, holding: Sized[UUID] = ()) -> dict[UUID, Observation]:
    """
    Return an observation for each claim, in one query for all of them.

    A claim that is being released may have let go already; those in `holding` are known to hold a device.
    """
    everything = list(claims)
    held = [claim.pk for claim in everything if claim.state in MAY_HOLD_DEVICES]
    seen = latest(held, now=now)
    return {
        claim.pk: seen.get(claim.pk) or unseen(claim, is_holding=claim.pk in holding) for claim in everything
    }


def unseen(claim: Claim, *, is_holding: bool) -> Observation:
    return NO_TELEMETRY if is_holding or claim.state == ClaimState.ALLOCATED else NOT_HELD


def latest(claims: Sized[UUID], *, now: datetime) -> dict[UUID, Observation]:
    """Return what was last seen of these claims; one without a measurement of late is missing."""
    if not claims:
        return {}
    asked: dict[str, Any] = {"claims": list(claims), "from": now - LOOK_BACK, "quiet": QUIET, "width": BUCKET}
    with connection.cursor() as cursor:
        cursor.execute(LATEST, asked)
        rows = cursor.fetchall()
    return {row[0]: read(*row[1:], now=now) for row in rows if now - row[1] <= FRESH}


def read(
    last: datetime, activity: float, last_busy: datetime | None, run_began: datetime, *, now: datetime
) -> Observation:
    """Turn the figures of one claim into words."""
    quiet_since = max(run_began, last_busy + BUCKET) if last_busy else run_began
    if activity < QUIET and last + BUCKET - quiet_since >= IDLE_AFTER:
        return Observation(UseState.IDLE, activity, quiet_since, last)
    return Observation(UseState.IN_USE, activity, None, last)


def past_utilization(claims: list[Claim], since: datetime) -> float | None:
    """Return the mean of 0 to 1 over all buckets of these claims; None without telemetry."""
    rows = Rollup.objects.filter(claim__in=claims, bucket__gte=since, activity__isnull=False)
    mean: float | None = rows.aggregate(mean=Avg("activity"))["mean"]
    return mean
