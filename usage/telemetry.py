"""
The utilization of a claim's devices: now (in use, idle, or no telemetry), and over time in equal bins, with
the data of the graph. Observations, never states.

A claim is idle if all its buckets stayed below 10 % for at least 30 minutes without a gap, so that neither a
new claim nor an exporter that stopped looks idle. The activity of a claim is the mean of its devices. A bin
without samples is "no telemetry" if a device was held, else "not held"; neither is 0. The table below the
graph shows the same points.
"""

from __future__ import annotations

from collections.abc import Collection as Sized
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from claims.models import Allocation, Claim
from claims.states import MAY_HOLD_DEVICES, ClaimState
from dra.pools import DeviceKey
from inventory.states import DeviceUse
from usage.daily import mean_activity
from usage.samples import BUCKET, EPOCH, bucket_start

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
       max(bucket) FILTER (WHERE earlier IS DISTINCT FROM bucket - %(width)s),
       array_agg(bucket ORDER BY bucket) FILTER (WHERE bucket >= %(since)s),
       array_agg(activity ORDER BY bucket) FILTER (WHERE bucket >= %(since)s)
FROM runs GROUP BY claim_id
"""


class UseState(StrEnum):
    IN_USE = "in-use"
    IDLE = "idle"
    NO_TELEMETRY = "no-telemetry"
    NOT_HELD = "not-held"  # no device whose utilization could be measured


@dataclass(frozen=True, slots=True)
class Utilization:
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
        "quiet": IDLE_BELOW,
        "width": BUCKET,
        "since": since,
    }
    with connection.cursor() as cursor:
        cursor.execute(LATEST, parameters)
        rows = cursor.fetchall()
    return {
        claim: Measured(
            observation(last, *values, now=now) if now - last <= FRESH else None,
            dict(zip(buckets or (), activities or (), strict=True)),
        )
        for claim, last, *values, buckets, activities in rows
    }


def observation(
    last: datetime, activity: float, last_busy: datetime | None, run_began: datetime, *, now: datetime
) -> Utilization:
    """Return the observation from a row of `LATEST`."""
    idle_since = max(run_began, last_busy + BUCKET) if last_busy else run_began
    if activity < IDLE_BELOW and last + BUCKET - idle_since >= IDLE_AFTER:
        return Utilization(UseState.IDLE, activity, idle_since, last)
    return Utilization(UseState.IN_USE, activity, None, last)


# The last buckets of each held device; of several claims that share it, the busiest counts.
HELD_DEVICES = """
WITH held AS (
  SELECT a.driver, a.pool, a.device, min(a.started_at) AS began, array_agg(a.claim_id) AS claims
  FROM claims_allocation a JOIN claims_claim c ON c.id = a.claim_id
  WHERE c.cluster_id = %(cluster)s AND a.ended_at IS NULL
  GROUP BY a.driver, a.pool, a.device
)
SELECT held.driver, held.pool, held.device, held.began,
       count(DISTINCT r.bucket), max(r.activity), max(r.bucket)
FROM held LEFT JOIN usage_rollup r
  ON r.claim_id = ANY(held.claims) AND r.driver = held.driver AND r.pool = held.pool
  AND r.device = held.device AND r.bucket >= %(since)s AND r.bucket < %(until)s AND r.activity IS NOT NULL
GROUP BY held.driver, held.pool, held.device, held.began
"""


def device_uses(cluster_id: UUID, *, now: datetime) -> dict[DeviceKey, tuple[DeviceUse, datetime]]:
    """
    Return the devices held by claims that are idle or not measured, and since when at the latest; one query.

    The bounds are those of claims: below `IDLE_BELOW` in each bucket of `IDLE_AFTER`, or none within `FRESH`.
    """
    until = bucket_start(now)
    since = until - IDLE_AFTER
    uses: dict[DeviceKey, tuple[DeviceUse, datetime]] = {}
    with connection.cursor() as cursor:
        cursor.execute(HELD_DEVICES, {"cluster": cluster_id, "since": since, "until": until})
        for driver, pool, name, began, buckets, activity, last in cursor.fetchall():
            if buckets == IDLE_AFTER // BUCKET and activity < IDLE_BELOW:
                uses[driver, pool, name] = DeviceUse.IDLE, since
            elif now - max(began, last or began) > FRESH + BUCKET:
                uses[driver, pool, name] = DeviceUse.NO_TELEMETRY, last or began
    return uses


def past_utilization(claims: list[Claim], since: datetime) -> float | None:
    """Return the mean of 0 to 1 over all buckets of these claims; None without telemetry."""
    return mean_activity(claims, since, now=timezone.now())


MAX_BINS = 400  # a phone has no more pixels, and the table stays readable
STEPS = tuple(BUCKET * factor for factor in (1, 2, 3, 6, 12, 24, 48, 72, 144, 288, 576, 1440, 2880))

SERIES = """
SELECT date_bin(%(width)s, bucket, %(epoch)s) AS bin, device,
       sum(activity * samples) / nullif(sum(samples) FILTER (WHERE activity IS NOT NULL), 0),
       max(memory_bytes),
       sum(power_watts * samples) / nullif(sum(samples) FILTER (WHERE power_watts IS NOT NULL), 0),
       sum(samples)
FROM usage_rollup
WHERE claim_id = %(claim)s AND bucket >= %(start)s AND bucket < %(end)s
GROUP BY bin, driver, pool, device ORDER BY bin, device
"""


class Range(StrEnum):
    """`TODAY` and `MONTH` begin at midnight in the reader's zone; `OWN` has bounds of its own."""

    HOUR = "1h"
    TODAY = "today"
    DAY = "24h"
    WEEK = "7d"
    DAYS_30 = "30d"
    MONTH = "month"
    LIFE = "life"
    OWN = "own"


SPANS = {
    Range.HOUR: timedelta(hours=1),
    Range.DAY: timedelta(days=1),
    Range.WEEK: timedelta(days=7),
    Range.DAYS_30: timedelta(days=30),
}
Bounds = tuple[datetime, datetime]


class Presence(StrEnum):
    MEASURED = "measured"
    NO_TELEMETRY = "no-telemetry"
    NOT_HELD = "not-held"


@dataclass(slots=True)
class Point:
    """
    One bin. `activity` (0 to 1) is the mean of the claim's devices, `by_device` has that of each.

    `memory_bytes` (the maximum of each) and `power_watts` (the mean of each) are sums over the devices.
    """

    at: datetime
    presence: Presence
    samples: int = 0
    activity: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    by_device: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UsageSeries:
    range: Range
    start: datetime
    end: datetime
    step: timedelta
    points: list[Point]
    devices: list[str]

    @property
    def is_measured(self) -> bool:
        return any(point.presence is Presence.MEASURED for point in self.points)

    @property
    def mean_activity(self) -> float | None:
        """Return the mean weighted by samples, without bins that have no telemetry."""
        measured = [(point.activity, point.samples) for point in self.points if point.activity is not None]
        weight = sum(samples for _, samples in measured)
        return sum(activity * samples for activity, samples in measured) / weight if weight else None

    @property
    def peak_memory(self) -> int | None:
        return max(
            (point.memory_bytes for point in self.points if point.memory_bytes is not None), default=None
        )

    @property
    def unmeasured(self) -> timedelta:
        """Return the time with devices but without telemetry, in whole bins."""
        return self.step * sum(point.presence is Presence.NO_TELEMETRY for point in self.points)


def step_for(span: timedelta) -> timedelta:
    """Return the narrowest bin that divides `span` into at most `MAX_BINS`; a multiple of a rollup."""
    return next((step for step in STEPS if span / step <= MAX_BINS), STEPS[-1])


def bounds(
    claim: Claim, time_range: Range, allocations: list[Allocation], now: datetime, own: Bounds | None = None
) -> Bounds:
    """
    Return start and end, within the time in which the claim held devices.

    Of a claim that holds none any more a range of a length ends with its last one.
    """
    ends = [allocation.ended_at for allocation in allocations]
    end = max((ended_at for ended_at in ends if ended_at), default=now) if None not in ends else now
    begin = min((allocation.started_at for allocation in allocations), default=claim.created_at)
    if time_range is Range.LIFE:
        return begin, end
    if time_range in SPANS:
        return max(end - SPANS[time_range], begin), end
    midnight = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight.replace(day=1) if time_range is Range.MONTH else midnight
    start, stop = own if time_range is Range.OWN and own else (first, now)
    return min(max(start, begin), end), max(min(stop, end), begin)


def claim_series(
    claim: Claim,
    time_range: Range,
    *,
    allocations: list[Allocation],
    now: datetime,
    own: Bounds | None = None,
) -> UsageSeries:
    """
    Return the measurements of a claim, in one query. `allocations` are all of its allocations, `own` the
    bounds of `Range.OWN`.
    """
    begin, end = bounds(claim, time_range, allocations, now, own)
    step = step_for(end - begin)
    start = EPOCH + (begin - EPOCH) // step * step
    points: dict[datetime, Point] = {}
    at = start
    while at < end:
        points[at] = Point(at, presence(allocations, at, min(at + step, end), now))
        at += step
    parameters: dict[str, Any] = {
        "claim": claim.pk,
        "width": step,
        "epoch": EPOCH,
        "start": start,
        "end": end,
    }
    devices: set[str] = set()
    counts: dict[datetime, int] = {}
    with connection.cursor() as cursor:
        cursor.execute(SERIES, parameters)
        for when, device, activity, memory, power, samples in cursor.fetchall():
            point = points[when.astimezone(UTC)]
            devices.add(device)
            fill(point, counts, device, activity, memory, power, samples)
    bins = list(points.values())
    if bins and bins[-1].presence is Presence.NO_TELEMETRY and bins[-1].at + step > now:
        bins.pop()  # it has just begun: no sample yet is no gap
    return UsageSeries(time_range, start, end, step, bins, sorted(devices))


def fill(
    point: Point,
    counts: dict[datetime, int],
    device: str,
    activity: float | None,
    memory: int | None,
    power: float | None,
    samples: int,
) -> None:
    """Add the bin of one device to that of the claim."""
    point.presence = Presence.MEASURED
    point.samples += samples
    if memory is not None:
        point.memory_bytes = (point.memory_bytes or 0) + memory
    if power is not None:
        point.power_watts = (point.power_watts or 0.0) + power
    if activity is not None:
        count = counts.get(point.at, 0)
        point.activity = ((point.activity or 0.0) * count + activity) / (count + 1)
        counts[point.at] = count + 1
        point.by_device[device] = activity


def presence(allocations: list[Allocation], start: datetime, end: datetime, now: datetime) -> Presence:
    """Return why a bin has no samples."""
    overlap = any(
        allocation.started_at < end and (allocation.ended_at or now) > start for allocation in allocations
    )
    return Presence.NO_TELEMETRY if overlap else Presence.NOT_HELD


GIB = 2**30
MAX_LINES = 5  # one color each; more devices are one line, their mean


def chart_data(series: UsageSeries, allocations: Sequence[Allocation]) -> dict[str, Any]:
    """
    Return two plots over the same instants (Unix seconds): activity in per cent, memory in GiB.

    None is a gap. `limit` is the memory of the devices that are held together.
    """
    per_device = 1 < len(series.devices) <= MAX_LINES
    activity = (
        [
            {"label": device, "values": [percent(point.by_device.get(device)) for point in series.points]}
            for device in series.devices
        ]
        if per_device
        else [{"label": "utilization", "values": [percent(point.activity) for point in series.points]}]
    )
    memory = [
        None if point.memory_bytes is None else round(point.memory_bytes / GIB, 2) for point in series.points
    ]
    return {
        "x": [int(point.at.timestamp()) for point in series.points],
        "step": int(series.step.total_seconds()),
        "activity": activity,
        "memory": memory,
        "limit": memory_limit(allocations),
    }


def percent(value: float | None) -> float | None:
    return None if value is None else round(value * 100, 1)


def memory_limit(allocations: Sequence[Allocation]) -> float | None:
    """Return the GiB of the devices held now, else of those held last; None if one publishes no memory."""
    last_end = max((allocation.ended_at for allocation in allocations if allocation.ended_at), default=None)
    if any(allocation.ended_at is None for allocation in allocations):
        last_end = None
    sizes = {
        (allocation.driver, allocation.pool, allocation.device): allocation.memory_bytes
        for allocation in allocations
        if allocation.ended_at == last_end
    }
    known_sizes = [size for size in sizes.values() if size is not None]
    return round(sum(known_sizes) / GIB, 2) if known_sizes and len(known_sizes) == len(sizes) else None
