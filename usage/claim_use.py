"""
What a claim has used over its life: by device, energy, errors, and its cost divided into used and idle.

Money follows the rule of reports and team pages (`usage.daily_sums`): of the measured share of each entry,
what computed is used and the rest idle; the rest of the entry has no telemetry. The three add up to the
cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from claims.models import Allocation, Claim
from inventory.hardware_events import MAX_LINES, HardwareError, errors_of
from inventory.models import HardwareEvent
from usage.cost import CENT, CURRENCY_UNIT, Cost, Ledger, LedgerEntry, UsageInterval, hundredths
from usage.daily import midnight
from usage.daily_activity import Kind, times_of
from usage.energy import KILOWATT_HOUR, Energy, added
from usage.hourly import read_sql
from usage.rates import RateCard
from usage.samples import EVERY

# The 95th percentile of hours is that of their own 95th percentiles: exact for even work, never too low.
DEVICES = f"""
SELECT driver, pool, device, sum(samples)::bigint,
       sum(activity * samples) / nullif(sum(samples) FILTER (WHERE activity IS NOT NULL), 0),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY activity_p95),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY memory_p95), max(memory_bytes), max(memory_total),
       sum(power_watts * samples) / nullif(sum(samples) FILTER (WHERE power_watts IS NOT NULL), 0),
       sum(coalesce(energy_joules, power_watts * samples * %(every)s)),
       coalesce(sum(power_watts * samples * %(every)s) FILTER (WHERE energy_joules IS NULL), 0),
       max(temperature), sum(ecc_corrected), sum(ecc_uncorrected)
FROM ({read_sql("claim_id = %(claim)s")}) hours
GROUP BY driver, pool, device ORDER BY driver, pool, device
"""  # noqa: S608, names of columns


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
    cost: Cost | None = None  # None: not divided among devices

    @property
    def key(self) -> DeviceKey:
        return self.driver, self.pool, self.device


def devices_of(claim: Claim, allocations: Sequence[Allocation]) -> list[DeviceLife]:
    """Return the measured devices of a claim; one query."""
    held: dict[DeviceKey, list[Allocation]] = defaultdict(list)
    for row in allocations:
        held[row.driver, row.pool, row.device].append(row)
    with connection.cursor() as cursor:
        cursor.execute(DEVICES, {"claim": claim.pk, "every": EVERY.total_seconds()})
        rows = cursor.fetchall()
    grams = claim.cluster.grams_per_kwh
    return [_device(row, held.get((row[0], row[1], row[2]), []), grams) for row in rows]


def part_of(allocations: Sequence[Allocation], now: datetime) -> float:
    """
    Return the part of a device that a claim has of it, at most 1: its shares at once add up, those that
    follow each other count by time, as `usage.daily` counts them on each day.
    """
    held = [(row, (row.ended_at or now) - row.started_at) for row in allocations]
    seconds = sum(time.total_seconds() for _row, time in held)
    if not seconds:
        return 1.0
    span = max(row.ended_at or now for row in allocations) - min(row.started_at for row in allocations)
    shares = sum(float(row.fraction) * time.total_seconds() for row, time in held)
    return min(shares / min(seconds, span.total_seconds()), 1.0)


def _device(row: tuple[Any, ...], held: Sequence[Allocation], grams_per_kwh: int | None) -> DeviceLife:
    allocation = held[-1] if held else None
    driver, pool, device, samples, activity, activity_p95, memory_p95, peak, total, watts = row[:10]
    joules, estimated, temperature, corrected, uncorrected = row[10:]
    if total is None and allocation is not None:
        total = allocation.memory_bytes
    part = part_of(held, timezone.now())
    energy = None
    if joules is not None:
        grams = grams_per_kwh and joules * part / KILOWATT_HOUR * grams_per_kwh
        energy = Energy(joules * part, estimated if part == 1 else joules * part, grams)
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
        energy,
        temperature,
        corrected,
        uncorrected,
        allocation,
    )


def energy_of(devices: Sequence[DeviceLife]) -> Energy | None:
    """Return the energy of all devices; None if no power was measured."""
    return added(device.energy for device in devices)


type DeviceKey = tuple[str, str, str]  # driver, pool, name


def cost_by_device(
    claim: Claim, allocations: Sequence[Allocation], card: RateCard, *, now: datetime
) -> dict[DeviceKey, Cost]:
    """
    Divide the cost of a claim until now among its devices: of each ledger entry, by the time that a device
    held. Cents are given to the largest remainders, so that the devices add up to the claim.
    """
    entries: dict[Any, LedgerEntry] = {entry.key: entry for entry in _ledger(claim, allocations, card, now)}
    of_device: dict[DeviceKey, list[Allocation]] = defaultdict(list)
    for row in allocations:
        of_device[row.driver, row.pool, row.device].append(row)
    costs: dict[DeviceKey, Cost] = {}
    exact: dict[str, dict[DeviceKey, Fraction]] = defaultdict(dict)
    for device, rows in of_device.items():
        cost = costs[device] = Cost()
        for part in _ledger(claim, rows, card, now):
            whole = entries[part.key]
            cost.held += part.held
            if part.rate is None:
                cost.unpriced_held += part.held
                continue
            amount = sum(whole.cost.exact.values())
            shares = exact[part.rate.currency]
            shares[device] = shares.get(device, Fraction(0)) + Fraction(amount * part.held, whole.held)
    for currency, shares in exact.items():
        for device, amount in whole_cents(shares).items():
            costs[device].exact[currency] = amount
    return costs


def _ledger(claim: Claim, allocations: Sequence[Allocation], card: RateCard, now: datetime) -> Ledger:
    ledger = Ledger()
    for allocation in allocations:
        ledger.add(UsageInterval.from_allocation(allocation, claim.cluster_id), card, until=now)
    return ledger


def whole_cents[Key](shares: Mapping[Key, Fraction]) -> dict[Key, int]:
    """Round shares, whose sum is in whole cents, to whole cents: down, then up by the largest remainders."""
    down = {key: int(share // CENT) for key, share in shares.items()}
    left = round(sum(shares.values()) / CENT) - sum(down.values())
    order = sorted(shares, key=lambda key: (down[key] - shares[key] / CENT, str(key)))
    return {key: (down[key] + (key in order[:left])) * CENT for key in shares}


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


def split_money(
    claim: Claim, allocations: Sequence[Allocation], card: RateCard, *, now: datetime
) -> MoneySplit:
    """Divide the cost of a claim until now into used, idle and not measured; one query."""
    ledger = _ledger(claim, allocations, card, now)
    whole, entries = Cost(), list[tuple[Kind, int]]()
    for entry in ledger:
        cost = entry.cost
        whole.add(cost)
        _claim, product, partition, _owner = entry.line
        kind = entry.day, entry.driver, product, partition, entry.capacity_type
        entries.append((kind, sum(cost.exact.values())))
    if len(whole.exact) != 1 or not (amount := sum(cost for _kind, cost in entries)):
        return MoneySplit(whole, [])
    times = times_of(claim.pk, midnight(min(kind[0] for kind, _cost in entries)), now)
    sums: dict[str, int] = defaultdict(int)
    for kind, charged in entries:
        held, *parts_of_it = times.get(kind, (1, 0, 0))
        measured, used = (hundredths(charged * part, held * CURRENCY_UNIT) * CENT for part in parts_of_it)
        sums["used"] += used
        sums["idle"] += measured - used
        sums["none"] += charged - measured
    (currency,) = whole.exact
    parts = [
        MoneyPart(key, label, Cost(whole.held, exact={currency: sums[key]}), sums[key] / amount)
        for key, label in (("used", "Used"), ("idle", "Idle"), ("none", "No telemetry"))
    ]
    return MoneySplit(whole, parts)


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
