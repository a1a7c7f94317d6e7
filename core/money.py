"""Money is Decimal with a currency (ISO 4217); it is rounded only where it is shown."""

from decimal import ROUND_HALF_UP, Decimal

SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£"}
DEFAULT = "EUR"


def money(amount: Decimal, currency: str = DEFAULT, *, digits: int = 2) -> str:
    """Return "€1,204.66", "−€5.80", or "CHF 5.80" where the currency has no symbol of its own."""
    rounded = amount.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    sign = "−" if rounded < 0 else ""
    unit = SYMBOLS.get(currency, f"{currency} ")
    return f"{sign}{unit}{abs(rounded):,}"
