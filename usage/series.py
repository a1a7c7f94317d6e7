"""
Measurements of a claim over time, in equal bins, and the graph and table made of them.

Measurements of a claim over a range of time, cut into equal bins: what the graph draws and its table lists.

A bin without samples is "no telemetry" while a device was held, and "not held" otherwise; neither is a
zero.

What the browser draws of a series. The table under the graph shows the same points in words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import connection

from claims.models import Allocation, Claim
from usage.rollups import BUCKET, EPOCH

LARGEST = 400  # bins in a graph: more than its pixels can show apart on a phone, and its table stays readable
NICE = tuple(BUCKET * factor for factor in (1, 2, 3, 6, 12, 24, 48, 72, 144, 288, 576, 1440, 2880))

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
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    LIFE = "life"


SPANS = {Range.HOUR: timedelta(hours=1), Range.DAY: timedelta(days=1), Range.WEEK: timedelta(days=7)}


class Presence(StrEnum):
    MEASURED = "measured"
    NO_TELEMETRY = "no-telemetry"
    NOT_HELD = "not-held"


@dataclass(slots=True)
class Point:
    """
    One bin. `activity` (0 to 1) is the mean over the claim's devices, `by_device` that of each.

    `memory_bytes` and `power_watts` are sums over its devices, memory of the largest that each used.
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
        """Return the mean weighted by samples; bins without telemetry are left out."""
        known = [(point.activity, point.samples) for point in self.points if point.activity is not None]
        weight = sum(samples for _, samples in known)
        return sum(activity * samples for activity, samples in known) / weight if weight else None

    @property
    def peak_memory(self) -> int | None:
        return max(
            (point.memory_bytes for point in self.points if point.memory_bytes is not None), default=None
        )

    @property
    def unmeasured(self) -> timedelta:
        """Return how long devices were held without telemetry, to the width of a bin."""
        return self.step * sum(point.presence is Presence.NO_TELEMETRY for point in self.points)


def step_for(span: timedelta) -> timedelta:
    """Return the narrowest bin, a multiple of a rollup's, that cuts `span` into at most `LARGEST`."""
    return next((step for step in NICE if span / step <= LARGEST), NICE[-1])


def bounds(claim: Claim, wanted: Range, held: list[Allocation], now: datetime) -> tuple[datetime, datetime]:
    """Return from when to when. A claim that holds nothing any more is shown up to its last device's end."""
    open_now = any(one.ended_at is None for one in held)
    end = now if open_now or not held else max(one.ended_at for one in held if one.ended_at)
    begin = min((one.started_at for one in held), default=claim.created_at)
    return (begin, end) if wanted is Range.LIFE else (max(end - SPANS[wanted], begin), end)


def claim_series(claim: Claim, wanted: Range, *, held: list[Allocation], now: datetime) -> UsageSeries:
    """Return the measurements of `claim`, in one query. `held` are all of its allocations."""
    begin, end = bounds(claim, wanted, held, now)
    step = step_for(end - begin)
    start = EPOCH + (begin - EPOCH) // step * step
    points: dict[datetime, Point] = {}
    at = start
    while at < end:
        points[at] = Point(at, presence(held, at, min(at + step, end), now))
        at += step
    asked: dict[str, Any] = {"claim": claim.pk, "width": step, "epoch": EPOCH, "start": start, "end": end}
    names: set[str] = set()
    counts: dict[datetime, int] = {}
    with connection.cursor() as cursor:
        cursor.execute(SERIES, asked)
        for when, device, activity, memory, power, samples in cursor.fetchall():
            point = points[when.astimezone(UTC)]
            names.add(device)
            fill(point, counts, device, activity, memory, power, samples)
    cut = list(points.values())
    if cut and cut[-1].presence is Presence.NO_TELEMETRY and cut[-1].at + step > now:
        cut.pop()  # it has only just begun: nothing measured yet is not a gap
    return UsageSeries(wanted, start, end, step, cut, sorted(names))


def fill(
    point: Point,
    counts: dict[datetime, int],
    device: str,
    activity: float | None,
    memory: int | None,
    power: float | None,
    samples: int,
) -> None:
    """Add one device's bin to the claim's."""
    point.presence = Presence.MEASURED
    point.samples += samples
    if memory is not None:
        point.memory_bytes = (point.memory_bytes or 0) + memory
    if power is not None:
        point.power_watts = (point.power_watts or 0.0) + power
    if activity is not None:
        known = counts.get(point.at, 0)
        point.activity = ((point.activity or 0.0) * known + activity) / (known + 1)
        counts[point.at] = known + 1
        point.by_device[device] = activity


def presence(held: list[Allocation], start: datetime, end: datetime, now: datetime) -> Presence:
    """Say what a bin without samples is."""
    overlap = any(one.started_at < end and (one.ended_at or now) > start for one in held)
    return Presence.NO_TELEMETRY if overlap else Presence.NOT_HELD


GIB = 2**30
LINES = 5  # one colour each; with more devices than this their mean is one line


def chart_data(series: UsageSeries, held: Sequence[Allocation]) -> dict[str, Any]:
    """
    Return two plots over the same instants (Unix seconds): activity in per cent, memory in GiB.

    None is a gap that nothing is drawn across. `limit` is the memory of the devices held at once.
    """
    apart = 1 < len(series.devices) <= LINES
    activity = (
        [
            {"label": device, "values": [percent(point.by_device.get(device)) for point in series.points]}
            for device in series.devices
        ]
        if apart
        else [{"label": "activity", "values": [percent(point.activity) for point in series.points]}]
    )
    memory = [
        None if point.memory_bytes is None else round(point.memory_bytes / GIB, 2) for point in series.points
    ]
    return {
        "x": [int(point.at.timestamp()) for point in series.points],
        "step": int(series.step.total_seconds()),
        "activity": activity,
        "memory": memory,
        "limit": memory_limit(held),
    }


def percent(value: float | None) -> float | None:
    return None if value is None else round(value * 100, 1)


def memory_limit(held: Sequence[Allocation]) -> float | None:
    """Return the GiB of what is held now, else of what was held last; None where a device does not tell."""
    now = [one for one in held if one.ended_at is None]
    last = max((one.ended_at for one in held if one.ended_at), default=None)
    counted = now or [one for one in held if one.ended_at == last]
    sizes = {(one.driver, one.pool, one.device): one.memory_bytes for one in counted}
    known = [size for size in sizes.values() if size is not None]
    return round(sum(known) / GIB, 2) if known and len(known) == len(sizes) else None
