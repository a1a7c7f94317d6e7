"""Whether every GPU of the fleet has a price now: products of clusters with the rate that prices them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from inventory.models import Cluster, FleetSpan
from usage.cost import DEVICE_PARTS
from usage.models import Rate
from usage.rates import PriceGroup, RateCard


@dataclass(frozen=True, slots=True)
class PricedProduct:
    """So many GPUs of one product in one cluster; `rate` is None if none has begun."""

    cluster: str
    driver: str
    product: str
    gpus: Decimal
    rate: Rate | None


def coverage(card: RateCard, *, now: datetime) -> list[PricedProduct]:
    """Return every product that clusters have, first those without a rate, then by cluster; two queries."""
    parts: dict[PriceGroup, int] = defaultdict(int)
    for span in FleetSpan.objects.filter(ended_at=None):
        parts[PriceGroup(span.cluster_id, span.driver, span.product)] += span.parts
    names = dict(Cluster.objects.values_list("pk", "name"))
    products = [
        PricedProduct(
            names[group.cluster_id], group.driver, group.product, Decimal(count) / DEVICE_PARTS,
            card.at(group, now),
        )
        for group, count in parts.items()
        if count
    ]  # fmt: skip
    return sorted(products, key=lambda one: (one.rate is not None, one.cluster, one.product, one.driver))
