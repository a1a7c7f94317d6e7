"""
Kubernetes' `resource.Quantity`: exact, ordered, written in canonical form.

A value is a whole number of nano-units; upstream rounds finer values up (apimachinery
`pkg/api/resource/quantity.go`). No float is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, total_ordering
from typing import NamedTuple, Self

NANO = 10**9
MAX_BINARY = (2**63 - 1) * NANO  # upstream caps binary quantities, and only those
MAX_EXPONENT = 1000  # upstream has no limit; 1e999999999 would fill the memory
MAX_LENGTH = 1000  # no limit upstream either
SYNTAX = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?", re.ASCII)
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in DECIMAL.items()}


class QuantityError(ValueError):
    """The text is not a quantity; the message is a sentence."""


class Format(StrEnum):
    """The suffix family of a quantity."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """
    An amount in nano-units. Equality ignores the notation: 1Gi == 1024Mi == 1073741824.

    `str()` gives the canonical form in the suffix family of the parsed text.
    """

    nano: int
    format: Format = Format.DECIMAL_SI

    @staticmethod
    def parse(text: str | int | float) -> Quantity:
        """
        Read a quantity as in a manifest, number or text.

        Raise `QuantityError` for anything else.
        """
        if isinstance(text, bool):
            raise _invalid(str(text))
        return _parsed(str(text))

    @classmethod
    def of(cls, number: int, form: Format = Format.DECIMAL_SI) -> Self:
        """Return `number` whole units."""
        return cls(number * NANO, form)

    @property
    def bytes(self) -> int:
        """The amount in whole units, rounded away from zero like upstream's `Value()`."""
        return -(-self.nano // NANO) if self.nano >= 0 else self.nano // NANO

    @property
    def whole(self) -> bool:
        """Whether the amount is a whole number of units."""
        return self.nano % NANO == 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, (self if self else other).format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, (self if self else other).format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        if self.format is Format.BINARY_SI and self.whole and abs(self.nano) >= 1024 * NANO:
            return _binary(self.nano // NANO)
        return _decimal(self.nano, exponent=self.format is Format.DECIMAL_EXPONENT)


ZERO = Quantity(0)


@lru_cache(maxsize=10_000)  # the devices of a cluster have few distinct amounts
def _parsed(written: str) -> Quantity:
    match = SYNTAX.fullmatch(written)
    if match is None or not (match[2] or match[3]) or len(written) > MAX_LENGTH:
        raise _invalid(written)
    sign, integer, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    digits = int(integer + fraction or "0")
    nano, form = _scaled(digits, -len(fraction), suffix)
    if form is Format.BINARY_SI:
        nano = min(nano, MAX_BINARY)
        if 0 < nano < NANO:
            form = Format.DECIMAL_SI
    return Quantity(-nano if sign == "-" else nano, form)


def _invalid(written: str) -> QuantityError:
    excerpt = written if len(written) <= 40 else f"{written[:40]}…"
    return QuantityError(f"“{excerpt}” is not a quantity such as 80Gi, 500m or 4.")


class Form(NamedTuple):
    """
    Upstream's representation of an amount in memory. `text` is the parsed text if that was canonical.

    Upstream compares these structures in one place, so 5 and 5000m differ there.
    """

    value: int
    scale: int
    text: str
    format: Format


@lru_cache(maxsize=4096)
def quantity_form(text: str) -> Form | None:
    """
    Return the form of a quantity as it was written.

    None for one that upstream stores as a pointer, which equals no other. Raise `QuantityError` if invalid.
    """
    quantity = Quantity.parse(text)
    if text == "0":
        return Form(0, 0, text, Format.DECIMAL_SI)
    match = SYNTAX.fullmatch(text)
    assert match is not None  # noqa: S101 - it has been parsed
    integer, fraction, suffix = match[2].lstrip("0") or "0", match[3] or "", match[4] or ""
    digits = integer + fraction
    if suffix in BINARY:
        if fraction or 14 - len(integer) - BINARY[suffix] * 3 // 10 < 0:
            return None
        keeps_text = int(integer) & 7 != 0
        return Form(quantity.nano // NANO, 0, text if keeps_text else "", Format.BINARY_SI)
    exponent = DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:])
    scale = exponent - len(fraction)
    if len(digits) > 18 or scale < -9:
        return None
    keeps_text = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    value = -int(digits) if match[1] == "-" else int(digits)
    form = Format.DECIMAL_SI if suffix in DECIMAL else Format.DECIMAL_EXPONENT
    return Form(value, scale, text if keeps_text else "", form)


def _scaled(digits: int, exponent: int, suffix: str) -> tuple[int, Format]:
    """Return digits × 10^exponent × suffix in nano-units, rounded up in magnitude."""
    factor, form = 1, Format.DECIMAL_SI
    if suffix in BINARY:
        factor, form = 2 ** BINARY[suffix], Format.BINARY_SI
    elif suffix in DECIMAL:
        exponent += DECIMAL[suffix]
    else:
        exponent += _exponent(suffix)
        form = Format.DECIMAL_EXPONENT
    exponent += 9
    if exponent >= 0:
        return digits * factor * 10**exponent, form
    return -(-digits * factor // 10**-exponent), form


def _exponent(suffix: str) -> int:
    exponent = int(suffix[1:])
    if abs(exponent) > MAX_EXPONENT:
        raise QuantityError(f"The exponent in “{suffix}” is out of range.")
    return exponent


def _binary(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(BINARY):
        units //= 1024
        power += 1
    return f"{units}{['', *BINARY][power]}"


def _decimal(nano: int, *, exponent: bool) -> str:
    """Format with the largest power of 1000 that leaves a whole number."""
    power = -9
    while nano % 1000 == 0 and (exponent or power < 18):
        nano //= 1000
        power += 3
    if exponent:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{DECIMAL_SUFFIX[power]}"
