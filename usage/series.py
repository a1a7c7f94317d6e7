"""
The utilization of a claim's devices, or of one device, over time in equal bins.

Bins of less than an hour are made of five minutes, wider ones of hours (`usage.hourly`). A bin without
samples is "no telemetry" if a device was held, else "not held"; neither is 0. The table below
the graph shows the same points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import connection
from django.utils import timezone

from claims.models import Allocation, Claim
from inventory.models import Device
from usage.hourly import read_sql
from usage.partitions import KEEP
from usage.samples import BUCKET, EPOCH, EVERY, HOUR, MEANS

MAX_BINS = 400  # a phone has no more pixels, and the table stays readable
STEPS = tuple(BUCKET * factor for factor in (1, 2, 3, 6, 12, 24, 48, 72, 144, 288, 576, 1440, 2880))

# Of a bin of one device, the values that are means weighted by samples, largest values, and sums.
MEASURES = {
    **dict.fromkeys(MEANS, "sum({0} * samples) / nullif(sum(samples) FILTER (WHERE {0} IS NOT NULL), 0)"),
    **dict.fromkeys(("activity_max", "memory_bytes", "temperature"), "max({0})"),
    "energy_joules": "sum({0})",
}
SERIES = f"""
SELECT date_bin(%(width)s, bucket, %(epoch)s) AS bin, pool, device, sum(samples)::bigint,
       {", ".join(measure.format(name) for name, measure in MEASURES.items())}
FROM {{source}} GROUP BY bin, driver, pool, device ORDER BY bin, pool, device
"""  # noqa: S608, names of columns
OF_CLAIM = "claim_id = %(claim)s AND bucket >= %(start)s AND bucket < %(end)s"
OF_DEVICE = """claim_id = ANY(%(claims)s) AND driver = %(driver)s AND pool = %(pool)s
AND device = %(device)s AND bucket >= %(start)s AND bucket < %(end)s"""
FROM_ROLLUPS = SERIES.format(source=f"usage_rollup WHERE {OF_CLAIM}")
DEVICE_FROM_ROLLUPS = SERIES.format(source=f"usage_rollup WHERE {OF_DEVICE}")
FROM_HOURS = SERIES.format(source=f"({read_sql(OF_CLAIM)}) hours")


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
    One bin. Activities (0 to 1) are the mean of the claim's devices, `by_device` has that of each.

    `memory_bytes` (the maximum of each), `power_watts` (the mean of each), energy and bytes per second are
    sums over the devices; `temperature` and `activity_max` are the highest. Of the samples that could have
    been taken while devices were held, `expected`, so many were.
    """

    at: datetime
    presence: Presence
    samples: int = 0
    expected: int = 0
    activity: float | None = None
    activity_max: float | None = None
    sm_activity: float | None = None
    tensor_activity: float | None = None
    memory_activity: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    pcie_bytes: float | None = None
    nvlink_bytes: float | None = None
    temperature: float | None = None
    by_device: dict[str, float] = field(default_factory=dict)


ADDED = ("memory_bytes", "power_watts", "energy_joules", "pcie_bytes", "nvlink_bytes")
HIGHEST = ("activity_max", "temperature")


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
    def peak_activity(self) -> float | None:
        peaks = [point.activity_max for point in self.points if point.activity_max is not None]
        return max(peaks, default=None)

    @property
    def samples(self) -> int:
        return sum(point.samples for point in self.points)

    @property
    def expected(self) -> int:
        return sum(point.expected for point in self.points)

    @property
    def coverage(self) -> float | None:
        """Return the share of the expected samples that were taken; None if nothing was held."""
        return min(self.samples / self.expected, 1.0) if self.expected else None

    def has(self, measure: str) -> bool:
        """Return whether a value of this name was measured in any bin."""
        return any(getattr(point, measure) is not None for point in self.points)

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
    if begin < now - KEEP:
        step = max(step, HOUR)
    start = EPOCH + (begin - EPOCH) // step * step
    points: dict[datetime, Point] = {}
    at = start
    while at < end:
        until = min(at + step, end)
        held = held_time(allocations, max(at, begin), until, now)
        presence = Presence.NO_TELEMETRY if held else Presence.NOT_HELD
        points[at] = Point(at, presence, expected=held // EVERY)
        at += step
    statement = FROM_ROLLUPS if step < HOUR else FROM_HOURS
    devices = _measure(points, statement, {"claim": claim.pk, "width": step, "start": start, "end": end})
    return UsageSeries(time_range, start, end, step, _begun(points, step, now), devices)


def device_series(
    device: Device, time_range: Range, *, allocations: Sequence[Allocation], now: datetime
) -> UsageSeries:
    """
    Return what was measured of a device while these allocations held it, in one query.

    The range is one of `SPANS` of at most `KEEP`, and the series has all of it, also while nothing held the
    device. `expected` counts each of several claims that share it.
    """
    span = SPANS[time_range]
    step = step_for(span)
    start = EPOCH + (now - span - EPOCH) // step * step
    held = [timedelta(0)] * (-((start - now) // step))
    for allocation in allocations:
        begin, end = max(allocation.started_at, start), min(allocation.ended_at or now, now)
        for number in range((begin - start) // step, len(held)):
            at = start + number * step
            if at >= end:
                break
            held[number] += min(at + step, end) - max(at, begin)
    points = {
        (at := start + number * step): Point(
            at, Presence.NO_TELEMETRY if time else Presence.NOT_HELD, expected=time // EVERY
        )
        for number, time in enumerate(held)
    }
    parameters = {
        "claims": list({allocation.claim_id for allocation in allocations}),
        **{"driver": device.driver, "pool": device.pool, "device": device.name},
        **{"width": step, "start": start, "end": now},
    }
    names = _measure(points, DEVICE_FROM_ROLLUPS, parameters)
    return UsageSeries(time_range, start, now, step, _begun(points, step, now), names)


def _measure(points: dict[datetime, Point], statement: str, parameters: Mapping[str, Any]) -> list[str]:
    """
    Fill in what was measured; return the names of the devices, of those that several nodes have with the
    pool.
    """
    values: dict[tuple[datetime, str], list[float]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(statement, {**parameters, "epoch": EPOCH})
        rows = cursor.fetchall()
    pools: dict[str, set[str]] = defaultdict(set)
    for _when, pool, device, *_measures in rows:
        pools[device].add(pool)
    devices: set[str] = set()
    for when, pool, device, samples, *measures in rows:
        point = points[when.astimezone(UTC)]
        title = device if len(pools[device]) == 1 else f"{pool}/{device}"
        devices.add(title)
        point.presence = Presence.MEASURED
        point.samples += samples
        for name, value in zip(MEASURES, measures, strict=True):
            if value is not None:
                values[point.at, name].append(value)
                if name == "activity":
                    point.by_device[title] = value
    for (when, name), of_devices in values.items():
        setattr(points[when], name, together(name, of_devices))
    return sorted(devices)


def _begun(points: dict[datetime, Point], step: timedelta, now: datetime) -> list[Point]:
    """Return the points, without a last one that has just begun: no sample yet is no gap."""
    bins = list(points.values())
    if bins and bins[-1].presence is Presence.NO_TELEMETRY and bins[-1].at + step > now:
        bins.pop()
    return bins


def together(name: str, values: list[float]) -> float:
    """Return the value of a claim from those of its devices."""
    if name in HIGHEST:
        return max(values)
    return sum(values) if name in ADDED else sum(values) / len(values)


def held_time(allocations: list[Allocation], start: datetime, end: datetime, now: datetime) -> timedelta:
    """Return for how long devices were held in a span, each on its own."""
    spans = (
        min(allocation.ended_at or now, end) - max(allocation.started_at, start)
        for allocation in allocations
        if allocation.started_at < end and (allocation.ended_at or now) > start
    )
    return sum(spans, timedelta(0))
