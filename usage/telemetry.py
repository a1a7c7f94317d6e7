"""
The utilization of a claim's devices now: in use, idle, or no telemetry. Observations, never states.

A claim is idle if all its buckets stayed below 10 % for at least 30 minutes without a gap, so that neither a
new claim nor an exporter that stopped looks idle. The activity of a claim is the mean of its devices.
"""

from collections.abc import Collection as Sized
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from claims.models import Claim
from claims.states import MAY_HOLD_DEVICES, ClaimState
from usage.daily import mean_activity
from usage.rollups import BUCKET

IDLE_BELOW = 0.10  # share of time in which the engine is active
IDLE_AFTER = timedelta(minutes=30)
FRESH = 3 * BUCKET  # older is no telemetry: two collections may fail while the third is running
LOOK_BACK = timedelta(days=7)  # a longer idle time is shown as this

# A run is a sequence of buckets without a gap. Idle since: the later of the start of the last run and the end
# of the last busy bucket.
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
    NOT_HELD = "not-held"  # no device to observe


@dataclass(frozen=True, slots=True)
class Observation:
    """`activity` is the share of 0 to 1 in the last bucket; `idle_since` is set if the claim is idle."""

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
    Return an observation for each claim, in one query.

    A claim that is being released may hold no device any more; those in `holding` do hold one.
    """
    claims = list(claims)
    measured = latest([claim.pk for claim in claims if claim.state in MAY_HOLD_DEVICES], now=now)
    return {
        claim.pk: measured.get(claim.pk) or without_telemetry(claim, is_holding=claim.pk in holding)
        for claim in claims
    }


def without_telemetry(claim: Claim, *, is_holding: bool) -> Observation:
    return NO_TELEMETRY if is_holding or claim.state == ClaimState.ALLOCATED else NOT_HELD


def latest(claims: Sized[UUID], *, now: datetime) -> dict[UUID, Observation]:
    """Return the latest observation of these claims; claims without a recent measurement are left out."""
    if not claims:
        return {}
    parameters: dict[str, Any] = {
        "claims": list(claims),
        "from": now - LOOK_BACK,
        "quiet": IDLE_BELOW,
        "width": BUCKET,
    }
    with connection.cursor() as cursor:
        cursor.execute(LATEST, parameters)
        rows = cursor.fetchall()
    return {row[0]: observation(*row[1:], now=now) for row in rows if now - row[1] <= FRESH}


def observation(
    last: datetime, activity: float, last_busy: datetime | None, run_began: datetime, *, now: datetime
) -> Observation:
    """Return the observation from a row of `LATEST`."""
    idle_since = max(run_began, last_busy + BUCKET) if last_busy else run_began
    if activity < IDLE_BELOW and last + BUCKET - idle_since >= IDLE_AFTER:
        return Observation(UseState.IDLE, activity, idle_since, last)
    return Observation(UseState.IN_USE, activity, None, last)


def past_utilization(claims: list[Claim], since: datetime) -> float | None:
    """Return the mean of 0 to 1 over all buckets of these claims; None without telemetry."""
    return mean_activity(claims, since, now=timezone.now())
