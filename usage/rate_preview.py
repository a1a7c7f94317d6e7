"""Which devices of the fleet a rate would price, before it is saved, and what prices them without it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from dra.cel import CelError
from dra.price_condition import PriceCondition, compile_condition
from dra.price_facts import PriceFacts
from inventory.models import Cluster, PriceBasis
from usage.models import Rate
from usage.rates import PriceGroup, RateCard, matches, rank


@dataclass(frozen=True, slots=True)
class PreviewedKind:
    """
    Alike devices for which all conditions of the rate hold, or whose expression fails, which is `problem`.

    `without` is the rate that prices them otherwise. If the rate does not win, that is the more specific one.
    """

    cluster: str
    driver: str
    product: str
    partition: str
    capacity_type: str
    without: Rate | None
    wins: bool
    problem: str = ""
    devices: int = 0


@dataclass(frozen=True, slots=True)
class RatePreview:
    """The kinds, first those that the rate would price; `devices` is all of the fleet."""

    kinds: list[PreviewedKind]
    devices: int

    @property
    def priced(self) -> int:
        return sum(kind.devices for kind in self.kinds if kind.wins)


def matches_nothing(rate: Rate) -> str:
    """Return that none of the devices that there are matches the rate, empty if one does or there is none."""
    found = preview(rate, now=timezone.now())
    if not found.devices or found.kinds:
        return ""
    return f"None of the {found.devices} devices of the clusters matches this rate now."


def preview(rate: Rate, *, now: datetime) -> RatePreview:
    """
    Return which devices that are mirrored now a rate would price when it begins, or now if that is later; in
    four queries. `rate` need not be saved; if it is, its stored version does not count.

    Raises CelError for an expression that is no condition.
    """
    condition = compile_condition(rate.expression) if rate.expression else None
    card, instant = RateCard.load(), max(now, rate.valid_from)
    others = RateCard([other for other in card.rates if other.pk != rate.pk], card.holding)
    names = dict(Cluster.objects.values_list("pk", "name"))
    bases = list(PriceBasis.objects.filter(devices__gt=0))
    numbers: Counter[PreviewedKind] = Counter()
    for row in bases:
        group = PriceGroup(row.cluster_id, row.driver, row.product, row.pk)
        if not matches(rate, group):
            continue
        facts = row.facts(names[row.cluster_id])
        holds, problem = _evaluated(condition, facts)
        if holds or problem:
            without = others.at(group, instant)
            wins = holds and (without is None or rank(rate) > rank(without))
            of_row = (facts.cluster, row.driver, row.product, row.partition, row.capacity_type)
            numbers[PreviewedKind(*of_row, without, wins, problem)] += row.devices
    kinds = sorted((replace(kind, devices=number) for kind, number in numbers.items()), key=_place)
    return RatePreview(kinds, sum(row.devices for row in bases))


def _evaluated(condition: PriceCondition | None, facts: PriceFacts) -> tuple[bool, str]:
    """Return whether the condition holds, and why it cannot be evaluated, "" if it can."""
    try:
        return condition is None or condition.holds(facts), ""
    except CelError as failure:
        return False, failure.message


def _place(kind: PreviewedKind) -> tuple[bool, str, str, str, str]:
    return not kind.wins, kind.cluster, kind.product, kind.partition, kind.capacity_type
