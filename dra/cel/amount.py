"""Quantities and versions at run time; of a quantity also how upstream keeps it: not all are integers."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from dra.quantity import NANO, Quantity, QuantityError, form_of
from dra.semver import Version

LARGEST = 2**63
DIGITS = frozenset("0123456789")


class Amount(NamedTuple):
    """
    An amount in nano-units.

    `kept` is (value, power of ten) where upstream keeps a 64-bit number, None for a decimal. 1000m is no
    integer there, and neither is 100Ti, which has too many digits. `computed` marks sums and differences:
    upstream holds them by pointer, and nothing equals a pointer on the right of `==`.
    """

    nano: int
    kept: tuple[int, int] | None
    computed: bool = False

    @property
    def integer(self) -> int | None:
        """Return the whole number that asInteger() gives; None if it fails."""
        if self.kept is None or self.kept[1] < 0:
            return None
        value = self.kept[0] * 10 ** self.kept[1]
        return value if -LARGEST <= value < LARGEST else None

    @property
    def approximate(self) -> float:
        if self.kept is None:
            return self.nano / NANO
        return float(self.kept[0]) * 10.0 ** self.kept[1]

    def plus(self, other: Amount) -> Amount:
        return _computed(self.nano + other.nano, _sum(self.kept, other.kept))

    def minus(self, other: Amount) -> Amount:
        negated = other.kept and (
            other.kept[0] if other.kept[0] == -LARGEST else -other.kept[0],
            other.kept[1],
        )
        return _computed(self.nano - other.nano, _sum(self.kept, negated))


def _computed(nano: int, kept: tuple[int, int] | None) -> Amount:
    """Return a result; what upstream keeps counts, which is off where the least number was negated."""
    return Amount(kept[0] * 10 ** (kept[1] + 9) if kept else nano, kept, computed=True)


@lru_cache(maxsize=4096)
def amount(text: str) -> Amount:
    """
    Read a quantity. Raise `dra.quantity.QuantityError` if it is none.

    Upstream takes a bare sign, point or suffix for zero of it: "k" is 0k.
    """
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    bare = bool(text) and rest[:1] not in DIGITS
    try:
        form = form_of(f"{sign}0{rest}" if bare else text)
    except QuantityError:
        Quantity.parse(text)  # raises, too, and speaks of the text as it was written
        raise
    return Amount(Quantity.parse(f"{sign}0{rest}" if bare else text).nano, form and (form.value, form.scale))


@lru_cache(maxsize=4096)
def version(text: str, normalize: bool = False) -> Version:  # noqa: FBT001, FBT002 - CEL passes it by place
    """Read a version. Raise `dra.semver.VersionError` if it is none."""
    return Version.parse(text, normalize)


def whole(number: int) -> Amount:
    return Amount(number * NANO, (number, 0))


def _sum(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """Add two kept numbers at the finer power of ten; None where upstream would go over to a decimal."""
    if one is None or other is None:
        return None
    if not one[0] or not other[0]:
        return one if not other[0] else other
    power = min(one[1], other[1])
    parts = [value * 10 ** (its - power) for value, its in (one, other)]
    if all(-LARGEST <= part < LARGEST for part in (*parts, sum(parts))):
        return sum(parts), power
    return None
