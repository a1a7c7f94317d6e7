"""
Which price applies to a device at an instant: the most particular rate that has begun, of those the newest.

Pure: a `RateCard` is read once and asked as often as needed, so a report costs one query for all prices.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from usage.models import Rate

BRANDS = re.compile(r"^((nvidia|tesla)\s+)+")


class Priced(Protocol):
    """What a price depends on: an allocation with its claim's cluster, or a device of the inventory."""

    @property
    def cluster_id(self) -> UUID: ...
    @property
    def driver(self) -> str: ...
    @property
    def product(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices that cost the same: those of one cluster, driver and product."""

    cluster_id: UUID
    driver: str
    product: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a time span in which one price applies; `rate` is None where none does."""

    start: datetime
    end: datetime
    rate: Rate | None


def plain(product: str) -> str:
    """Return `product` as prices compare it: small letters, single spaces, no maker in front."""
    return BRANDS.sub("", " ".join(product.casefold().split()))


def is_product(wanted: str, product: str) -> bool:
    """
    Say whether `product` begins with the whole words of `wanted`.

    Whole words, because "L4" must not price an L40S. Empty matches everything.
    """
    start, whole = plain(wanted), plain(product)
    return whole.startswith(start) and not (start and whole[len(start) :][:1].isalnum())


def matches(rate: Rate, what: Priced) -> bool:
    return (
        rate.cluster_id in (None, what.cluster_id)
        and rate.driver in ("", what.driver)
        and is_product(rate.product, what.product)
    )


def particularity(rate: Rate) -> tuple[int, int, bool, bool]:
    """
    Return what ranks rates that match the same device.

    More conditions first; with as many, the longer product, then that of a cluster, then that of a driver.
    """
    conditions = (bool(rate.product), rate.cluster_id is not None, bool(rate.driver))
    return sum(conditions), len(plain(rate.product)), rate.cluster_id is not None, bool(rate.driver)


class RateCard:
    """All prices at hand. Remembers which of them match a kind of device, of which there are few."""

    def __init__(self, rates: Sequence[Rate]) -> None:
        # Best first: of equally particular ones the newest; the id makes the order the same every time.
        self.rates = sorted(
            rates, key=lambda rate: (particularity(rate), rate.valid_from, str(rate.pk)), reverse=True
        )
        self._of_kind: dict[Kind, list[Rate]] = {}

    @classmethod
    def load(cls) -> "RateCard":
        return cls(list(Rate.objects.all()))

    def matching(self, what: Priced) -> list[Rate]:
        """Return every rate that matches, at whatever time, best first."""
        kind = Kind(what.cluster_id, what.driver, what.product)
        if kind not in self._of_kind:
            self._of_kind[kind] = [rate for rate in self.rates if matches(rate, kind)]
        return self._of_kind[kind]

    def at(self, what: Priced, instant: datetime) -> Rate | None:
        return next((rate for rate in self.matching(what) if rate.valid_from <= instant), None)

    def segments(self, what: Priced, start: datetime, end: datetime) -> Iterator[Segment]:
        """Cut the span from `start` to `end` where the price changes. An empty span has no segments."""
        if start >= end:
            return
        changes = {rate.valid_from for rate in self.matching(what) if start < rate.valid_from < end}
        edges = [start, *sorted(changes), end]
        open_since, current = start, self.at(what, start)
        for edge in edges[1:-1]:
            following = self.at(what, edge)
            if following != current:
                yield Segment(open_since, edge, current)
                open_since, current = edge, following
        yield Segment(open_since, end, current)
