"""
Would a smaller device have been enough? What a claim has used, compared with the profiles that are offered.

Compared are the 95th percentiles of memory and activity over the life of the claim (`usage.claim_use`).
Memory says nothing of a program that reserves all that it sees, as TensorFlow, JAX and vLLM do.
Activity can be compared only between a GPU and its own partitions: one with 1/7 of the compute slices is
enough if the GPU was active for less than that share. Between models the reader has to measure.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db import connection
from django.urls import reverse

from claims.catalogue.listing import CatalogueEntry, catalogue
from claims.models import Allocation, Claim
from claims.states import RUNNING
from core.text import gib, percent
from dra.devices import mig_compute
from teams.models import User
from usage.cost import UsageInterval, per_hour
from usage.hourly import read_sql
from usage.rates import RateCard, device_prices
from usage.samples import EVERY

ENOUGH = timedelta(hours=12)  # measured, before anything is said
GIB = 2**30
RESERVED = 0.9  # of the memory: a program that takes more has reserved all that it saw
HEADROOM = 1.1  # of memory and activity: a device that is just enough is too small tomorrow

# The 95th percentile of hours is that of their own 95th percentiles, as in `usage.claim_use`.
EVIDENCE = f"""
SELECT claim_id, sum(samples)::bigint,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY activity_p95),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY memory_p95)
FROM ({read_sql("claim_id = ANY(%(claims)s)")}) hours
GROUP BY claim_id, driver, pool, device HAVING count(activity_p95) > 0
"""  # noqa: S608, names of columns


@dataclass(frozen=True, slots=True)
class Evidence:
    """The 95th percentiles of the busiest device of a claim, over the time in which it was `measured`."""

    measured: timedelta
    activity: float
    memory_bytes: int | None


def evidence(claims: Iterable[UUID]) -> dict[UUID, Evidence]:
    """Return the evidence of each of these claims that has telemetry; one query."""
    devices: dict[UUID, list[tuple[int, float, float | None]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(EVIDENCE, {"claims": list(claims)})
        for claim, *used in cursor.fetchall():
            devices[claim].append(tuple(used))
    return {claim: _busiest(rows) for claim, rows in devices.items()}


def _busiest(devices: Sequence[tuple[int, float, float | None]]) -> Evidence:
    memory = [used for *_others, used in devices if used is not None]
    return Evidence(
        max(samples for samples, *_used in devices) * EVERY,
        max(activity for _samples, activity, _memory in devices),
        round(max(memory)) if memory else None,
    )


@dataclass(frozen=True, slots=True)
class Option:
    """
    A profile that costs less per device; `lacks` says what it has too little of, "" if it would have been
    enough. `caveat` says what could not be compared. `share` of the price is saved. `activity` is the part of
    the claim's own devices that one of them computes with, None between models.
    """

    entry: CatalogueEntry
    price: Decimal
    share: float
    lacks: str
    caveat: str
    url: str
    memory: int | None
    activity: float | None

    @property
    def saves(self) -> str:
        return percent(self.share)


@dataclass(frozen=True, slots=True)
class RightSize:
    """
    The evidence of so many devices and the cheaper profiles, first those that are enough; `why_not` is why
    there are none.
    """

    evidence: Evidence
    price: Decimal  # of one device and hour
    currency: str
    options: Sequence[Option]
    why_not: str
    devices: int

    @property
    def lines_json(self) -> str:
        """Return the memory and share of the GPU of `best`, which the graphs of the claim draw as lines."""
        if self.best is None:
            return ""
        title = self.best.entry.profile.title
        lines: dict[str, Any] = {}
        if self.best.memory is not None:
            gibibytes = round(self.best.memory * self.devices / GIB, 2)
            lines["memory"] = {"label": f"{title}: {gibibytes:g} GiB", "value": gibibytes, "kind": "size"}
        if self.best.activity is not None:
            share = round(100 * self.best.activity, 1)
            lines["activity"] = {"label": f"{title}: {share:g} % of it", "value": share, "kind": "size"}
        return json.dumps(lines)

    @property
    def best(self) -> Option | None:
        """Return the cheapest that is enough, rather one that could be compared in full."""
        enough = [option for option in self.options if not option.lacks]
        return min(enough, key=lambda option: (bool(option.caveat), option.price), default=None)


def right_size(claim: Claim, held: Sequence[Allocation], user: User, *, now: datetime) -> RightSize | None:
    """
    Compare what the devices of a claim were used for with every profile that `user` may request.

    Return None if nothing can be said: too little telemetry, devices of several kinds, or no rate.
    """
    devices = [allocation for allocation in held if allocation.ended_at is None]
    if not are_alike(devices) or claim.state not in RUNNING:
        return None
    seen = evidence([claim.pk]).get(claim.pk)
    if seen is None or seen.measured < ENOUGH:
        return None
    return compare(claim, devices, seen, offers_to(user), RateCard.load(), now=now)


def are_alike(devices: Sequence[Allocation]) -> bool:
    """Return whether there are devices, and all are of one kind."""
    return len({(held.driver, held.product, held.partition) for held in devices}) == 1


def offers_to(user: User) -> list[CatalogueEntry]:
    """Return the profiles that a person may request in any number and that have a price."""
    return [
        entry
        for entry in catalogue(user)
        if entry.may_request and entry.version.scalable and entry.price is not None
    ]


def compare(
    claim: Claim,
    devices: Sequence[Allocation],
    seen: Evidence,
    offers: Sequence[CatalogueEntry],
    card: RateCard,
    *,
    now: datetime,
) -> RightSize | None:
    """
    Compare what devices of one kind were used for with these profiles, whose prices have one currency; None
    without a rate, or if theirs is in another one.
    """
    device = devices[0]
    hourly = per_hour([UsageInterval.from_allocation(device, claim.cluster_id)], card, at=now)
    if len(hourly.prices) != 1 or hourly.unpriced_held:
        return None
    ((currency, price),) = hourly.prices.items()
    if offers and currency not in device_prices(offers[0].kinds, card, at=now).spans:
        return None
    if device.memory_bytes and seen.memory_bytes and seen.memory_bytes > RESERVED * device.memory_bytes:
        taken = percent(seen.memory_bytes / device.memory_bytes)
        return RightSize(
            seen, price, currency, (), f"Its programs have taken {taken} of the memory.", len(devices)
        )
    options = [
        option_of(entry, claim, device, seen, price, len(devices))
        for entry in offers
        if entry.price is not None
        and entry.price.quantize(price) < price
        and entry.profile.pk != claim.profile_version.profile_id
    ]
    options.sort(key=lambda option: (bool(option.lacks), option.price))
    return RightSize(seen, price, currency, options, "", len(devices))


def successor_url(claim: UUID, profile: str, devices: int) -> str:
    """Return the form of a request that replaces a claim by devices of another profile, by its slug."""
    query = {"replaces": claim, "profile": profile, "devices": devices}
    return f"{reverse('claims:request')}?{urlencode(query)}"


def option_of(
    entry: CatalogueEntry, claim: Claim, device: Allocation, seen: Evidence, price: Decimal, count: int
) -> Option:
    """Return what a profile would have saved, and whether it would have been enough."""
    lacks, caveat, activity = "", "", None
    if seen.memory_bytes is not None:
        need = seen.memory_bytes * HEADROOM
        if entry.memory is None:
            caveat = "of unknown memory"
        elif entry.memory < need:
            lacks = f"{gib(entry.memory)}, {gib(round(need))} needed"
    if {kind.product for kind in entry.kinds} == {device.product}:
        part = min(kind.compute or kind.fraction for kind in entry.kinds)
        own = mig_compute(device.partition, device.product) or Fraction(device.fraction)
        activity = float(part / own)
        if not lacks and seen.activity * HEADROOM * own > part:
            lacks = f"{percent(float(part))} of the GPU, {percent(float(own) * seen.activity)} used"
    else:
        caveat = "another model: measure its speed first"
    assert entry.price is not None  # `compare` passes no others  # noqa: S101
    return Option(
        entry,
        entry.price,
        float(1 - entry.price / price),
        lacks,
        caveat,
        successor_url(claim.pk, entry.profile.slug, count),
        entry.memory,
        activity,
    )
