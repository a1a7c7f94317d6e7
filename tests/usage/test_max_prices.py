"""What offers are ordered by: the dearest kind of each, where all of them can be compared."""

from decimal import Decimal

import pytest

from claims.catalogue import listing
from tests.usage.test_prices import A100, CARD, L4, SLICE, kind, rate
from usage.rates import RateCard, max_prices


@pytest.mark.parametrize(
    ("offers", "prices"),
    [
        ([frozenset({kind(), L4}), frozenset({L4})], [Decimal("2.90"), Decimal("0.80")]),
        ([frozenset({A100, L4}), frozenset({A100}), frozenset()], [None, None, None]),
        ([], []),
    ],
)
def test_max_price_is_that_of_the_most_expensive_kind(monkeypatch, offers, prices):
    monkeypatch.setattr(RateCard, "load", lambda: CARD)
    assert max_prices(offers) == prices


def test_prices_in_several_currencies_are_not_compared(monkeypatch):
    card = RateCard([rate("2.90", "H100"), rate("0.80", "L4", currency="USD")])
    monkeypatch.setattr(RateCard, "load", lambda: card)
    assert max_prices([frozenset({kind()}), frozenset({L4})]) == [None, None]


@pytest.mark.parametrize(
    ("currency", "prices"),
    [("EUR", ["2.90", None, None]), ("USD", [None, "0.80", None]), ("CHF", [None, None, None])],
)
def test_prices_in_one_currency_leave_out_those_in_others(monkeypatch, currency, prices):
    card = RateCard([rate("2.90", "H100"), rate("0.80", "L4", currency="USD")])
    monkeypatch.setattr(RateCard, "load", lambda: card)
    offers = [frozenset({kind()}), frozenset({L4}), frozenset({kind(), L4})]
    assert max_prices(offers, currency) == [price and Decimal(price) for price in prices]


def test_catalogue_gets_max_prices_through_the_setting(monkeypatch):
    monkeypatch.setattr(RateCard, "load", lambda: CARD)
    assert listing.max_prices([frozenset({SLICE})]) == max_prices([frozenset({SLICE})])
