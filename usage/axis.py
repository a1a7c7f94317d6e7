"""The amounts beside a graph that is drawn on the server: round numbers, written short."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from core.text import unit
from usage.spend_chart import HOURS

FACTORS = tuple(map(Decimal, ("0.2", "0.25", "0.5", "1", "2", "5")))
MOST = 5  # lines above 0
SIZES = ((Decimal(10**9), "G"), (Decimal(10**6), "M"), (Decimal(10**3), "k"))


def steps(top: Decimal) -> list[Decimal]:
    """Return 0 and round amounts in equal steps, none above `top`, which is more than 0."""
    size = Decimal(10) ** top.adjusted()
    step = next(size * factor for factor in FACTORS if top < MOST * size * factor)
    return [step * number for number in range(int(top / step) + 1)]


def short(amount: Decimal, unit_name: str) -> str:
    """Return "€24k", "1.2M h" or "0": what an axis has room for."""
    text = f"{amount.normalize():f}" if amount else "0"
    for size, letter in SIZES:
        if amount >= size:
            rounded = (amount / size).quantize(Decimal("0.1"), ROUND_HALF_UP)
            text = f"{rounded}".removesuffix(".0") + letter
            break
    if not amount:
        return text
    return f"{text} h" if unit_name == HOURS else f"{unit(unit_name)}{text}"
