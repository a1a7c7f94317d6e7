"""Prices for those below who order by them."""

from collections.abc import Sequence
from decimal import Decimal

from django.utils import timezone

from claims.catalogue.listing import DeviceKind
from usage.prices import prices_of
from usage.rates import RateCard


def dearest(offers: Sequence[frozenset[DeviceKind]]) -> list[Decimal | None]:
    """
    Return the most that one device of each offer costs an hour; None where a kind has no rate, or where they
    are in several currencies. One reading of the rates, however many offers there are.
    """
    card, now = RateCard.load(), timezone.now()
    found = [prices_of(kinds, card, at=now) for kinds in offers]
    currencies = {currency for prices in found for currency in prices.spans}
    if len(currencies) != 1:
        return [None] * len(found)
    (currency,) = currencies
    return [
        None if prices.unpriced or currency not in prices.spans else prices.spans[currency][1]
        for prices in found
    ]
