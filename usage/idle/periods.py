"""
Which claims are idle, since when, and what that costs: stored, so that lists look at no telemetry.

A claim is idle while all devices that it holds are (`usage.telemetry.device_uses`); one that works, or of
which nothing is measured, is enough for it not to be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import batched
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Subquery

from claims.models import Allocation, Claim
from claims.notices import resolve_idle
from claims.states import ClaimState
from inventory.models import DeviceUtilization
from inventory.states import DeviceUse
from usage.cost import UsageInterval, per_hour
from usage.models import IdlePeriod
from usage.rates import RateCard
from usage.telemetry import recent_utilization

AT_ONCE = 500  # claims whose devices are in memory

IDLE = DeviceUtilization.objects.filter(
    use=DeviceUse.IDLE,
    device__cluster=OuterRef("claim__cluster"),
    device__driver=OuterRef("driver"),
    device__pool=OuterRef("pool"),
    device__name=OuterRef("device"),
)


class IdleDevices(NamedTuple):
    """The devices of one claim, all idle since `since`."""

    since: datetime
    number: int


def idle_claims() -> dict[UUID, IdleDevices]:
    """Return the allocated claims all of whose GPUs are idle; one query."""
    held = Allocation.objects.gpus().filter(ended_at=None, claim__state=ClaimState.ALLOCATED).order_by()
    some = held.filter(claim__in=held.filter(Exists(IDLE)).values("claim"))
    since: dict[UUID, list[datetime | None]] = defaultdict(list)
    for claim, at in some.annotate(since=Subquery(IDLE.values("since")[:1])).values_list("claim", "since"):
        since[claim].append(at)
    found = {}
    for claim, times in since.items():
        known = [at for at in times if at is not None]
        if len(known) == len(times):
            found[claim] = IdleDevices(max(known), len(known))
    return found


def refresh(now: datetime) -> None:
    """End the periods that are over, begin new ones, and store what each costs per hour now."""
    idle = idle_claims()
    lasting = {row.claim_id: row for row in IdlePeriod.objects.lasting()}
    over = [row for claim, row in lasting.items() if claim not in idle or idle[claim].since > row.noticed_at]
    _end(over, now)
    for row in over:
        del lasting[row.claim_id]
    card = RateCard.load()
    for claims in batched(idle, AT_ONCE):
        _store(claims, idle, lasting, card, now)


def _end(periods: Collection[IdlePeriod], now: datetime) -> None:
    """End these periods. Their devices were freed if the claim does not hold them any more."""
    claims = [row.claim_id for row in periods]
    holding = set(
        Claim.objects.filter(pk__in=claims, state=ClaimState.ALLOCATED).values_list("pk", flat=True)
    )
    for was_freed in (True, False):
        ids = [row.pk for row in periods if (row.claim_id not in holding) is was_freed]
        IdlePeriod.objects.lasting().filter(pk__in=ids).update(ended_at=now, was_freed=was_freed)
    resolve_idle(*claims)


def _store(
    claims: Collection[UUID],
    idle: Mapping[UUID, IdleDevices],
    lasting: Mapping[UUID, IdlePeriod],
    card: RateCard,
    now: datetime,
) -> None:
    begun = [claim for claim in claims if claim not in lasting]
    new_claims = Claim.objects.filter(pk__in=begun).only("team", "state")
    teams = {claim.pk: claim.team_id for claim in new_claims}
    measured = recent_utilization(new_claims, now=now, since=now)
    prices = prices_per_hour(claims, card, now)
    new, changed = [], []
    for claim in claims:
        price, currency = prices.get(claim, (None, ""))
        row = lasting.get(claim)
        if row is None:
            since = idle[claim].since
            seen = measured[claim].latest if claim in measured else None
            earlier = min(seen.idle_since or since, since) if seen else since
            row = IdlePeriod(claim_id=claim, team_id=teams[claim], since=earlier, noticed_at=since)
            new.append(row)
        elif (row.devices, row.per_hour, row.currency) != (idle[claim].number, price, currency):
            changed.append(row)
        row.devices, row.per_hour, row.currency = idle[claim].number, price, currency
    IdlePeriod.objects.bulk_create(new, ignore_conflicts=True)  # another run may have begun one
    IdlePeriod.objects.bulk_update(changed, ["devices", "per_hour", "currency"])


def prices_per_hour(
    claims: Iterable[UUID], card: RateCard, now: datetime
) -> dict[UUID, tuple[Decimal | None, str]]:
    """
    Return what the devices of each claim cost per hour, to four digits, and in which currency; one query.

    The price is None without a rate for one of them, and with rates in several currencies.
    """
    held: dict[UUID, list[UsageInterval]] = defaultdict(list)
    rows: Any = Allocation.objects.gpus().filter(claim__in=list(claims), ended_at=None)
    for row in rows.annotate(cluster=F("claim__cluster")):
        held[row.claim_id].append(UsageInterval.from_allocation(row, row.cluster))
    prices: dict[UUID, tuple[Decimal | None, str]] = {}
    for claim, intervals in held.items():
        cost = per_hour(intervals, card, at=now)
        if len(cost.prices) == 1 and not cost.unpriced_held:
            ((currency, price),) = cost.prices.items()
            prices[claim] = price, currency
    return prices
