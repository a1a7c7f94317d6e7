"""
Which rate prices a device at an instant, and what the devices of a request would cost.

The most specific rate that has begun and not ended applies; of equals, the newest. A `RateCard` is read in
one query, and one more if a rate has an expression, and prices any number of devices. A device without a
matching rate has "no rate": it is never free, and a price range says that it is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Protocol
from uuid import UUID

from django.utils import timezone

from claims.catalogue.listing import DeviceKind
from core.prepared import Prepared, PreparedObjects
from dra.devices import names_product, product_words
from usage.models import Rate, RateMatch


class Priced(Protocol):
    """What a price depends on, as an allocation or a kind of devices has it."""

    @property
    def cluster_id(self) -> UUID: ...
    @property
    def driver(self) -> str: ...
    @property
    def product(self) -> str: ...
    @property
    def basis(self) -> UUID | None: ...


@dataclass(frozen=True, slots=True)
class PriceGroup:
    """Devices that cost the same: those of one cluster, driver, product and price basis."""

    cluster_id: UUID
    driver: str
    product: str
    basis: UUID | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a time span with one price; `rate` is None without one."""

    start: datetime
    end: datetime
    rate: Rate | None


def matches(rate: Rate, device: Priced) -> bool:
    """Return whether the conditions of a rate hold for a device, but for its expression."""
    return (
        rate.cluster_id in (None, device.cluster_id)
        and rate.driver in ("", device.driver)
        and names_product(rate.product, device.product)
    )


def specificity(rate: Rate) -> tuple[int, int, bool, bool, bool]:
    """
    Return the rank of a rate among those that match the same device.

    More conditions first, of which an expression is one; then the longer product, then an expression, then a
    condition on the cluster, then one on the driver.
    """
    conditions = (
        *(bool(rate.product), rate.cluster_id is not None, bool(rate.driver), bool(rate.expression)),
    )
    return (
        sum(conditions),
        sum(map(len, product_words(rate.product))),
        bool(rate.expression),
        rate.cluster_id is not None,
        bool(rate.driver),
    )


def rank(rate: Rate) -> tuple[tuple[int, int, bool, bool, bool], datetime, str]:
    """Return by what rates are compared: of equally specific ones the newest; the id makes it stable."""
    return specificity(rate), rate.valid_from, str(rate.pk)


RATES: PreparedObjects[Rate] = PreparedObjects(lambda: Rate.objects.order_by())
MATCHES = Prepared(lambda: RateMatch.objects.order_by().values_list("basis", "rate"))


class RateCard:
    """
    All rates, with a cache of the rates that match each price group; there are few groups.

    `holding` has the rates whose expression holds, by price basis.
    """

    def __init__(self, rates: Sequence[Rate], holding: Mapping[UUID, Collection[UUID]] | None = None) -> None:
        self.rates = sorted(rates, key=rank, reverse=True)  # best first
        self.holding = holding or {}
        self._by_group: dict[tuple[UUID, str, str, frozenset[UUID]], list[Rate]] = {}

    @classmethod
    def load(cls) -> RateCard:
        rates = RATES.objects()
        holding: dict[UUID, set[UUID]] = defaultdict(set)
        if any(rate.expression for rate in rates):
            for basis, rate in MATCHES.rows():
                holding[basis].add(rate)
        return cls(rates, holding)

    def matching(self, device: Priced) -> list[Rate]:
        """Return all matching rates, whatever their start, best first."""
        holding = frozenset(self.holding.get(device.basis, ()) if device.basis else ())
        kind = (device.cluster_id, device.driver, device.product, holding)
        matching = self._by_group.get(kind)
        if matching is None:
            matching = self._by_group[kind] = [
                rate
                for rate in self.rates
                if (not rate.expression or rate.pk in holding) and matches(rate, device)
            ]
        return matching

    def at(self, device: Priced, instant: datetime) -> Rate | None:
        return _applying(self.matching(device), instant)

    def segments(self, device: Priced, start: datetime, end: datetime) -> Iterator[Segment]:
        """Cut the span from `start` to `end` where the price changes. An empty span has no segments."""
        if start >= end:
            return
        rates = self.matching(device)
        edges = {edge for rate in rates for edge in (rate.valid_from, rate.valid_until) if edge}
        changes = {edge for edge in edges if start < edge < end}
        open_since, current = start, _applying(rates, start)
        for edge in sorted(changes):
            following = _applying(rates, edge)
            if following != current:
                yield Segment(open_since, edge, current)
                open_since, current = edge, following
        yield Segment(open_since, end, current)


def _applying(rates: Iterable[Rate], instant: datetime) -> Rate | None:
    """Return the best rate that has begun and not ended."""
    return next((rate for rate in rates if _applies(rate, instant)), None)


def _applies(rate: Rate, instant: datetime) -> bool:
    return rate.valid_from <= instant and (rate.valid_until is None or instant < rate.valid_until)


MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1) // MICROSECOND
CENT = Decimal("0.01")


class PricedPart(Priced, Protocol):
    """A kind of device, and the fraction of a whole device that each is."""

    @property
    def fraction(self) -> Fraction: ...


@dataclass(frozen=True, slots=True)
class Prices:
    """
    Lowest and highest price of one device per hour, by currency.

    `unpriced` is True if a kind has no rate, `has_devices` if there is any kind.
    """

    has_devices: bool = False
    unpriced: bool = False
    spans: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)

    @property
    def is_unknown(self) -> bool:
        """Return whether there are devices and none of them has a rate."""
        return self.has_devices and not self.spans

    def max_cost(self, devices: int, duration: timedelta) -> dict[str, Decimal]:
        """
        Return the highest cost of `devices` for `duration` by currency, rounded up to cents.

        Empty if a kind has no rate: then the maximum is unknown.
        """
        if self.unpriced:
            return {}
        hours = Decimal(devices * (duration // MICROSECOND)) / HOUR
        return {
            currency: (most * hours).quantize(CENT, ROUND_CEILING)
            for currency, (_least, most) in self.spans.items()
        }


def device_prices(kinds: Iterable[PricedPart], card: RateCard, *, at: datetime) -> Prices:
    """Return the prices per hour of one device of these kinds at an instant."""
    has_devices = unpriced = False
    spans: dict[str, tuple[Decimal, Decimal]] = {}
    for kind in kinds:
        has_devices = True
        rate = card.at(kind, at)
        if rate is None:
            unpriced = True
            continue
        price = rate.per_hour * kind.fraction.numerator / kind.fraction.denominator
        least, most = spans.get(rate.currency, (price, price))
        spans[rate.currency] = min(least, price), max(most, price)
    return Prices(has_devices, unpriced, dict(sorted(spans.items())))


def max_prices(offers: Sequence[frozenset[DeviceKind]], currency: str = "") -> list[Decimal | None]:
    """
    Return the highest price per hour of one device of each offer (`settings.MAX_PRICES`), in one query.

    None where a kind has no rate, or one in another `currency`; without that, all None if the prices have
    several currencies.
    """
    card, now = RateCard.load(), timezone.now()
    all_prices = [device_prices(kinds, card, at=now) for kinds in offers]
    currencies = {currency} if currency else {found for prices in all_prices for found in prices.spans}
    if len(currencies) != 1:
        return [None] * len(all_prices)
    (currency,) = currencies
    return [
        None if prices.unpriced or prices.spans.keys() != {currency} else prices.spans[currency][1]
        for prices in all_prices
    ]
