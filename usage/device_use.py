"""
The page of a device, as far as claims know it: who holds it, what it costs, how busy it was, who held it.

A reader sees claims of their teams, platform admins all of them. What other teams held is left out, as in
`inventory.holders`, so what looks free to others may not have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Any

from django.db.models import F, Q, QuerySet
from django.urls import reverse

from claims.catalogue.listing import DeviceKind
from claims.models import Allocation, Claim
from claims.models.limits import IDLE_AFTER, IDLE_PERCENT
from core.times import duration
from dra.devices import describe
from inventory.history import HistoryLine
from inventory.models import Device, Pod
from inventory.price_bases import basis_of
from inventory.states import DeviceUse
from teams.models import User
from usage.charts import percent
from usage.cost import Cost, Interval, UsageInterval, interval_cost
from usage.idle.reminders import reason_not_to_remind
from usage.models import IdlePeriod
from usage.rates import Prices, RateCard, device_prices
from usage.series import SPANS, Point, Presence, Range, UsageSeries, device_series

MAX_HOLDS = 5  # claims that share a device, each with its facts
MAX_LINES = 30  # of the history
MAX_ALLOCATIONS = 2_000  # of one range
UNREAD = ("spec", "original_request", "reason", "decision_note")


def price_of(device: Device, card: RateCard, now: datetime) -> Prices:
    """Return the price per hour of a device, whose node is loaded; a partition costs its fraction."""
    raw = {
        "attributes": device.attributes,
        "capacity": device.capacity,
        "consumesCounters": device.counters,
    }
    kind = DeviceKind(
        device.cluster_id,
        device.driver,
        device.product,
        describe(device.driver, raw).fraction,
        basis=basis_of(device).pk,
    )
    return device_prices([kind], card, at=now)


# Who holds it now.


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """
    A claim that holds the device. `so_far` is what this device has cost it, `idle` the part of that since
    `idle_since`; both None while it is not idle.
    """

    claim: Claim
    since: datetime
    pods: list[str]
    so_far: Cost
    idle_since: datetime | None
    idle: Cost | None
    may_remind: bool


def allocations_of(user: User, device: Device) -> QuerySet[Allocation]:
    """Return the allocations of a device to claims that the reader may see."""
    place = {"driver": device.driver, "pool": device.pool, "device": device.name}
    held = Allocation.objects.filter(**place, claim__cluster=device.cluster_id)
    if not user.is_superuser:
        held = held.filter(claim__in=Claim.objects.visible_to(user).order_by().values("pk"))
    return held


def holds_of(user: User, device: Device, card: RateCard, now: datetime) -> list[DeviceHold]:
    """Return who holds a device now, the longest first; three queries. `utilization` must be loaded."""
    related = ("claim__team", "claim__requested_by", "claim__profile_version")
    held = allocations_of(user, device).filter(ended_at=None).order_by("started_at").select_related(*related)
    allocations = list(held.defer(*(f"claim__{name}" for name in UNREAD))[:MAX_HOLDS])
    pods = _pods(device, allocations)
    idle = dict(
        IdlePeriod.objects.lasting()
        .filter(claim__in=[row.claim_id for row in allocations])
        .values_list("claim", "since")
    )
    measured = getattr(device, "utilization", None)
    quiet_since = None  # of a claim whose other devices work, only the last half hour is known
    if measured and measured.use == DeviceUse.IDLE and measured.held_by_id == device.held_by_id:
        quiet_since = measured.since
    holds = []
    for row in allocations:
        idle_since = idle.get(row.claim_id) or quiet_since
        interval = UsageInterval.from_allocation(row, device.cluster_id)
        within = Interval(idle_since, now) if idle_since else None
        holds.append(
            DeviceHold(
                row.claim,
                row.started_at,
                pods.get((row.claim.namespace, row.object_name), []),
                interval_cost(interval, card, until=now),
                idle_since,
                interval_cost(interval, card, until=now, within=within) if within else None,
                not reason_not_to_remind(user, row.claim),
            )
        )
    return holds


def _pods(device: Device, allocations: Sequence[Allocation]) -> dict[tuple[str, str], list[str]]:
    """Return the names of pods by namespace and ResourceClaim."""
    if not allocations:
        return {}
    using = Q()
    for row in allocations:
        using |= Q(namespace=row.claim.namespace, claims__contains=[row.object_name])
    found: dict[tuple[str, str], list[str]] = {}
    rows = Pod.objects.filter(using, cluster=device.cluster_id, gone_at=None).order_by("name")
    for namespace, claims, name in rows.values_list("namespace", "claims", "name"):
        for claim in claims:
            found.setdefault((namespace, claim), []).append(name)
    return found


# How busy it was.


class BinState(StrEnum):
    """What a device was in one bin of its graph."""

    IN_USE = "in use"
    IDLE = "idle"
    NO_TELEMETRY = "no telemetry"
    FREE = "free"
    UNMANAGED = "unmanaged claim"
    NOT_YOURS = "not held by your teams"


SHADED = {BinState.IDLE, BinState.UNMANAGED, BinState.FREE, BinState.NOT_YOURS}


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """The utilization of a device in a range: the points of its graph, and what it was in each of them."""

    series: UsageSeries
    states: list[BinState]

    @property
    def rows(self) -> list[tuple[Point, BinState]]:
        """Return the points and what the device was, newest first."""
        return list(zip(self.series.points, self.states, strict=True))[::-1]

    @property
    def was_held(self) -> bool:
        return any(state in (BinState.IN_USE, BinState.IDLE, BinState.NO_TELEMETRY) for state in self.states)

    @property
    def memory(self) -> int | None:
        """Return the bytes of the last point that has them."""
        known = (row.memory_bytes for row, _state in self.rows if row.memory_bytes is not None)
        return next(known, None)

    @property
    def chart(self) -> dict[str, Any]:
        """Return the data that static/dragoman/js/charts.js draws; `spans` are shaded."""
        points, step = self.series.points, int(self.series.step.total_seconds())
        spans, first = [], 0
        for state, run in groupby(self.states):
            number = len(list(run))
            if state in SHADED:
                begin = int(points[first].at.timestamp())
                spans.append({"from": begin, "to": begin + number * step, "kind": state.name.lower()})
                spans[-1]["label"] = str(state)
            first += number
        return {
            "x": [int(point.at.timestamp()) for point in points],
            "step": step,
            "activity": [percent(point.activity) for point in points],
            "spans": spans,
        }


def device_usage(user: User, device: Device, time_range: Range, *, now: datetime) -> DeviceUsage:
    """Return how busy a device was while claims that the reader may see held it; two queries."""
    since = now - SPANS[time_range]
    rows = allocations_of(user, device).filter(Q(ended_at=None) | Q(ended_at__gt=since), started_at__lt=now)
    limits = rows.annotate(
        quiet=F("claim__profile_version__idle_percent"), after=F("claim__profile_version__idle_after")
    )
    allocations = list(
        limits.only("claim_id", "started_at", "ended_at").order_by("-started_at")[:MAX_ALLOCATIONS]
    )
    series = device_series(device, time_range, allocations=allocations, now=now)
    states = _states(user, device, series, allocations)
    return DeviceUsage(series, states)


def _states(
    user: User, device: Device, series: UsageSeries, allocations: Sequence[Allocation]
) -> list[BinState]:
    unmanaged_since = None
    if device.held_by and user.is_superuser and not any(row.ended_at is None for row in allocations):
        unmanaged_since = device.held_by.allocated_at
    states = []
    for point in series.points:
        if point.presence is Presence.MEASURED:
            states.append(BinState.IN_USE)
        elif point.presence is Presence.NO_TELEMETRY:
            states.append(BinState.NO_TELEMETRY)
        elif unmanaged_since is not None and point.at + series.step > unmanaged_since:
            states.append(BinState.UNMANAGED)
        else:
            states.append(BinState.FREE if user.is_superuser else BinState.NOT_YOURS)
    for first, end in _idle_runs(series, allocations):
        states[first:end] = [BinState.IDLE] * (end - first)
    return states


def _idle_runs(series: UsageSeries, allocations: Sequence[Allocation]) -> list[tuple[int, int]]:
    """
    Return the runs of points, as [first, end), that stayed below the idle limit for as long as the profile
    says. Of several claims in one point the strictest limit counts.
    """
    points = series.points
    limits: list[tuple[float, timedelta] | None] = [None] * len(points)
    for row in allocations:
        quiet: int = row.quiet or IDLE_PERCENT  # type: ignore[attr-defined]  # annotated
        after: timedelta = row.after or IDLE_AFTER  # type: ignore[attr-defined]
        begin = max((row.started_at - series.start) // series.step, 0)
        for number in range(begin, len(points)):
            if row.ended_at is not None and points[number].at >= row.ended_at:
                break
            other = limits[number] or (1.0, timedelta(0))
            limits[number] = min(quiet / 100, other[0]), max(after, other[1])
    runs, first = list[tuple[int, int]](), 0
    while first < len(points):
        end = first
        while end < len(points) and _is_quiet(points[end], limits[end]):
            end += 1
        limit = limits[first]
        if end > first and limit is not None and (end - first) * series.step >= limit[1]:
            runs.append((first, end))
        first = max(end, first + 1)
    return runs


def _is_quiet(point: Point, limit: tuple[float, timedelta] | None) -> bool:
    peak = point.activity if point.activity_max is None else point.activity_max
    return limit is not None and peak is not None and peak < limit[0]


# Who held it.


def history_with_holders(user: User, device: Device, lines: Sequence[HistoryLine]) -> list[HistoryLine]:
    """
    Return the history of a device with its allocations, when their claims were idle, and their ends, newest
    first; two queries.
    """
    related = ("claim__team", "claim__requested_by")
    held = allocations_of(user, device).order_by("-started_at").select_related(*related)
    merged, urls = list(lines), {}
    for row in held.defer(*(f"claim__{name}" for name in UNREAD))[:MAX_LINES]:
        claim = row.claim
        who = f"{claim.team.slug}, {claim.requested_by.label}"
        url = urls[claim.pk] = reverse("claims:detail", args=[claim.pk])
        merged.append(HistoryLine(row.started_at, "held", f"Allocated to {claim}", [who], url))
        if row.ended_at is not None:
            after = f"{claim.team.slug}, after {duration(row.ended_at - row.started_at)}"
            merged.append(HistoryLine(row.ended_at, "over", f"Released by {claim}", [after], url))
    periods = IdlePeriod.objects.filter(claim__in=list(urls)).order_by("-since").select_related("claim")
    for period in periods.only("since", "devices", "claim__name")[: MAX_LINES if urls else 0]:
        which = "1 device" if period.devices == 1 else f"all {period.devices} devices"
        merged.append(
            HistoryLine(period.since, "wait", "Idle", [f"{period.claim}: {which}"], urls[period.claim_id])
        )
    return sorted(merged, key=lambda line: line.at, reverse=True)[:MAX_LINES]
