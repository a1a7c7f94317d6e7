"""What people narrow the catalogue down by; page, CSV and API ask here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from claims.catalogue.entries import CatalogueEntry

GB = 10**9  # models are named by it: a GPU "of 80 GB" has 79.6 GiB
LAST = float("inf")

SORTS: dict[str, Callable[[CatalogueEntry], object]] = {
    "title": lambda entry: 0,
    "free": lambda entry: -(entry.free or 0),
    "price": lambda entry: LAST if entry.price is None else entry.price,
    "memory": lambda entry: -(entry.memory or 0),
    "wait": lambda entry: (
        LAST if entry.waits.device.median is None else entry.waits.device.median.total_seconds()
    ),
    "devices": lambda entry: -entry.version.max_devices,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Conditions of which each profile has to meet all; what is empty asks for nothing.

    `memory_gb` is GB (10⁹ bytes) of every device that may come, `price` is per device and hour at most. What
    cannot be told meets no condition: a profile without a price is not known to be cheap.
    """

    words: str = ""
    memory_gb: int | None = None
    model: str = ""
    sharing: str = ""
    price: Decimal | None = None
    free: bool = False
    mine: bool = False
    automatic: bool = False

    def keeps(self, entry: CatalogueEntry) -> bool:
        return (
            (self.memory_gb is None or (entry.memory or 0) >= self.memory_gb * GB)
            and (not self.model or self.model.lower() in (one.lower() for one in entry.products))
            and (not self.sharing or self.sharing in entry.sharing)
            and (self.price is None or (entry.price is not None and entry.price <= self.price))
            and (not self.free or bool(entry.free))
            and (not self.mine or entry.may_request)
            and (not self.automatic or entry.asks_nobody)
            and _says(entry, self.words)
        )


def narrowed(entries: Iterable[CatalogueEntry], wanted: Wanted, sort: str = "title") -> list[CatalogueEntry]:
    """Return the entries that meet all conditions; `sort` is one of SORTS, and the title settles ties."""
    kept = sorted((one for one in entries if wanted.keeps(one)), key=lambda one: one.profile.title.lower())
    return sorted(kept, key=SORTS[sort])  # type: ignore[arg-type]  # each answers with one kind of value


def _says(entry: CatalogueEntry, words: str) -> bool:
    profile = entry.profile
    text = " ".join([profile.title, profile.slug, profile.use, *entry.products, *entry.sharing]).lower()
    return all(word in text for word in words.lower().split())
