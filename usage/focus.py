"""
The cost of a month in the format of FOCUS 1.2 (FinOps Open Cost and Usage Specification), as rows of CSV.

One row is what one claim held on one day (UTC) of one product and partition at one rate. The team is the sub
account, the claim the resource, the product the SKU and its rate the SKU price. `PricingQuantity` has ten
digits, and `ContractedUnitPrice × PricingQuantity` is the cost exactly. Held time without a rate has the cost
0 and `x_HasRate` false, as FOCUS knows no unknown cost.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby
from uuid import UUID

from django.db.models import Q

from claims.models import Allocation
from core.listing import Echo, escape_formula
from core.models import Installation
from usage.cost import DEVICE_HOUR, MICROSECOND, Interval, millionths
from usage.daily import DAY, midnight, utc_day
from usage.fleet_report import Period
from usage.models import Rate
from usage.rates import PriceGroup, RateCard

SERVICE = "GPU claims"
ISSUER = "Dragoman"
DIGITS = Decimal(1).scaleb(-10)
NULL = ""  # of a CSV file

FIELDS = (
    *("claim_id", "claim__name", "claim__namespace", "claim__cluster__name", "claim__cluster_id"),
    *("claim__team__slug", "claim__team__title", "claim__requested_by__username"),
    *("claim__profile_version__profile__slug", "object_uid", "driver", "product", "partition", "fraction"),
    *("started_at", "ended_at"),
)


@dataclass(frozen=True, slots=True)
class HeldPart:
    """One allocation as a row of `FIELDS`."""

    claim_id: UUID
    claim: str
    namespace: str
    cluster: str
    cluster_id: UUID
    team: str
    team_title: str
    person: str
    profile: str
    object_uid: str
    driver: str
    product: str
    partition: str
    fraction: Decimal
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Charge:
    """What one claim held on one day at one rate, in the unit of `usage.cost.Cost.held`."""

    held: HeldPart
    day: date
    rate: Rate | None
    time: int

    @property
    def hours(self) -> Decimal:
        return (Decimal(self.time) / DEVICE_HOUR).quantize(DIGITS, ROUND_HALF_UP)

    @property
    def price(self) -> Decimal:
        return self.rate.per_hour if self.rate else Decimal(0)


def charges(period: Period, *, now: datetime) -> Iterator[Charge]:
    """Yield the charges of a period up to now, claim by claim, in the memory of one claim."""
    card = RateCard.load()
    span = Interval(period.span.start, min(period.span.end, now))
    held = Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=span.start), started_at__lt=span.end
    ).order_by("claim_id", "started_at", "device")
    rows = (HeldPart(*row) for row in held.values_list(*FIELDS).iterator(chunk_size=2000))
    for _claim, parts in groupby(rows, key=lambda part: part.claim_id):
        times: dict[tuple[date, str, str, UUID | None], int] = defaultdict(int)
        examples: dict[tuple[date, str, str, UUID | None], tuple[HeldPart, Rate | None]] = {}
        for part in parts:
            for day, rate, time in _cut(part, span, card):
                key = (day, part.product, part.partition, rate.pk if rate else None)
                times[key] += time
                examples.setdefault(key, (part, rate))
        for key in sorted(times, key=lambda key: key[:3]):
            part, rate = examples[key]
            yield Charge(part, key[0], rate, times[key])


def _cut(part: HeldPart, span: Interval, card: RateCard) -> Iterator[tuple[date, Rate | None, int]]:
    """Cut held time where a day ends or the price changes."""
    group = PriceGroup(part.cluster_id, part.driver, part.product)
    parts = millionths(part.fraction)
    start, end = max(part.started_at, span.start), min(part.ended_at or span.end, span.end)
    for segment in card.segments(group, start, end):
        day = utc_day(segment.start)
        while midnight(day) < segment.end:
            first, last = max(segment.start, midnight(day)), min(segment.end, midnight(day + DAY))
            yield day, segment.rate, (last - first) // MICROSECOND * parts
            day += DAY


@dataclass(frozen=True, slots=True)
class Row:
    """What the columns are made of."""

    charge: Charge
    period: Period
    installation: Installation

    @property
    def held(self) -> HeldPart:
        return self.charge.held

    @property
    def name(self) -> str:
        return f"{self.held.product or 'unknown product'} {self.held.partition}".strip()

    @property
    def cost(self) -> str:
        return text(self.charge.hours * self.charge.price)

    @property
    def currency(self) -> str:
        return self.charge.rate.currency if self.charge.rate else self.installation.currency


# The columns of FOCUS 1.2 in the order of their names, then our own.
COLUMNS: dict[str, Callable[[Row], str]] = {
    "AvailabilityZone": lambda _row: NULL,
    "BilledCost": lambda row: row.cost,
    "BillingAccountId": lambda _row: "dragoman",
    "BillingAccountName": lambda row: row.installation.name or ISSUER,
    "BillingAccountType": lambda _row: "Installation",
    "BillingCurrency": lambda row: row.currency,
    "BillingPeriodEnd": lambda row: instant(row.period.span.end),
    "BillingPeriodStart": lambda row: instant(row.period.span.start),
    "CapacityReservationId": lambda _row: NULL,
    "CapacityReservationStatus": lambda _row: NULL,
    "ChargeCategory": lambda _row: "Usage",
    "ChargeClass": lambda _row: NULL,
    "ChargeDescription": lambda row: f"{row.name} held by claim {row.held.claim} of {row.held.team}",
    "ChargeFrequency": lambda _row: "Usage-Based",
    "ChargePeriodEnd": lambda row: instant(midnight(row.charge.day + DAY)),
    "ChargePeriodStart": lambda row: instant(midnight(row.charge.day)),
    "CommitmentDiscountCategory": lambda _row: NULL,
    "CommitmentDiscountId": lambda _row: NULL,
    "CommitmentDiscountName": lambda _row: NULL,
    "CommitmentDiscountQuantity": lambda _row: NULL,
    "CommitmentDiscountStatus": lambda _row: NULL,
    "CommitmentDiscountType": lambda _row: NULL,
    "CommitmentDiscountUnit": lambda _row: NULL,
    "ConsumedQuantity": lambda row: text(row.charge.hours),
    "ConsumedUnit": lambda _row: "Hours",
    "ContractedCost": lambda row: row.cost,
    "ContractedUnitPrice": lambda row: text(row.charge.price),
    "EffectiveCost": lambda row: row.cost,
    "InvoiceId": lambda _row: NULL,
    "InvoiceIssuerName": lambda _row: ISSUER,
    "ListCost": lambda row: row.cost,
    "ListUnitPrice": lambda row: text(row.charge.price),
    "PricingCategory": lambda _row: "Standard",
    "PricingCurrency": lambda row: row.currency,
    "PricingCurrencyContractedUnitPrice": lambda row: text(row.charge.price),
    "PricingCurrencyEffectiveCost": lambda row: row.cost,
    "PricingCurrencyListUnitPrice": lambda row: text(row.charge.price),
    "PricingQuantity": lambda row: text(row.charge.hours),
    "PricingUnit": lambda _row: "Hours",
    "ProviderName": lambda _row: ISSUER,
    "PublisherName": lambda _row: ISSUER,
    "RegionId": lambda row: row.held.cluster,
    "RegionName": lambda row: row.held.cluster,
    "ResourceId": lambda row: f"{row.held.cluster}/{row.held.namespace}/{row.held.claim_id}",
    "ResourceName": lambda row: row.held.claim,
    "ResourceType": lambda _row: "ResourceClaim",
    "ServiceCategory": lambda _row: "Compute",
    "ServiceName": lambda _row: SERVICE,
    "ServiceSubcategory": lambda _row: "Other (Compute)",
    "SkuId": lambda row: f"{row.held.driver}/{row.name}",
    "SkuMeter": lambda _row: "Device hours",
    "SkuPriceDetails": lambda row: json.dumps(
        {"x_Model": row.held.product, "x_Partition": row.held.partition}
    ),
    "SkuPriceId": lambda row: f"{row.charge.rate.pk if row.charge.rate else 'no-rate'}/{row.name}",
    "SubAccountId": lambda row: row.held.team,
    "SubAccountName": lambda row: row.held.team_title,
    "SubAccountType": lambda _row: "Team",
    "Tags": lambda row: json.dumps(
        {"team": row.held.team, "owner": row.held.person, "profile": row.held.profile}
    ),
    "x_DeviceDriver": lambda row: row.held.driver,
    "x_GpuModel": lambda row: row.held.product,
    "x_MigProfile": lambda row: row.held.partition,
    "x_HasRate": lambda row: "true" if row.charge.rate else "false",
}


def focus_lines(period: Period, *, now: datetime) -> Iterator[str]:
    """Yield the CSV file line by line, with its heads."""
    writer = csv.writer(Echo())
    installation = Installation.load()
    yield writer.writerow(COLUMNS)
    for charge in charges(period, now=now):
        row = Row(charge, period, installation)
        yield writer.writerow([escape_formula(column(row)) for column in COLUMNS.values()])


def text(value: Decimal) -> str:
    """Return a number without an exponent and without zeros at its end."""
    return f"{value.normalize():f}"


def instant(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
