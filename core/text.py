"""
Counts, sizes, shares and amounts of money as people read them.

Money is Decimal with a currency (ISO 4217); it is rounded only where it is shown.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

DASH = "—"  # where there is nothing to show
TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # Unicode, bidi controls
UNSEEN = frozenset(("Cc", "Cf", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"))  # Unicode, general categories
FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and a symbol without a picture
SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£"}
DEFAULT_CURRENCY = "EUR"


def is_text(value: Any) -> bool:
    """Return whether all texts in a value of JSON can be written: half of a surrogate pair cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def written(text: str) -> str:
    """
    Return what somebody sent as they wrote it: a line end is one character, as browsers count it for
    `maxlength`, although they send two; "" for a text in which nothing can be seen.
    """
    return text.replace("\r\n", "\n") if any(map(is_seen, text)) else ""


def is_seen(letter: str) -> bool:
    return unicodedata.category(letter) not in UNSEEN and letter not in FILLERS


def one_line(text: str) -> str:
    """Return a text without control characters, which a terminal would obey, and without blanks around it."""
    return "".join(letter for letter in " ".join(text.split()) if not is_control(letter))


def is_control(letter: str) -> bool:
    """Return whether a character is a control, or turns the direction of the text."""
    return unicodedata.category(letter) in ("Cc", "Cs") or letter in TURNS


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 device", "3 devices". `plural` defaults to the singular with an s."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


def as_options(choices: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return choices for a list beside others that begin with a capital; their labels stand in sentences."""
    return [(value, label[:1].upper() + label[1:]) for value, label in choices]


def gib(size: int | None) -> str:
    """Return bytes as "79.6 GiB", whole numbers without a point."""
    return f"{size / 2**30:.1f}".removesuffix(".0") + " GiB" if size is not None else DASH


def percent(share: float | None) -> str:
    """Return a share of 0 to 1 as "64 %"; one that is not 0 is at least "< 1 %"."""
    if share is None:
        return DASH
    rounded = f"{share:.0%}".replace("%", " %")
    return "< 1 %" if share > 0 and rounded == "0 %" else rounded


def quantity(value: Decimal | float | None) -> str:
    """Return hours, kWh or kg as "45,310", below 100 with two digits; "" for None."""
    if value is None:
        return ""
    exact = Decimal(str(value))
    return f"{exact.quantize(Decimal('0.01') if abs(exact) < 100 else Decimal(1), ROUND_HALF_UP):,}"


def unit(currency: str) -> str:
    """Return what stands before an amount: "€", or "CHF " where the currency has no symbol of its own."""
    return SYMBOLS.get(currency, f"{currency} ")


def money(amount: Decimal, currency: str = DEFAULT_CURRENCY, *, digits: int = 2) -> str:
    """Return "€1,204.66", "−€5.80", or "CHF 5.80" where the currency has no symbol of its own."""
    rounded = amount.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    sign = "−" if rounded < 0 else ""
    return f"{sign}{unit(currency)}{abs(rounded):,}"
