"""
Numbers with their nouns, and amounts of money.

Words that go with a number.

Money is Decimal with a currency (ISO 4217); it is rounded only where it is shown.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 device", "3 devices". `plural` defaults to the singular with an s."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£"}
DEFAULT = "EUR"


def money(amount: Decimal, currency: str = DEFAULT, *, digits: int = 2) -> str:
    """Return "€1,204.66", "−€5.80", or "CHF 5.80" where the currency has no symbol of its own."""
    rounded = amount.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    sign = "−" if rounded < 0 else ""
    unit = SYMBOLS.get(currency, f"{currency} ")
    return f"{sign}{unit}{abs(rounded):,}"
