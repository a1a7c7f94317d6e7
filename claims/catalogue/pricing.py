"""
What devices cost an hour, for the order in which alternatives are offered.

Prices are known above this package: who knows them registers here. Without it, or where a kind of device has
no price, alternatives are ordered by the memory that they take.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

from claims.catalogue.kinds import DeviceKind

# Asked once with the kinds of every offer; answers with the most that one device of each offer costs an hour.
type Pricer = Callable[[Sequence[frozenset[DeviceKind]]], Sequence[Decimal | None]]

_pricers: list[Pricer] = []


def register(pricer: Pricer) -> None:
    """Let a package above tell prices. Called once, when its app is ready."""
    if pricer not in _pricers:
        _pricers.append(pricer)


def prices_of(offers: Sequence[frozenset[DeviceKind]]) -> list[Decimal | None]:
    """Return a price per device and hour for each offer, None where nobody knows one."""
    for pricer in _pricers:
        return list(pricer(offers))
    return [None] * len(offers)
