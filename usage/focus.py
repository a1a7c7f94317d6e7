"""
The cost of a month in the format of FOCUS 1.2 (FinOps Open Cost and Usage Specification), as rows of CSV;
`usage.focus_parquet` writes the same rows as Parquet.

A row is a ledger entry (`usage.cost`): of past days those that are stored, of today from allocations. The
team is the sub account, the claim the resource, the product the SKU and its rate the SKU price. `BilledCost`
is the entry in whole cents, so the rows add up to the team's page; `ListUnitPrice × PricingQuantity`, which
has ten digits, is `ListCost` exactly. A correction of a closed month has `ChargeClass` Correction, the charge
period of its day and the billing period in which it is booked. Held time without a rate has the cost 0 and
`x_HasRate` false, as FOCUS knows no unknown cost. Energy and CO₂ stand in rows of stored days.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

from django.db.models import FloatField, OuterRef, Q, QuerySet, Subquery, Value

from claims.models import Allocation
from core.listing import Echo, escape_formula
from core.models import Installation
from dra.placement import CapacityType
from teams.models import User
from usage.cost import (
    CURRENCY_UNIT,
    DEVICE_HOUR,
    Interval,
    Ledger,
    LedgerEntry,
    LineKey,
    UsageInterval,
    millionths,
    rounded,
)
from usage.daily import DAY, midnight, stored_until
from usage.energy import KILOWATT_HOUR, Energy
from usage.fleet_report import Period
from usage.models import Correction, DailyActivity, DailyUse, Rate
from usage.owners import PreviousOwners
from usage.rates import PriceGroup, RateCard

SERVICE = "GPU claims"
ISSUER = "Dragoman"
DIGITS = Decimal(1).scaleb(-10)
NULL = ""  # of a CSV file
NUMBER = re.compile(r"-?[0-9.]+")  # also of a correction: no formula

CLAIM = (
    "claim_id",
    "claim__name",
    "claim__namespace",
    "claim__cluster__name",
    "claim__team__slug",
    "claim__team__title",
    "claim__profile_version__profile__slug",
)
STORED = (
    *("owner__username", "driver", "product", "partition", "capacity_type", "rate_id"),
    *("day", "held", "amount"),
)
KIND = ("claim", "day", "driver", "product", "partition", "capacity_type")
OF_DAY = DailyActivity.objects.filter(**{name: OuterRef(name) for name in KIND})
ENERGY: dict[str, Any] = {
    f"{name}_of_day": Subquery(OF_DAY.values(name)[:1])
    for name in ("held", "joules", "joules_estimated", "grams_per_kwh")
}
NO_ENERGY: dict[str, Any] = {name: Value(None, FloatField()) for name in ENERGY}
HELD = (
    *("driver", "product", "basis_id", "partition", "capacity_type", "fraction"),
    *("started_at", "ended_at", "claim__cluster_id", "claim__requested_by_id"),
)


@dataclass(frozen=True, slots=True)
class ChargedClaim:
    """What a row says of a claim, as the columns of `CLAIM`."""

    pk: UUID
    name: str
    namespace: str
    cluster: str
    team: str
    team_title: str
    profile: str


# With the user name of its owner, the amount, whether it is a correction, and the energy of a stored entry.
type Billed = tuple[ChargedClaim, LedgerEntry, str, int, bool, Energy | None]


def entries(period: Period, *, now: datetime) -> Iterator[Billed]:
    """
    Yield the entries of a period up to now, in the memory of one claim: first those of the stored days, then
    those of today, then the corrections of closed months that are booked in it.
    """
    card = RateCard.load()
    rates = {rate.pk: rate for rate in card.rates}
    until = max(period.first, min(stored_until() or period.first, period.end))
    stored = DailyUse.objects.filter(day__gte=period.first, day__lt=until).order_by("claim_id", "day", "pk")
    yield from _of_rows(stored, rates, is_correction=False)
    span = Interval(midnight(until), min(period.span.end, now))
    if span.start < span.end:
        yield from entries_since(span, card)
    booked = Correction.objects.filter(booked_on__gte=period.first, booked_on__lt=period.end)
    yield from _of_rows(booked.order_by("claim_id", "day", "pk"), rates, is_correction=True)


def _part_of_day(
    held: int,
    held_of_day: Decimal | None,
    joules: float | None,
    estimated: float,
    grams_per_kwh: int | None,
) -> Energy | None:
    """Return the part of the energy of its devices of the day that an entry has, by the time held."""
    if not held_of_day or joules is None:
        return None
    share = held / int(held_of_day)
    grams = grams_per_kwh and joules / KILOWATT_HOUR * grams_per_kwh * share
    return Energy(joules * share, estimated * share, grams)


def _of_rows(rows: QuerySet[Any], rates: Mapping[UUID, Rate], *, is_correction: bool) -> Iterator[Billed]:
    columns = (*CLAIM, *STORED, *ENERGY)
    for row in rows.annotate(**(NO_ENERGY if is_correction else ENERGY)).values_list(*columns).iterator(2000):
        claim = ChargedClaim(*row[: len(CLAIM)])
        owner, driver, product, partition, capacity, rate, day, held, amount, *of_day = row[len(CLAIM) :]
        line = LineKey(claim.pk, product, partition)
        entry = LedgerEntry(line, driver, rates.get(rate), day, int(held), capacity)
        yield claim, entry, owner, int(amount), is_correction, _part_of_day(int(held), *of_day)


def entries_since(span: Interval, card: RateCard) -> Iterator[Billed]:
    """Yield the entries of a span from allocations, in the memory of one claim and of all people."""
    allocations = Allocation.objects.gpus().filter(
        Q(ended_at=None) | Q(ended_at__gt=span.start), started_at__lt=span.end
    )
    rows = allocations.order_by("claim_id", "started_at", "device").values_list(*CLAIM, *HELD)
    owners: PreviousOwners | None = None
    names: dict[UUID | None, str] = {}
    for cells, of_claim in groupby(rows.iterator(chunk_size=2000), key=itemgetter(slice(len(CLAIM)))):
        if owners is None:  # after the rows
            owners = PreviousOwners(span.start)
            names.update(User.objects.values_list("pk", "username"))
        claim, found = ChargedClaim(*cells), Ledger()
        for row in of_claim:
            driver, product, basis, partition, capacity, fraction, start, end, cluster, person = row[
                len(CLAIM) :
            ]
            kind = PriceGroup(cluster, driver, product, basis)
            parts = millionths(fraction)
            usage = UsageInterval(claim.pk, kind, partition, parts, start, end, capacity, person)
            for part in owners.divide(usage):
                found.add(part, card, until=span.end, within=span)
        for entry in sorted(found, key=attrgetter("day")):
            yield claim, entry, names[entry.line.owner], sum(entry.cost.exact.values()), False, None


@dataclass(frozen=True, slots=True)
class Row:
    """What the columns are made of."""

    claim: ChargedClaim
    entry: LedgerEntry
    owner: str
    amount: int
    is_correction: bool
    energy: Energy | None
    period: Period
    installation: Installation

    @property
    def name(self) -> str:
        return f"{self.entry.line.product or 'unknown product'} {self.entry.line.partition}".strip()

    @property
    def hours(self) -> Decimal:
        return (Decimal(self.entry.held) / DEVICE_HOUR).quantize(DIGITS, ROUND_HALF_UP)

    @property
    def price(self) -> Decimal:
        return self.entry.rate.per_hour if self.entry.rate else Decimal(0)

    @property
    def cost(self) -> str:
        """The entry as it is billed, in whole cents."""
        return text(rounded(self.amount, CURRENCY_UNIT))

    @property
    def product_of_price(self) -> str:
        """Price × quantity, before it is rounded to cents."""
        return text(self.hours * self.price)

    @property
    def currency(self) -> str:
        return self.entry.rate.currency if self.entry.rate else self.installation.currency


# The columns of FOCUS 1.2 that apply here, in the order of their names, then our own.
COLUMNS: dict[str, Callable[[Row], str]] = {
    "BilledCost": lambda row: row.cost,
    "BillingAccountId": lambda _row: "dragoman",
    "BillingAccountName": lambda row: row.installation.name or ISSUER,
    "BillingAccountType": lambda _row: "Installation",
    "BillingCurrency": lambda row: row.currency,
    "BillingPeriodEnd": lambda row: instant(row.period.span.end),
    "BillingPeriodStart": lambda row: instant(row.period.span.start),
    "ChargeCategory": lambda _row: "Usage",
    "ChargeClass": lambda row: "Correction" if row.is_correction else NULL,
    "ChargeDescription": lambda row: f"{row.name} held by claim {row.claim.name} of {row.claim.team}",
    "ChargeFrequency": lambda _row: "Usage-Based",
    "ChargePeriodEnd": lambda row: instant(midnight(row.entry.day + DAY)),
    "ChargePeriodStart": lambda row: instant(midnight(row.entry.day)),
    "CommitmentDiscountStatus": lambda _row: NULL,  # rules of the validator read it
    "ConsumedQuantity": lambda row: text(row.hours),
    "ConsumedUnit": lambda _row: "Hours",
    "ContractedCost": lambda row: row.product_of_price,
    "ContractedUnitPrice": lambda row: text(row.price),
    "EffectiveCost": lambda row: row.cost,
    "InvoiceId": lambda _row: NULL,
    "InvoiceIssuerName": lambda _row: ISSUER,
    "ListCost": lambda row: row.product_of_price,
    "ListUnitPrice": lambda row: text(row.price),
    "PricingCategory": lambda row: "Dynamic" if row.entry.capacity_type == CapacityType.SPOT else "Standard",
    "PricingCurrency": lambda row: row.currency,
    "PricingCurrencyContractedUnitPrice": lambda row: text(row.price),
    "PricingCurrencyEffectiveCost": lambda row: row.cost,
    "PricingCurrencyListUnitPrice": lambda row: text(row.price),
    "PricingQuantity": lambda row: text(row.hours),
    "PricingUnit": lambda _row: "Hours",
    "ProviderName": lambda _row: ISSUER,
    "PublisherName": lambda _row: ISSUER,
    "RegionId": lambda row: row.claim.cluster,
    "RegionName": lambda row: row.claim.cluster,
    "ResourceId": lambda row: f"{row.claim.cluster}/{row.claim.namespace}/{row.claim.pk}",
    "ResourceName": lambda row: row.claim.name,
    "ResourceType": lambda _row: "ResourceClaim",
    "ServiceCategory": lambda _row: "Compute",
    "ServiceName": lambda _row: SERVICE,
    "ServiceSubcategory": lambda _row: "Other (Compute)",
    "SkuId": lambda row: f"{row.entry.driver}/{row.name}",
    "SkuMeter": lambda _row: "GPU-hours",
    "SkuPriceDetails": lambda row: json.dumps(
        {
            "x_Model": row.entry.line.product,
            "x_Partition": row.entry.line.partition,
            "x_CapacityType": row.entry.capacity_type,
        }
    ),
    "SkuPriceId": lambda row: f"{row.entry.rate.pk if row.entry.rate else 'no-rate'}/{row.name}",
    "SubAccountId": lambda row: row.claim.team,
    "SubAccountName": lambda row: row.claim.team_title,
    "SubAccountType": lambda _row: "Team",
    "Tags": lambda row: json.dumps(
        {"team": row.claim.team, "owner": row.owner, "profile": row.claim.profile}
    ),
    "x_DeviceDriver": lambda row: row.entry.driver,
    "x_GpuModel": lambda row: row.entry.line.product,
    "x_MigProfile": lambda row: row.entry.line.partition,
    "x_CapacityType": lambda row: row.entry.capacity_type,
    "x_HasRate": lambda row: "true" if row.entry.rate else "false",
    "x_EnergyKWh": lambda row: f"{row.energy.kilowatt_hours:.6f}" if row.energy else NULL,
    "x_EnergyIsEstimated": lambda row: str(not row.energy.is_measured).lower() if row.energy else NULL,
    "x_Co2Kg": lambda row: (
        f"{row.energy.kilograms:.6f}" if row.energy and row.energy.kilograms is not None else NULL
    ),
}


def focus_rows(period: Period, *, now: datetime) -> Iterator[list[str]]:
    """Yield the cells of each row in the order of `COLUMNS`; null is empty."""
    installation = Installation.load()
    for billed in entries(period, now=now):
        row = Row(*billed, period, installation)
        yield [column(row) for column in COLUMNS.values()]


def focus_lines(period: Period, *, now: datetime) -> Iterator[str]:
    """Yield the CSV file line by line, with its heads."""
    writer = csv.writer(Echo())
    yield writer.writerow(COLUMNS)
    for cells in focus_rows(period, now=now):
        yield writer.writerow([cell if NUMBER.fullmatch(cell) else escape_formula(cell) for cell in cells])


def text(value: Decimal) -> str:
    """
    Return a number without an exponent and, but for one digit, without zeros at its end: readers that guess
    types from the values take a column of whole numbers for integers, which FOCUS does not allow.
    """
    number = f"{value.normalize():f}"
    return number if "." in number else f"{number}.0"


def instant(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
