"""
The data that static/dragoman/js/charts.js draws for a claim: plots over the same instants, and lines.

A value that was not measured is None, which is a gap; a plot without any value is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from claims.models import Allocation, Claim
from core.text import unit
from usage.cost import DEVICE_PARTS, UsageInterval
from usage.rates import RateCard
from usage.series import Point, UsageSeries

GIB = 2**30
GIGABYTE = 10**9
MAX_LINES = 5  # one color each; more devices are one line, their mean


def chart_data(
    series: UsageSeries, allocations: Sequence[Allocation], *, idle_percent: int | None = None
) -> dict[str, Any]:
    """
    Return plots by name over the same instants (Unix seconds): activity, compute in per cent, memory in GiB,
    power in W, traffic in GB/s. `lines` of a plot are constants to compare with.
    """
    points = series.points
    per_device = 1 < len(series.devices) <= MAX_LINES
    activity = (
        [
            {"label": device, "values": [percent(point.by_device.get(device)) for point in points]}
            for device in series.devices
        ]
        if per_device
        else [{"label": "utilization", "values": [percent(point.activity) for point in points]}]
    )
    memory = [None if point.memory_bytes is None else round(point.memory_bytes / GIB, 2) for point in points]
    plots: dict[str, Any] = {
        "x": [int(point.at.timestamp()) for point in points],
        "step": int(series.step.total_seconds()),
        "activity": activity,
        "memory": memory,
        "lines": {},
    }
    compute = [
        {"label": label, "values": [percent(getattr(point, name)) for point in points]}
        for name, label in COMPUTE.items()
        if series.has(name)
    ]
    traffic = [
        {"label": label, "values": [scaled(point, name) for point in points]}
        for name, label in TRAFFIC.items()
        if series.has(name)
    ]
    plots |= {name: lines for name, lines in (("compute", compute), ("traffic", traffic)) if lines}
    if series.has("power_watts"):
        plots["power"] = [
            None if point.power_watts is None else round(point.power_watts, 1) for point in points
        ]
    if idle_percent is not None:
        idle = {"label": f"idle below {idle_percent} %", "value": idle_percent, "kind": "idle"}
        plots["lines"]["activity"] = [idle]
    if (limit := memory_limit(allocations)) is not None:
        plots["lines"]["memory"] = [{"label": f"allocated: {limit:g} GiB", "value": limit}]
    return plots


COMPUTE = {
    "sm_activity": "multiprocessors",
    "tensor_activity": "tensor cores",
    "memory_activity": "memory bandwidth",
}
TRAFFIC = {"pcie_bytes": "PCIe", "nvlink_bytes": "NVLink"}


def percent(value: float | None) -> float | None:
    return None if value is None else round(value * 100, 1)


def scaled(point: Point, name: str) -> float | None:
    value = getattr(point, name)
    return None if value is None else round(value / GIGABYTE, 3)


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


def cost_plot(
    claim: Claim, series: UsageSeries, allocations: Sequence[Allocation], card: RateCard
) -> dict[str, Any]:
    """
    Return the plot of what is allocated, and what of it was used, idle and not measured, in money per hour.

    It shows means of bins, so they are no entries of the ledger. Empty without a rate and with rates in
    several currencies.
    """
    per_hour = [0.0] * len(series.points)
    currencies = set()
    for allocation in allocations:
        interval = UsageInterval.from_allocation(allocation, claim.cluster_id)
        start, end = max(interval.start, series.start), min(interval.end or series.end, series.end)
        for segment in card.segments(interval.kind, start, end):
            if segment.rate is None:
                continue
            currencies.add(segment.rate.currency)
            price = float(segment.rate.per_hour) * interval.parts / DEVICE_PARTS
            first = (segment.start - series.start) // series.step
            for index in range(first, len(per_hour)):
                begin = series.start + index * series.step
                if begin >= segment.end:
                    break
                # The last bin goes on: it is as long as what is over of it.
                stop = min(begin + series.step, series.end)
                overlap = min(stop, segment.end) - max(begin, segment.start)
                per_hour[index] += price * (overlap / (stop - max(begin, series.start)))
    if len(currencies) != 1:
        return {}
    parts = [divided(cost, point) for point, cost in zip(series.points, per_hour, strict=True)]
    (currency,) = currencies
    bars = [
        {"label": label, "bar": True, "values": [round(part[place], 4) for part in parts]}
        for place, label in enumerate(("used", "idle", "no telemetry"))
    ]
    allocated = {"label": "allocated", "values": [round(cost, 4) for cost in per_hour], "dash": True}
    return {"cost": [*bars, allocated], "units": {"cost": f"{unit(currency)}{{}} / h"}}


def divided(cost: float, point: Point) -> tuple[float, float, float]:
    """Return what of the cost of a bin was used, idle, and not measured: as many samples as are missing."""
    if point.activity is None:
        return 0.0, 0.0, cost
    measured = cost * min(point.samples / point.expected, 1.0) if point.expected else cost
    return measured * point.activity, measured * (1 - point.activity), cost - measured
