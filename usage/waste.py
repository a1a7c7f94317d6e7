"""What claims waste, added up: idle and oversized claims in all, by team and by profile; one query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet, Sum

from core.text import DASH, money

SHOWN = 8  # of each grouping, the most expensive first
PROFILE = "claim__profile_version__profile"
KEYS = ("team__slug", "team__title", f"{PROFILE}__slug", f"{PROFILE}__title", "currency")

type Amounts = dict[str, Decimal]  # by currency


@dataclass(frozen=True, slots=True)
class WasteGroup:
    """The claims of one team or profile; `url` is the query of the list that shows only them."""

    label: str
    url: str
    claims: int
    amount: str


@dataclass(frozen=True, slots=True)
class WasteGrouping:
    """The most expensive groups of `count`; `name` is what they are."""

    name: str
    groups: list[WasteGroup]
    count: int


@dataclass(frozen=True, slots=True)
class Waste:
    """Sums of claims; `per_hour` is their price, `amount` what is looked at: both by currency."""

    claims: int
    devices: int
    unpriced: int  # claims
    prices: Amounts
    amounts: Amounts
    groupings: list[WasteGrouping]

    @property
    def per_hour(self) -> str:
        return amounts_text(self.prices.items())

    @property
    def amount(self) -> str:
        return amounts_text(self.amounts.items())

    @property
    def share(self) -> float | None:
        """Return `amount` as a share of the price; None with several currencies."""
        if len(self.prices) != 1 or self.prices.keys() != self.amounts.keys():
            return None
        ((currency, price),) = self.prices.items()
        return float(self.amounts[currency] / price) if price else None


def waste_of(rows: QuerySet[Any], amount: str, *, by: str) -> Waste:
    """Add up the field `amount` of these claims; groups have the sums of the field `by`."""
    counted = rows.order_by().values_list(*KEYS)
    sums = counted.annotate(
        claims=Count("pk"),
        held=Sum("devices"),
        free=Count("pk", filter=Q(per_hour=None)),
        hourly=Sum("per_hour"),
        money=Sum(amount),
        grouped=Sum(by),
    )
    cells = list(sums)
    prices: Amounts = defaultdict(Decimal)
    amounts: Amounts = defaultdict(Decimal)
    for *_keys, currency, _claims, _devices, _free, hourly, total, _grouped in cells:
        if hourly is not None:
            prices[currency] += hourly
            amounts[currency] += total or 0
    return Waste(
        sum(cell[5] for cell in cells),
        sum(cell[6] for cell in cells),
        sum(cell[7] for cell in cells),
        prices,
        amounts,
        [_grouping("team", cells, 0), _grouping("profile", cells, 2)],
    )


def _grouping(name: str, cells: Iterable[tuple[Any, ...]], place: int) -> WasteGrouping:
    sums: dict[tuple[str, str], Amounts] = defaultdict(lambda: defaultdict(Decimal))
    claims: dict[tuple[str, str], int] = defaultdict(int)
    for cell in cells:
        group = cell[place : place + 2]
        claims[group] += cell[5]
        if cell[-1] is not None:
            sums[group][cell[4]] += cell[-1]
    most = sorted(claims, key=lambda group: (-sum(sums[group].values()), group))
    groups = [
        WasteGroup(
            title, f"?{urlencode({name: slug})}", claims[slug, title], amounts_text(sums[slug, title].items())
        )
        for slug, title in most[:SHOWN]
    ]
    return WasteGrouping(name, groups, len(most))


def amounts_text(amounts: Iterable[tuple[str, Decimal | None]]) -> str:
    """Return "€5.80 + $3.00", a dash without any."""
    texts = [money(amount, currency) for currency, amount in amounts if amount is not None]
    return " + ".join(texts) or DASH
