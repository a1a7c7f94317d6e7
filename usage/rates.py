"""
Which price applies to a device at an instant, and what devices of a request would cost.

Which price applies to a device at an instant: the most particular rate that has begun, of those the newest.

Pure: a `RateCard` is read once and asked as often as needed, so a report costs one query for all prices.

What devices would cost before anybody holds them: a range over the kinds that could be had, by the rates of
now.

Where no rate matches, that is "no rate": never free, and never left out of a range without a word.

Prices for those below who order by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Protocol
from uuid import UUID

from django.utils import timezone

from claims.catalogue.listing import DeviceKind
from dra.devices.vendors import names_product, product_words
from usage.models import Rate


class Priced(Protocol):
    """What a price depends on: an allocation with its claim's cluster, or a device of the inventory."""

    @property
    def cluster_id(self) -> UUID: ...
    @property
    def driver(self) -> str: ...
    @property
    def product(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PriceGroup:
    """Devices that cost the same: those of one cluster, driver and product."""

    cluster_id: UUID
    driver: str
    product: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a time span in which one price applies; `rate` is None where none does."""

    start: datetime
    end: datetime
    rate: Rate | None


def matches(rate: Rate, what: Priced) -> bool:
    return (
        rate.cluster_id in (None, what.cluster_id)
        and rate.driver in ("", what.driver)
        and names_product(rate.product, what.product)
    )


def specificity(rate: Rate) -> tuple[int, int, bool, bool]:
    """
    Return what ranks rates that match the same device.

    More conditions first; with as many, the longer product, then that of a cluster, then that of a driver.
    """
    conditions = (bool(rate.product), rate.cluster_id is not None, bool(rate.driver))
    return (
        sum(conditions),
        sum(map(len, product_words(rate.product))),
        rate.cluster_id is not None,
        bool(rate.driver),
    )


class RateCard:
    """All prices at hand. Remembers which of them match a kind of device, of which there are few."""

    def __init__(self, rates: Sequence[Rate]) -> None:
        # Best first: of equally particular ones the newest; the id makes the order the same every time.
        self.rates = sorted(
            rates, key=lambda rate: (specificity(rate), rate.valid_from, str(rate.pk)), reverse=True
        )
        self._of_kind: dict[PriceGroup, list[Rate]] = {}

    @classmethod
    def load(cls) -> RateCard:
        return cls(list(Rate.objects.all()))

    def matching(self, what: Priced) -> list[Rate]:
        """Return every rate that matches, at whatever time, best first."""
        kind = PriceGroup(what.cluster_id, what.driver, what.product)
        if kind not in self._of_kind:
            self._of_kind[kind] = [rate for rate in self.rates if matches(rate, kind)]
        return self._of_kind[kind]

    def at(self, what: Priced, instant: datetime) -> Rate | None:
        return next((rate for rate in self.matching(what) if rate.valid_from <= instant), None)

    def segments(self, what: Priced, start: datetime, end: datetime) -> Iterator[Segment]:
        """Cut the span from `start` to `end` where the price changes. An empty span has no segments."""
        if start >= end:
            return
        changes = {rate.valid_from for rate in self.matching(what) if start < rate.valid_from < end}
        edges = [start, *sorted(changes), end]
        open_since, current = start, self.at(what, start)
        for edge in edges[1:-1]:
            following = self.at(what, edge)
            if following != current:
                yield Segment(open_since, edge, current)
                open_since, current = edge, following
        yield Segment(open_since, end, current)


MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1) // MICROSECOND
CENT = Decimal("0.01")


class PricedPart(Priced, Protocol):
    """A kind of device and the part of a whole one that each of them is."""

    @property
    def fraction(self) -> Fraction: ...


@dataclass(frozen=True, slots=True)
class Prices:
    """
    Per currency the least and the most that one device costs an hour. `unpriced` says that some kind has no
    rate, `asked` that there was any kind at all.
    """

    asked: bool = False
    unpriced: bool = False
    spans: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)

    @property
    def is_unknown(self) -> bool:
        """Say whether there are devices and none of them has a price."""
        return self.asked and not self.spans

    def at_most(self, devices: int, duration: timedelta) -> dict[str, Decimal]:
        """
        Return the most that so many devices cost for so long, rounded up to cents; empty where a kind has no
        rate, because then nobody knows.
        """
        if self.unpriced:
            return {}
        hours = Decimal(devices * (duration // MICROSECOND)) / HOUR
        return {
            currency: (most * hours).quantize(CENT, ROUND_CEILING)
            for currency, (_least, most) in self.spans.items()
        }


def device_prices(kinds: Iterable[PricedPart], card: RateCard, *, at: datetime) -> Prices:
    """Return what one device of any of these kinds costs an hour at an instant."""
    asked = unpriced = False
    spans: dict[str, tuple[Decimal, Decimal]] = {}
    for kind in kinds:
        asked = True
        rate = card.at(kind, at)
        if rate is None:
            unpriced = True
            continue
        price = rate.per_hour * kind.fraction.numerator / kind.fraction.denominator
        least, most = spans.get(rate.currency, (price, price))
        spans[rate.currency] = min(least, price), max(most, price)
    return Prices(asked, unpriced, dict(sorted(spans.items())))


def max_prices(offers: Sequence[frozenset[DeviceKind]]) -> list[Decimal | None]:
    """
    Return the most that one device of each offer costs an hour; None where a kind has no rate, or where they
    are in several currencies. One reading of the rates, however many offers there are.
    """
    card, now = RateCard.load(), timezone.now()
    found = [device_prices(kinds, card, at=now) for kinds in offers]
    currencies = {currency for prices in found for currency in prices.spans}
    if len(currencies) != 1:
        return [None] * len(found)
    (currency,) = currencies
    return [
        None if prices.unpriced or currency not in prices.spans else prices.spans[currency][1]
        for prices in found
    ]
