"""
Cost is allocated time × price per hour × fraction of the device. What is not held costs nothing.

A *ledger entry* is what a claim held on one day (UTC) of one product, partition and capacity type at one
rate. Money is rounded once, half up to cents, per entry; every amount anywhere is a sum of entries, so all of
them add up.
Time is never rounded but where it is shown: its sums are integers of a tiny unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from claims.models import Allocation
from core.text import DASH, money
from usage.models import Rate
from usage.rates import PriceGroup, RateCard

MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1) // MICROSECOND
# The units: a millionth of a device for a microsecond, and a ten-thousandth of a currency unit per hour for
# that. They are the last digits of Allocation.fraction, of time in PostgreSQL, and of Rate.per_hour.
DEVICE_PARTS = 10**6
MONEY_PARTS = 10**4
DEVICE_HOUR = DEVICE_PARTS * HOUR
CURRENCY_UNIT = MONEY_PARTS * DEVICE_HOUR  # one euro
CENT = CURRENCY_UNIT // 100
WHOLE_DAY = timedelta(days=1) // MICROSECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SMALL = Decimal("0.1")  # below it cents are too coarse for a price per hour


class LineKey(NamedTuple):
    """What the entries of a line have in common. `owner` is None where nobody asks for whom they count."""

    claim_id: UUID
    product: str
    partition: str
    owner: UUID | None = None


type EntryKey = tuple[LineKey, str, Rate | None, str]  # line, driver, rate and capacity type


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
    capacity_type: str = ""
    owner: UUID | None = None

    @classmethod
    def from_allocation(cls, held: Allocation, cluster_id: UUID) -> UsageInterval:
        kind = PriceGroup(cluster_id, held.driver, held.product, held.basis_id)
        return cls(
            held.claim_id, kind, held.partition, millionths(held.fraction), held.started_at, held.ended_at,
            held.capacity_type,
        )  # fmt: skip

    @property
    def line(self) -> LineKey:
        return LineKey(self.claim_id, self.kind.product, self.partition, self.owner)


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

    def charge(self, held: int, per_hour: Decimal | None, currency: str = "", *, times: int = 1) -> None:
        """Add so many equal entries of held time at a price, each in whole cents; None is no rate."""
        self.held += held * times
        if per_hour is None:
            self.unpriced_held += held * times
        else:
            amount = hundredths(held * int(per_hour * MONEY_PARTS), CURRENCY_UNIT) * CENT
            self.exact[currency] = self.exact.get(currency, 0) + amount * times

    def add_price(self, held: int, per_hour: Decimal | None, currency: str = "") -> None:
        """Add what held time costs at a price, not rounded: it is a price, not an entry."""
        exact = {} if per_hour is None else {currency: held * int(per_hour * MONEY_PARTS)}
        self.add(Cost(held, held if per_hour is None else 0, exact))

    @property
    def hours(self) -> Decimal:
        """Return GPU-hours, to two digits."""
        return rounded(self.held, DEVICE_HOUR)

    @property
    def unpriced(self) -> Decimal:
        """Return GPU-hours without a rate, to two digits."""
        return rounded(self.unpriced_held, DEVICE_HOUR)

    @property
    def exact_hours(self) -> Decimal:
        """Return GPU-hours, to six digits: a column of them adds up to `hours`."""
        return six_digits(self.held)

    @property
    def exact_unpriced(self) -> Decimal:
        return six_digits(self.unpriced_held)

    @property
    def amounts(self) -> dict[str, Decimal]:
        """Return the amount per currency in cents: exact for entries, rounded half up for prices."""
        return {currency: rounded(amount, CURRENCY_UNIT) for currency, amount in sorted(self.exact.items())}

    @property
    def money(self) -> list[CostAmount]:
        return [CostAmount(currency, amount) for currency, amount in self.amounts.items()]

    @property
    def prices(self) -> dict[str, Decimal]:
        """Return the amount per currency to four digits, as rates have: what `per_hour` costs an hour."""
        digits = Decimal("0.0001")
        return {
            currency: (Decimal(amount) / CURRENCY_UNIT).quantize(digits, ROUND_HALF_UP)
            for currency, amount in sorted(self.exact.items())
        }

    @property
    def is_unknown(self) -> bool:
        """Return whether devices were held and none of them has a rate."""
        is_unpriced = bool(self.unpriced_held) and self.unpriced_held == self.held
        return is_unpriced and not any(self.exact.values())


def hundredths(value: int, unit: int) -> int:
    """Return `value` in hundredths of `unit`, rounded half up."""
    return (200 * value + unit) // (2 * unit)


def rounded(value: int, unit: int) -> Decimal:
    return Decimal(hundredths(value, unit)).scaleb(-2)


def six_digits(held: int) -> Decimal:
    return (Decimal(held) / DEVICE_HOUR).quantize(Decimal("0.000001"), ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The smallest unit of billing; `held` is in the unit of `Cost.held`, `rate` is None without one."""

    line: LineKey
    driver: str
    rate: Rate | None
    day: date
    held: int
    capacity_type: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Return what makes it one entry: all but the time held."""
        return self.line, self.driver, self.rate and self.rate.pk, self.day, self.capacity_type

    @property
    def cost(self) -> Cost:
        cost = Cost()
        cost.charge(self.held, *_price(self.rate))
        return cost


class Ledger:
    """
    The entries of usage intervals. A month at one price is one step up and one down, so a long claim costs no
    more to compute than a short one.
    """

    def __init__(self) -> None:
        # By how much the time held on a day differs from that of the day before.
        self._steps: dict[EntryKey, dict[int, int]] = {}

    def add(
        self, interval: UsageInterval, card: RateCard, *, until: datetime, within: Interval | None = None
    ) -> None:
        """Add one interval, an open one up to `until`, clipped to `within`."""
        start, end = interval.start, min(interval.end or until, until)
        if within is not None:
            start, end = max(start, within.start), min(end, within.end)
        parts = interval.parts
        for segment in card.segments(interval.kind, start, end):
            key = (interval.line, interval.kind.driver, segment.rate, interval.capacity_type)
            steps = self._steps.setdefault(key, defaultdict(int))
            first, begun = divmod((segment.start - EPOCH) // MICROSECOND, WHOLE_DAY)
            last, ended = divmod((segment.end - EPOCH) // MICROSECOND, WHOLE_DAY)
            if first == last:
                steps[first] += (ended - begun) * parts
                steps[first + 1] -= (ended - begun) * parts
            else:
                steps[first] += (WHOLE_DAY - begun) * parts
                steps[first + 1] += begun * parts
                steps[last] -= (WHOLE_DAY - ended) * parts
                steps[last + 1] -= ended * parts

    def costs(self) -> dict[LineKey, Cost]:
        """Return the sum of the entries of each line."""
        costs: dict[LineKey, Cost] = {}
        for (line, _driver, rate, _capacity_type), runs in self._runs():
            cost = costs.setdefault(line, Cost())
            for _day, days, held in runs:
                cost.charge(held, *_price(rate), times=days)
        return costs

    def __iter__(self) -> Iterator[LedgerEntry]:
        for (line, driver, rate, capacity_type), runs in self._runs():
            for first, days, held in runs:
                for number in range(first, first + days):
                    day = (EPOCH + timedelta(days=number)).date()
                    yield LedgerEntry(line, driver, rate, day, held, capacity_type)

    def _runs(self) -> Iterator[tuple[EntryKey, list[tuple[int, int, int]]]]:
        """Yield the runs of days with equal entries: first day, number of days, time held on each."""
        for key, steps in self._steps.items():
            runs, held = [], 0
            for day, following in pairwise(sorted(steps)):
                held += steps[day]
                if held:
                    runs.append((day, following - day, held))
            yield key, runs


def _price(rate: Rate | None) -> tuple[Decimal | None, str]:
    return (rate.per_hour, rate.currency) if rate else (None, "")


def interval_cost(
    interval: UsageInterval, card: RateCard, *, until: datetime, within: Interval | None = None
) -> Cost:
    """Return the cost of one interval, an open one up to `until`, clipped to `within`."""
    return total(sums([interval], card, until=until, within=within).values())


def per_hour(intervals: Iterable[UsageInterval], card: RateCard, *, at: datetime) -> Cost:
    """Return the cost per hour of the open intervals at the prices of `at`. A price is not rounded."""
    cost = Cost()
    for interval in intervals:
        if interval.end is None:
            cost.add_price(interval.parts * HOUR, *_price(card.at(interval.kind, at)))
    return cost


@dataclass(frozen=True, slots=True)
class CostLine:
    """
    The entries of a claim's devices of one product and partition, or the corrections of those of the closed
    month that begins on `corrects`.
    """

    claim_id: UUID
    product: str
    partition: str
    cost: Cost
    corrects: date | None = None
    owner: UUID | None = None


def lines(
    intervals: Iterable[UsageInterval], card: RateCard, *, until: datetime, within: Interval | None = None
) -> Iterator[CostLine]:
    """Yield one line per claim, product and partition with usage in the span."""
    return cost_lines(sums(intervals, card, until=until, within=within))


def sums(
    intervals: Iterable[UsageInterval], card: RateCard, *, until: datetime, within: Interval | None = None
) -> dict[LineKey, Cost]:
    """Return the cost by line in the span."""
    ledger = Ledger()
    for interval in intervals:
        ledger.add(interval, card, until=until, within=within)
    return ledger.costs()


def cost_lines(costs: Mapping[LineKey, Cost]) -> Iterator[CostLine]:
    for line, cost in costs.items():
        if cost.held:
            yield CostLine(line.claim_id, line.product, line.partition, cost)


def total(costs: Iterable[Cost]) -> Cost:
    result = Cost()
    for cost in costs:
        result.add(cost)
    return result


def cost_text(cost: Cost | None, *, digits: int = 2) -> str:
    """Return "€5.80", "€5.80 + $3.00" or "no rate"; a dash where nothing was held."""
    if cost is None or not (cost.held or any(cost.exact.values())):
        return DASH
    if cost.is_unknown:
        return "no rate"
    return " + ".join(money(amount, currency, digits=digits) for currency, amount in cost.amounts.items())


def hourly_price(amount: Decimal, currency: str) -> str:
    """Return a price per hour to cents, a small one to four digits, so that it does not look like 0."""
    return money(amount, currency, digits=4 if 0 < amount < SMALL else 2)
