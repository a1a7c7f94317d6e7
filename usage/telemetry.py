"""
The utilization of a claim's devices now: in use, idle, or no telemetry. Observations, never states.

A device is idle if every sample of it stayed below the limit of its claim's profile for as long as the
profile says, by default 10 % for 30 minutes: without a gap, so that an exporter that stopped does not look
idle, and with 25 samples per half hour, so that a new claim does not. A claim is idle while all its devices
are; its activity is the mean of its devices. Over time: `usage.series`.
"""

from __future__ import annotations

from collections.abc import Collection as Sized
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from claims.models import Claim
from claims.models.limits import IDLE_AFTER, IDLE_LONGEST, IDLE_PERCENT
from claims.states import MAY_HOLD_DEVICES, ClaimState
from dra.devices import GPU_DRIVERS, VENDORS
from dra.pools import DeviceKey
from inventory.states import DeviceUse
from usage.daily import mean_activity
from usage.samples import BUCKET, bucket_start

UNLESS_SET: dict[str, Any] = {"percent": IDLE_PERCENT, "after": IDLE_AFTER}  # by the profile
GPUS = {"gpus": sorted(GPU_DRIVERS), "vendors": sorted(VENDORS)}  # `inventory.models.device.gpu_where`
IDLE_SAMPLE = timedelta(minutes=30) / 25  # at least one in each of these
FRESH = 3 * BUCKET  # older is no telemetry: two collections may fail while the third is running
LOOK_BACK = timedelta(days=7)  # a longer idle time is shown as this

# A run is a sequence of buckets without a gap. Idle since: the later of the start of the last run and the end
# of the last busy bucket. Of a claim with several devices the busiest counts, and the one with the fewest
# samples. A bucket in which a device that is held now was not measured counts as busy: it is not known idle.
LATEST = """
WITH limits AS (
  SELECT c.id AS claim_id, coalesce(v.idle_percent, %(percent)s) / 100.0 AS quiet,
         coalesce(v.idle_after, %(after)s) AS idle_after
  FROM claims_claim c JOIN claims_profileversion v ON v.id = c.profile_version_id
  WHERE c.id = ANY(%(claims)s)
), held AS (
  SELECT claim_id, count(DISTINCT (driver, pool, device)) AS devices FROM claims_allocation
  WHERE claim_id = ANY(%(claims)s) AND ended_at IS NULL
    AND (driver = ANY(%(gpus)s) OR driver <> ALL(%(vendors)s) AND memory_bytes IS NOT NULL
         AND product NOT IN ('', device))
  GROUP BY claim_id
), seen AS (
  SELECT claim_id, bucket, avg(activity) AS activity, max(coalesce(activity_max, activity)) AS peak,
         min(samples) AS samples, count(*) AS measured
  FROM usage_rollup
  WHERE claim_id = ANY(%(claims)s) AND bucket >= %(from)s AND activity IS NOT NULL
  GROUP BY claim_id, bucket
), runs AS (
  SELECT *, lag(bucket) OVER of_claim AS earlier,
         max(bucket) OVER (PARTITION BY claim_id) + %(width)s AS until
  FROM seen JOIN limits USING (claim_id) LEFT JOIN held USING (claim_id)
  WINDOW of_claim AS (PARTITION BY claim_id ORDER BY bucket)
)
SELECT claim_id, max(bucket), (array_agg(activity ORDER BY bucket DESC))[1],
       max(bucket) FILTER (WHERE peak >= quiet OR measured < devices),
       max(bucket) FILTER (WHERE earlier IS DISTINCT FROM bucket - %(width)s),
       idle_after, coalesce(sum(samples) FILTER (WHERE bucket >= until - idle_after), 0),
       array_agg(bucket ORDER BY bucket) FILTER (WHERE bucket >= %(since)s),
       array_agg(activity ORDER BY bucket) FILTER (WHERE bucket >= %(since)s)
FROM runs GROUP BY claim_id, idle_after
"""


class UseState(StrEnum):
    IN_USE = "in-use"
    IDLE = "idle"
    NO_TELEMETRY = "no-telemetry"
    NOT_HELD = "not-held"  # no device whose utilization could be measured


@dataclass(frozen=True, slots=True)
class Utilization:
    """
    `activity` is the share of 0 to 1 in the last bucket, in which every sample was below the idle limit if
    `is_quiet`; `idle_since` is set if the claim is idle.
    """

    use: UseState
    activity: float | None = None
    idle_since: datetime | None = None
    measured_at: datetime | None = None
    is_quiet: bool = False

    @property
    def percent(self) -> int | None:
        return None if self.activity is None else round(self.activity * 100)

    @property
    def is_idle(self) -> bool:
        return self.use is UseState.IDLE

    @property
    def tone(self) -> str:
        """Return the CSS class of its words: green only for devices that work."""
        if self.is_idle:
            return "dg-warn"
        return "dg-good" if self.use is UseState.IN_USE and not self.is_quiet else ""


NOT_HELD = Utilization(UseState.NOT_HELD)
NO_TELEMETRY = Utilization(UseState.NO_TELEMETRY)


@dataclass(frozen=True, slots=True)
class Measured:
    """The latest observation of a claim, None if it is too old, and the activity of its recent buckets."""

    latest: Utilization | None
    recent: dict[datetime, float]


def current_utilization(
    claims: Iterable[Claim],
    *,
    now: datetime,
    holding: Sized[UUID] = (),
    measured: Mapping[UUID, Measured] | None = None,
) -> dict[UUID, Utilization]:
    """
    Return an observation for each claim, in one query, or in none if the caller has read what was `measured`.

    A claim that is being released may hold no device any more; those in `holding` do hold one.
    """
    claims = list(claims)
    measured = recent_utilization(claims, now=now, since=now) if measured is None else measured
    latest = {claim: row.latest for claim, row in measured.items()}
    return {
        claim.pk: latest.get(claim.pk) or without_telemetry(claim, is_holding=claim.pk in holding)
        for claim in claims
    }


def without_telemetry(claim: Claim, *, is_holding: bool) -> Utilization:
    return NO_TELEMETRY if is_holding or claim.state == ClaimState.ALLOCATED else NOT_HELD


def recent_utilization(claims: Iterable[Claim], *, now: datetime, since: datetime) -> dict[UUID, Measured]:
    """
    Return what was measured of those claims that may hold devices, in one query.

    `since` is where their recent buckets begin. Claims without a measurement are left out.
    """
    ids = [claim.pk for claim in claims if claim.state in MAY_HOLD_DEVICES]
    if not ids:
        return {}
    parameters: dict[str, Any] = {
        "claims": ids,
        "from": now - LOOK_BACK,
        **UNLESS_SET,
        **GPUS,
        "width": BUCKET,
        "since": since,
    }
    with connection.cursor() as cursor:
        cursor.execute(LATEST, parameters)
        rows = cursor.fetchall()
    return {
        claim: Measured(
            observation(last, *values) if now - last <= FRESH else None,
            dict(zip(buckets or (), activities or (), strict=True)),
        )
        for claim, last, *values, buckets, activities in rows
    }


def observation(
    last: datetime,
    activity: float,
    last_busy: datetime | None,
    run_began: datetime,
    idle_after: timedelta,
    samples: int,
) -> Utilization:
    """Return the observation from a row of `LATEST`; `samples` are those of the last `idle_after`."""
    idle_since = max(run_began, last_busy + BUCKET) if last_busy else run_began
    if last + BUCKET - idle_since >= idle_after and samples * IDLE_SAMPLE >= idle_after:
        return Utilization(UseState.IDLE, activity, idle_since, last)
    return Utilization(UseState.IN_USE, activity, None, last, is_quiet=last_busy != last)


# Held devices with what was measured of them in the time in which they must be quiet, and when last. Of
# several claims that share one, the busiest counts, and the strictest of their profiles.
HELD_DEVICES = """
WITH held AS (
  SELECT a.driver, a.pool, a.device, min(a.started_at) AS began, array_agg(a.claim_id) AS claims,
         min(coalesce(v.idle_percent, %(percent)s)) / 100.0 AS quiet,
         max(coalesce(v.idle_after, %(after)s)) AS idle_after
  FROM claims_allocation a JOIN claims_claim c ON c.id = a.claim_id
  JOIN claims_profileversion v ON v.id = c.profile_version_id
  WHERE c.cluster_id = %(cluster)s AND a.ended_at IS NULL
  GROUP BY a.driver, a.pool, a.device
)
SELECT held.driver, held.pool, held.device, held.began, held.idle_after,
       seen.buckets * %(width)s = held.idle_after AND seen.peak < held.quiet
         AND seen.samples * %(sample)s >= held.idle_after,
       seen.last
FROM held LEFT JOIN LATERAL (
  SELECT count(*) FILTER (WHERE counts) AS buckets, max(peak) FILTER (WHERE counts) AS peak,
         sum(samples) FILTER (WHERE counts) AS samples, max(bucket) AS last
  FROM (
    SELECT r.bucket, max(coalesce(r.activity_max, r.activity)) AS peak, max(r.samples) AS samples,
           r.bucket >= %(until)s - held.idle_after AS counts
    FROM usage_rollup r
    WHERE r.claim_id = ANY(held.claims) AND r.driver = held.driver AND r.pool = held.pool
      AND r.device = held.device AND r.activity IS NOT NULL AND r.bucket < %(until)s
      AND r.bucket >= %(oldest)s AND r.bucket >= least(%(until)s - held.idle_after, %(recent)s)
    GROUP BY r.bucket
  ) buckets
) seen ON TRUE
"""


def device_uses(cluster_id: UUID, *, now: datetime) -> dict[DeviceKey, tuple[DeviceUse, datetime]]:
    """
    Return the devices held by claims that are idle or not measured, and since when at the latest; one query.

    The limits are those of claims: every sample of `idle_after` is below, or there is none within `FRESH`.
    """
    until = bucket_start(now)
    parameters: dict[str, Any] = {
        "cluster": cluster_id,
        "until": until,
        "width": BUCKET,
        "sample": IDLE_SAMPLE,
        "oldest": until - IDLE_LONGEST,
        "recent": until - IDLE_AFTER,
        **UNLESS_SET,
    }
    uses: dict[DeviceKey, tuple[DeviceUse, datetime]] = {}
    with connection.cursor() as cursor:
        cursor.execute(HELD_DEVICES, parameters)
        for driver, pool, name, began, idle_after, is_idle, last in cursor.fetchall():
            if is_idle:
                uses[driver, pool, name] = DeviceUse.IDLE, until - idle_after
            elif now - max(began, last or began) > FRESH + BUCKET:
                uses[driver, pool, name] = DeviceUse.NO_TELEMETRY, last or began
    return uses


def past_utilization(claims: list[Claim], since: datetime) -> float | None:
    """Return the mean of 0 to 1 over all buckets of these claims; None without telemetry."""
    return mean_activity(claims, since, now=timezone.now())
