"""
The cost of a named claim, divided among the pods that it was reserved for.

The claim is billed to its team as one; this says which pod caused how much of it. Pods that hold it at once
have equal shares, because Kubernetes gives each of them every device in full. Time in which it was allocated
and reserved for no pod is a row of its own, so that the rows add up to the cost of the claim to the cent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from claims.models import Allocation, Claim, Consumer, Delivery
from core.prepared import PreparedObjects
from usage.claim_use import whole_cents
from usage.cost import Cost, Interval, Ledger, UsageInterval, total
from usage.rates import RateCard

type EntryId = tuple[object, ...]  # `usage.cost.LedgerEntry.key`

MAX_PODS = 2000  # of a claim: beyond it, dividing its cost would take longer than a page may
SHOWN = 20

CONSUMERS: PreparedObjects[Consumer] = PreparedObjects(
    lambda claim: Consumer.objects.filter(claim=claim).order_by("started_at", "name"), UUID
)


@dataclass(slots=True)
class ConsumerCost:
    """
    What one pod caused of the cost of a claim, and when it held the claim; `until` is None while it does.

    Of the time without any pod, `name` and `uid` are empty and there are no times.
    """

    name: str = ""
    uid: str = ""
    resource: str = ""
    since: datetime | None = None
    until: datetime | None = None
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True)
class ConsumerSplit:
    """All rows, highest cost first; those of `shown` and `others` add up to `total`, the claim's cost."""

    rows: list[ConsumerCost]
    total: Cost

    @property
    def pods(self) -> list[ConsumerCost]:
        return [row for row in self.rows if row.uid]

    @property
    def shown(self) -> list[ConsumerCost]:
        return self.pods[:SHOWN]

    @property
    def more(self) -> int:
        """Return how many pods the page does not show."""
        return max(len(self.pods) - SHOWN, 0)

    @property
    def others(self) -> Cost | None:
        """Return the cost of pods that the page does not show."""
        return total(row.cost for row in self.pods[SHOWN:]) if self.more else None

    @property
    def unreserved(self) -> Cost | None:
        return next((row.cost for row in self.rows if not row.uid), None)


def consumers_of(claim: Claim) -> list[Consumer]:
    """Return every reservation of a claim; one query."""
    return CONSUMERS.objects(claim.pk)


def shared_cost(
    claim: Claim, allocations: Sequence[Allocation], card: RateCard, *, now: datetime
) -> ConsumerSplit | None:
    """Return the division for the page of a claim; None unless several pods used it. At most one query."""
    if claim.delivery == Delivery.TEMPLATE:
        return None
    split = split_by_consumer(claim, allocations, consumers_of(claim), card, now=now)
    return split if split and len(split.pods) > 1 else None


def split_by_consumer(
    claim: Claim,
    allocations: Sequence[Allocation],
    consumers: Sequence[Consumer],
    card: RateCard,
    *,
    now: datetime,
) -> ConsumerSplit | None:
    """Divide the cost of a claim until now; None without pods, or with more than `MAX_PODS`."""
    if not consumers or len(consumers) > MAX_PODS:
        return None
    intervals = merged(claim, allocations)
    entries = _entries(intervals, card, now)
    parts: dict[str, Cost] = defaultdict(Cost)
    for object_uid in {object_uid for object_uid, _interval in intervals}:
        held = [interval for uid, interval in intervals if uid == object_uid]
        own = [consumer for consumer in consumers if consumer.object_uid == object_uid]
        for uid, cost in _divide(held, own, entries, card, now):
            parts[uid].add(cost)
    whole = Cost()
    for entry in entries.values():
        whole.add(entry.cost)
    rows = _rows(consumers, parts)
    rows.sort(key=lambda row: (-sum(row.cost.exact.values()), -row.cost.held, row.name, row.uid))
    return ConsumerSplit(rows, whole)


def merged(claim: Claim, allocations: Iterable[Allocation]) -> list[tuple[str, UsageInterval]]:
    """Return the intervals of each ResourceClaim; equal devices that it held at the same time are one."""
    sums: dict[tuple[str, UsageInterval], int] = defaultdict(int)
    for allocation in allocations:
        interval = UsageInterval.from_allocation(allocation, claim.cluster_id)
        sums[allocation.object_uid, replace(interval, parts=0)] += interval.parts
    return [(object_uid, replace(interval, parts=parts)) for (object_uid, interval), parts in sums.items()]


class PricedEntry(NamedTuple):
    """A ledger entry: the time held, and the cost of it in whole cents."""

    held: int
    currency: str
    amount: int
    cost: Cost


def _entries(
    intervals: Iterable[tuple[str, UsageInterval]], card: RateCard, now: datetime
) -> dict[EntryId, PricedEntry]:
    ledger = Ledger()
    for _object_uid, interval in intervals:
        ledger.add(interval, card, until=now)
    entries = {}
    for entry in ledger:
        cost = entry.cost
        currency = entry.rate.currency if entry.rate else ""
        entries[entry.key] = PricedEntry(entry.held, currency, cost.exact.get(currency, 0), cost)
    return entries


class SharedTime(NamedTuple):
    """A time in which the same devices were held, for equally many consumers."""

    start: datetime
    end: datetime
    held: list[UsageInterval]
    consumers: int


def segments(
    intervals: Iterable[UsageInterval], consumers: Iterable[Consumer], now: datetime
) -> Iterator[SharedTime]:
    """Cut the time at each begin and end of an interval or a reservation."""
    counts: dict[datetime, int] = defaultdict(int)
    begins: dict[datetime, list[UsageInterval]] = defaultdict(list)
    ends: dict[datetime, list[UsageInterval]] = defaultdict(list)
    for interval in intervals:
        begins[interval.start].append(interval)
        ends[interval.end or now].append(interval)
    for consumer in consumers:
        counts[consumer.started_at] += 1
        counts[_end(consumer, now)] -= 1
    held: list[UsageInterval] = []
    count = 0
    for start, end in pairwise(sorted({*counts, *begins, *ends})):
        count += counts.get(start, 0)
        held = [interval for interval in held if interval not in ends.get(start, ())]
        held += begins.get(start, ())
        yield SharedTime(start, end, held, count)


def _end(consumer: Consumer, now: datetime) -> datetime:
    return max(consumer.ended_at or now, consumer.started_at)


def _divide(
    intervals: Sequence[UsageInterval],
    consumers: Sequence[Consumer],
    entries: Mapping[EntryId, PricedEntry],
    card: RateCard,
    now: datetime,
) -> Iterator[tuple[str, Cost]]:
    """
    Yield parts of the cost of one ResourceClaim with the uid of the consumer, "" for time without any.

    What each of several consumers has is added up once for all of them: one has the difference between its
    end and its begin. Fractions of the unit of money are dropped, far less than a cent.
    """
    each, so_far = Cost(), dict[datetime, Cost]()
    for segment in segments(intervals, consumers, now):
        so_far[segment.start] = _divided(each, 1)
        cost = _cost_of(segment, entries, card, now)
        if segment.consumers:
            each.add(_divided(cost, segment.consumers))
        else:
            yield "", cost
        so_far[segment.end] = _divided(each, 1)
    for consumer in consumers:
        yield consumer.uid, so_far.get(_end(consumer, now), each)
        yield consumer.uid, _divided(so_far.get(consumer.started_at, each), -1)


def _cost_of(
    segment: SharedTime, entries: Mapping[EntryId, PricedEntry], card: RateCard, now: datetime
) -> Cost:
    """Return the part of the ledger entries that a segment has, by the time held in it."""
    ledger, cost = Ledger(), Cost()
    if segment.start < now:
        for interval in segment.held:
            ledger.add(interval, card, until=now, within=Interval(segment.start, segment.end))
    for part in ledger:
        whole = entries[part.key]
        cost.held += part.held
        if part.rate is None:
            cost.unpriced_held += part.held
        else:
            amount = whole.amount * part.held // whole.held
            cost.exact[whole.currency] = cost.exact.get(whole.currency, 0) + amount
    return cost


def _divided(cost: Cost, by: int) -> Cost:
    amounts = {currency: amount // by for currency, amount in cost.exact.items()}
    return Cost(cost.held // by, cost.unpriced_held // by, amounts)


def _rows(consumers: Iterable[Consumer], parts: Mapping[str, Cost]) -> list[ConsumerCost]:
    """Return a row per pod and one of the time without any, each in whole cents by largest remainders."""
    rows = {"": ConsumerCost()} if "" in parts and parts[""].held else {}
    for consumer in consumers:
        row = rows.setdefault(
            consumer.uid,
            ConsumerCost(consumer.name, consumer.uid, consumer.resource, consumer.started_at),
        )
        row.until = consumer.ended_at
    for uid, row in rows.items():
        row.cost = parts[uid]
    for currency in {currency for row in rows.values() for currency in row.cost.exact}:
        amounts = {uid: Fraction(row.cost.exact.get(currency, 0)) for uid, row in rows.items()}
        for uid, amount in whole_cents(amounts).items():
            rows[uid].cost.exact[currency] = amount
    return list(rows.values())
