"""Claims that have ended and whose pods still hold devices: they are billed until these end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from claims.models import Allocation, Claim, ClaimQuerySet
from claims.states import ClaimState
from teams.models import User
from usage.cost import Cost, Interval, UsageInterval, interval_cost, per_hour, total
from usage.rates import RateCard

AFTER = timedelta(minutes=5)  # a pod that ends within its grace period is no overstay
HELD = Allocation.objects.filter(claim=OuterRef("pk"), ended_at=None)


def overstaying(user: User | AnonymousUser, now: datetime) -> ClaimQuerySet:
    """Return the ended claims that still hold devices, of those that the user may see."""
    ended = Claim.objects.visible_to(user).filter(state=ClaimState.RELEASING, state_since__lte=now - AFTER)
    return ended.filter(Exists(HELD))


@dataclass(slots=True)
class Overstay:
    """What a claim holds since its end: devices, their price per hour, and their cost since then."""

    devices: int = 0
    per_hour: Cost = field(default_factory=Cost)
    cost: Cost = field(default_factory=Cost)


def overstays_of(claims: QuerySet[Claim], *, now: datetime) -> dict[UUID, Overstay]:
    """Return what each of these claims holds since its end; one query, and those of the rates."""
    since_end = Q(ended_at=None) | Q(ended_at__gt=F("claim__state_since"))
    rows: Any = Allocation.objects.gpus().filter(since_end, claim__in=claims.order_by().values("pk"))
    card = RateCard.load()
    found: dict[UUID, Overstay] = defaultdict(Overstay)
    for row in rows.annotate(cluster=F("claim__cluster"), end=F("claim__state_since")):
        overstay = found[row.claim_id]
        interval = UsageInterval.from_allocation(row, row.cluster)
        overstay.cost.add(interval_cost(interval, card, until=now, within=Interval(row.end, now)))
        if row.ended_at is None:
            overstay.devices += 1
            overstay.per_hour.add(per_hour([interval], card, at=now))
    return found


def sum_of(overstays: Iterable[Overstay]) -> Overstay:
    every = list(overstays)
    return Overstay(
        sum(one.devices for one in every),
        total(one.per_hour for one in every),
        total(one.cost for one in every),
    )
