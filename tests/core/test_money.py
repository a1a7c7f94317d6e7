from decimal import Decimal

import pytest

from core.text import money


@pytest.mark.parametrize(
    ("amount", "currency", "digits", "shown"),
    [
        ("5.8", "EUR", 2, "€5.80"),
        ("1204.655", "EUR", 2, "€1,204.66"),
        ("26911.5", "EUR", 0, "€26,912"),
        ("-5.8", "USD", 2, "−$5.80"),
        ("-0.001", "EUR", 2, "€0.00"),
        ("5.8", "CHF", 2, "CHF 5.80"),
        ("0.0042", "EUR", 4, "€0.0042"),
    ],
)
def test_money_is_rounded_where_it_is_shown(amount, currency, digits, shown):
    assert money(Decimal(amount), currency, digits=digits) == shown
