"""
What devices would cost before anybody holds them: a range over the kinds that could be had, by the rates of
now.

Where no rate matches, that is "no rate": never free, and never left out of a range without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Protocol

from usage.rates import Priced, RateCard

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


def prices_of(kinds: Iterable[PricedPart], card: RateCard, *, at: datetime) -> Prices:
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
