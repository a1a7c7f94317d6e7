"""Whether every GPU of the fleet has a price now: products of clusters with the rate that prices them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from uuid import UUID

from inventory.models import Cluster, FleetSpan
from usage.cost import DEVICE_PARTS
from usage.models import Rate
from usage.rates import PriceGroup, RateCard


@dataclass(frozen=True, slots=True)
class PricedProduct:
    """So many GPUs of one product and capacity type in one cluster; `rate` is None if none has begun."""

    cluster: str
    driver: str
    product: str
    capacity_type: str
    gpus: Decimal
    rate: Rate | None


def coverage(card: RateCard, *, now: datetime) -> list[PricedProduct]:
    """Return every product that clusters have, first those without a rate, then by cluster; two queries."""
    parts: dict[tuple[UUID, str, str, str, Rate | None], int] = defaultdict(int)
    spans = FleetSpan.objects.filter(ended_at=None).values_list(
        *("cluster", "driver", "product", "basis", "basis__capacity_type", "parts")
    )
    for cluster, driver, product, basis, capacity_type, value in spans:
        rate = card.at(PriceGroup(cluster, driver, product, basis), now)
        parts[cluster, driver, product, capacity_type or "", rate] += value
    names = dict(Cluster.objects.values_list("pk", "name"))
    products = [
        PricedProduct(
            names[cluster], driver, product, capacity_type, Decimal(count) / DEVICE_PARTS, rate
        )
        for (cluster, driver, product, capacity_type, rate), count in parts.items()
        if count
    ]  # fmt: skip
    place = attrgetter("cluster", "product", "driver", "capacity_type")
    return sorted(products, key=lambda one: (one.rate is not None, place(one)))
