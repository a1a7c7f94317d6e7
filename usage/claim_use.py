"""
What a claim has used over its life: by device, energy, errors, and its cost divided into used and idle.

Money follows the rule of reports and team pages: of a claim's day (UTC), mean utilization × cost is used, the
rest is idle, and a day without a measurement is neither. So the three parts add up to the cost to the cent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from claims.models import Allocation, Claim
from inventory.hardware_events import MAX_LINES, HardwareError, errors_of
from inventory.models import HardwareEvent
from usage.cost import CENT, Cost, Ledger, UsageInterval
from usage.daily import midnight
from usage.hourly import read_sql
from usage.rates import RateCard
from usage.samples import EVERY

KILOWATT_HOUR = 3_600_000  # joules

# The 95th percentile of hours is that of their own 95th percentiles: exact for even work, never too low.
DEVICES = f"""
SELECT driver, pool, device, sum(samples)::bigint,
       sum(activity * samples) / nullif(sum(samples) FILTER (WHERE activity IS NOT NULL), 0),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY activity_p95),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY memory_p95), max(memory_bytes), max(memory_total),
       sum(power_watts * samples) / nullif(sum(samples) FILTER (WHERE power_watts IS NOT NULL), 0),
       sum(coalesce(energy_joules, power_watts * samples * %(every)s)),
       bool_and(energy_joules IS NOT NULL), max(temperature), sum(ecc_corrected), sum(ecc_uncorrected)
FROM ({read_sql("claim_id = %(claim)s")}) hours
GROUP BY driver, pool, device ORDER BY driver, pool, device
"""  # noqa: S608, names of columns


@dataclass(frozen=True, slots=True)
class Energy:
    """
    Joules; `is_measured` if a counter of the GPU counted all of it, else power × time or the part of a
    partition in its GPU is in it.
    """

    joules: float
    is_measured: bool

    @property
    def kilowatt_hours(self) -> float:
        return self.joules / KILOWATT_HOUR


@dataclass(frozen=True, slots=True)
class DeviceLife:
    """One device over the life of a claim; None is not measured. `allocation` is its last one."""

    driver: str
    pool: str
    device: str
    measured: timedelta
    activity: float | None
    activity_p95: float | None
    memory_p95: int | None
    memory_peak: int | None
    memory_total: int | None
    power_watts: float | None
    energy: Energy | None
    temperature: float | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    allocation: Allocation | None


def devices_of(claim: Claim, allocations: Sequence[Allocation]) -> list[DeviceLife]:
    """Return the measured devices of a claim; one query."""
    held = {(row.driver, row.pool, row.device): row for row in allocations}
    with connection.cursor() as cursor:
        cursor.execute(DEVICES, {"claim": claim.pk, "every": EVERY.total_seconds()})
        rows = cursor.fetchall()
    return [_device(row, held.get(tuple(row[:3]))) for row in rows]


def _device(row: tuple[Any, ...], allocation: Allocation | None) -> DeviceLife:
    driver, pool, device, samples, activity, activity_p95, memory_p95, peak, total, watts = row[:10]
    joules, is_measured, temperature, corrected, uncorrected = row[10:]
    if total is None and allocation is not None:
        total = allocation.memory_bytes
    part = float(allocation.fraction) if allocation is not None and allocation.fraction < 1 else 1.0
    return DeviceLife(
        driver,
        pool,
        device,
        samples * EVERY,
        activity,
        activity_p95,
        None if memory_p95 is None else round(memory_p95),
        peak,
        total,
        watts,
        None if joules is None else Energy(float(joules) * part, is_measured and part == 1),
        temperature,
        corrected,
        uncorrected,
        allocation,
    )


def energy_of(devices: Sequence[DeviceLife]) -> Energy | None:
    """Return the energy of all devices; None if no power was measured."""
    known = [device.energy for device in devices if device.energy is not None]
    if not known:
        return None
    measured = len(known) == len(devices) and all(energy.is_measured for energy in known)
    return Energy(sum(energy.joules for energy in known), measured)


@dataclass(frozen=True, slots=True)
class MoneyPart:
    """A part of the cost: its amount, and its share of the whole of 0 to 1."""

    key: str  # "used", "idle" or "none"
    label: str
    cost: Cost
    share: float


@dataclass(frozen=True, slots=True)
class MoneySplit:
    """The cost so far, divided; `parts` is empty without a rate or with several currencies."""

    total: Cost
    parts: list[MoneyPart]


# The mean utilization of each day: from its row, or from rollups while the day has none.
DAYS = """
SELECT day, activity / nullif(rollups, 0) FROM usage_dailyactivity
WHERE claim_id = %(claim)s AND day < (SELECT until FROM usage_storeddays)
UNION ALL
SELECT (bucket AT TIME ZONE 'UTC')::date, avg(activity) FROM usage_rollup
WHERE claim_id = %(claim)s AND activity IS NOT NULL AND bucket >= coalesce(
  (SELECT until::timestamp AT TIME ZONE 'UTC' FROM usage_storeddays), %(first)s)
GROUP BY 1
"""


def split_money(
    claim: Claim, allocations: Sequence[Allocation], card: RateCard, *, now: datetime
) -> MoneySplit:
    """Divide the cost of a claim until now into used, idle and not measured; one query."""
    ledger = Ledger()
    for allocation in allocations:
        ledger.add(UsageInterval.from_allocation(allocation, claim.cluster_id), card, until=now)
    whole, entries = Cost(), list[tuple[date, int]]()
    for entry in ledger:
        cost = entry.cost
        whole.add(cost)
        entries.append((entry.day, sum(cost.exact.values())))
    if len(whole.exact) != 1 or not (amount := sum(cost for _day, cost in entries)):
        return MoneySplit(whole, [])
    first = midnight(min(day for day, _cost in entries))
    with connection.cursor() as cursor:
        cursor.execute(DAYS, {"claim": claim.pk, "first": first})
        utilization = {day: mean for day, mean in cursor.fetchall() if mean is not None}
    sums: dict[str, int] = defaultdict(int)
    for day, charged in entries:
        if day in utilization:
            used = cents(charged * utilization[day])
            sums["used"] += used
            sums["idle"] += charged - used
        else:
            sums["none"] += charged
    (currency,) = whole.exact
    parts = [
        MoneyPart(key, label, Cost(whole.held, exact={currency: sums[key]}), sums[key] / amount)
        for key, label in (("used", "Used"), ("idle", "Idle"), ("none", "No telemetry"))
    ]
    return MoneySplit(whole, parts)


def cents(amount: float) -> int:
    """Return an amount in whole cents, rounded half up as PostgreSQL rounds the sums of reports."""
    return int((Decimal(amount) / CENT).to_integral_value("ROUND_HALF_UP")) * CENT


def claim_errors(claim: Claim) -> list[HardwareError]:
    """Return the last hardware events of devices while the claim held them, newest first; one query."""
    held = Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=OuterRef("at")),
        claim=claim,
        driver=OuterRef("driver"),
        pool=OuterRef("pool"),
        device=OuterRef("device"),
        started_at__lte=OuterRef("at"),
    )
    return errors_of(HardwareEvent.objects.filter(Exists(held), cluster=claim.cluster_id)[:MAX_LINES])
