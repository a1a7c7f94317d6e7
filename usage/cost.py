"""
Cost is allocated time × price per hour × fraction of the device. What is not held costs nothing.

Sums are integers of tiny units, so they are exact however a span is split. Amounts on pages add up: money is
rounded once, per line (a claim's devices of one product), and all totals are sums of lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from claims.models import Allocation
from core.text import DASH, money
from usage.rates import PriceGroup, RateCard

MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1) // MICROSECOND
# The units: a millionth of a device for a microsecond, and a ten-thousandth of a currency unit per hour for
# that. They are the last digits of Allocation.fraction, of time in PostgreSQL, and of Rate.per_hour.
DEVICE_PARTS = 10**6
MONEY_PARTS = 10**4
DEVICE_HOUR = DEVICE_PARTS * HOUR
CURRENCY_UNIT = MONEY_PARTS * DEVICE_HOUR  # one euro


type LineKey = tuple[UUID, str, str]  # claim, product and partition: money is rounded once per line


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open time span: `end` is not part of it."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class UsageInterval:
    """The time in which a claim held a device. `parts` is its fraction in millionths of a device."""

    claim_id: UUID
    kind: PriceGroup
    partition: str
    parts: int
    start: datetime
    end: datetime | None

    @classmethod
    def from_allocation(cls, held: Allocation, cluster_id: UUID) -> UsageInterval:
        kind = PriceGroup(cluster_id, held.driver, held.product)
        return cls(
            held.claim_id, kind, held.partition, millionths(held.fraction), held.started_at, held.ended_at
        )

    @property
    def line(self) -> LineKey:
        return self.claim_id, self.kind.product, self.partition


def millionths(fraction: Decimal | int) -> int:
    return int(fraction * DEVICE_PARTS)


@dataclass(frozen=True, slots=True)
class CostAmount:
    currency: str
    amount: Decimal


@dataclass(slots=True)
class Cost:
    """
    Held device time and its cost per currency, in the units above.

    `held` counts whole devices (half a device for two hours is one hour). `unpriced_held` is the part of it
    without a rate, which is "no rate" and never free.
    """

    held: int = 0
    unpriced_held: int = 0
    exact: dict[str, int] = field(default_factory=dict)

    def add(self, other: Cost) -> None:
        self.held += other.held
        self.unpriced_held += other.unpriced_held
        for currency, amount in other.exact.items():
            self.exact[currency] = self.exact.get(currency, 0) + amount

    def charge(self, held: int, per_hour: Decimal | None, currency: str = "") -> None:
        """Add held time at a price; None is no rate."""
        self.held += held
        if per_hour is None:
            self.unpriced_held += held
        else:
            self.exact[currency] = self.exact.get(currency, 0) + held * int(per_hour * MONEY_PARTS)

    @property
    def hours(self) -> Decimal:
        """Return device hours, to two digits."""
        return rounded(self.held, DEVICE_HOUR)

    @property
    def unpriced(self) -> Decimal:
        """Return device hours without a rate, to two digits."""
        return rounded(self.unpriced_held, DEVICE_HOUR)

    @property
    def amounts(self) -> dict[str, Decimal]:
        """Return the amount per currency, rounded half up to cents."""
        return {currency: rounded(amount, CURRENCY_UNIT) for currency, amount in sorted(self.exact.items())}

    @property
    def money(self) -> list[CostAmount]:
        return [CostAmount(currency, amount) for currency, amount in self.amounts.items()]

    @property
    def is_unknown(self) -> bool:
        """Return whether devices were held and none of them has a rate."""
        return bool(self.unpriced_held) and not self.exact

    def in_cents(self) -> Cost:
        """Return the cost with money and hours rounded, so that totals are sums of the lines on the page."""
        return Cost(
            hundredths(self.held, DEVICE_HOUR) * (DEVICE_HOUR // 100),
            hundredths(self.unpriced_held, DEVICE_HOUR) * (DEVICE_HOUR // 100),
            {
                currency: hundredths(amount, CURRENCY_UNIT) * (CURRENCY_UNIT // 100)
                for currency, amount in self.exact.items()
            },
        )


def hundredths(value: int, unit: int) -> int:
    """Return `value` in hundredths of `unit`, rounded half up."""
    return (200 * value + unit) // (2 * unit)


def rounded(value: int, unit: int) -> Decimal:
    return Decimal(hundredths(value, unit)).scaleb(-2)


def interval_cost(
    interval: UsageInterval, card: RateCard, *, until: datetime, within: Interval | None = None
) -> Cost:
    """Return the cost of one interval, an open one up to `until`, clipped to `within`."""
    start, end = interval.start, min(interval.end or until, until)
    if within is not None:
        start, end = max(start, within.start), min(end, within.end)
    cost = Cost()
    for segment in card.segments(interval.kind, start, end):
        held = (segment.end - segment.start) // MICROSECOND * interval.parts
        if segment.rate is None:
            cost.charge(held, None)
        else:
            cost.charge(held, segment.rate.per_hour, segment.rate.currency)
    return cost


def per_hour(intervals: Iterable[UsageInterval], card: RateCard, *, at: datetime) -> Cost:
    """Return the cost per hour of the open intervals at the prices of `at`."""
    cost = Cost()
    for interval in intervals:
        if interval.end is None:
            rate = card.at(interval.kind, at)
            price, currency = (rate.per_hour, rate.currency) if rate else (None, "")
            cost.charge(interval.parts * HOUR, price, currency)
    return cost


@dataclass(frozen=True, slots=True)
class CostLine:
    """The smallest unit of billing: a claim's devices of one product and partition."""

    claim_id: UUID
    product: str
    partition: str
    cost: Cost


def lines(
    intervals: Iterable[UsageInterval], card: RateCard, *, until: datetime, within: Interval | None = None
) -> Iterator[CostLine]:
    """Yield one rounded line per claim, product and partition with usage in the span."""
    return rounded_lines(sums(intervals, card, until=until, within=within))


def sums(
    intervals: Iterable[UsageInterval], card: RateCard, *, until: datetime, within: Interval | None = None
) -> dict[LineKey, Cost]:
    """Return the exact cost by line in the span."""
    costs: dict[LineKey, Cost] = defaultdict(Cost)
    for interval in intervals:
        costs[interval.line].add(interval_cost(interval, card, until=until, within=within))
    return costs


def rounded_lines(costs: Mapping[LineKey, Cost]) -> Iterator[CostLine]:
    for (claim_id, product, partition), cost in costs.items():
        if cost.held:
            yield CostLine(claim_id, product, partition, cost.in_cents())


def total(costs: Iterable[Cost]) -> Cost:
    result = Cost()
    for cost in costs:
        result.add(cost)
    return result


def cost_text(cost: Cost | None, *, digits: int = 2) -> str:
    """Return "€5.80", "€5.80 + $3.00" or "no rate"; a dash where nothing was held."""
    if cost is None or not cost.held:
        return DASH
    if cost.is_unknown:
        return "no rate"
    return " + ".join(money(amount, currency, digits=digits) for currency, amount in cost.amounts.items())
