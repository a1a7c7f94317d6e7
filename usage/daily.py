"""
Use of each claim on each past day (UTC), stored, so that a month is a sum of rows and not of its history.

`StoredDays.until` says which days have rows. `forget_from` moves it back in the transaction that changes the
past (a late end of an allocation, a rate that began earlier); from there on readers compute from
allocations until `store_days` has stored the days again. So a figure is never older than what it is made of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.db.models import Case, Count, F, Func, Min, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Cast, Coalesce, Greatest, Least
from django.utils import timezone

from claims.models import Allocation, Claim, Transition
from core.models import RowDifferences
from core.prepared import Prepared
from inventory.models import FleetSpan
from teams.models import Team
from usage import claim_rankings, daily_activity, daily_sums, monthly_sums
from usage.cost import Cost, Interval, Ledger, LineKey, UsageInterval, millionths
from usage.models import Correction, DailyActivity, DailyUse, Rollup, StoredDays
from usage.owners import PreviousOwners
from usage.rates import PriceGroup, RateCard

DAY = timedelta(days=1)
SETTLED_AFTER = timedelta(hours=1)  # after midnight: then no transaction of the day before is open
CHUNK = 30  # days computed at once
KEY = ("claim_id", "day", "driver", "product", "partition", "capacity_type", "rate_id")
VALUES = ("team_id", "owner_id", "currency", "held", "amount")


def midnight(day: date) -> datetime:
    """Return the begin of a day in UTC."""
    return datetime.combine(day, time(), UTC)


def utc_day(instant: datetime) -> date:
    return instant.astimezone(UTC).date()


type CostKey = tuple[LineKey, date | None]  # the month that it corrects

# Reading.

UNTIL = StoredDays.objects.values("until")[:1]
STORED_UNTIL = Prepared(lambda: StoredDays.objects.values_list("until"))


def stored_until() -> date | None:
    """Return the day before which every day has rows, None if no day has."""
    for (until,) in STORED_UNTIL.rows():
        return until  # type: ignore[no-any-return]
    return None


def first_day_in(span: Interval) -> date:
    """Return the first day (UTC) that does not begin before the span."""
    return utc_day(span.start) + (DAY if span.start > midnight(utc_day(span.start)) else timedelta(0))


def team_costs(team: Team, span: Interval, card: RateCard, *, now: datetime) -> dict[CostKey, Cost]:
    """
    Return the cost of a team in a span of whole days (UTC) by claim, product, partition and owner: past days
    from rows, today and the days that are not stored from allocations, and the corrections that are booked in
    it.
    """
    first = utc_day(span.start)
    costs, until = _stored_costs(team, first, utc_day(span.end))
    rest = Interval(max(span.start, midnight(until)) if until else span.start, span.end)
    if rest.start >= rest.end:
        return costs
    ledger = Ledger()
    for interval in held_in(team, rest, begun=until is None or until <= first):
        ledger.add(interval, card, until=now, within=rest)
    for line, cost in ledger.costs().items():
        costs[line, None].add(cost)
    return costs


def held_in(team: Team, span: Interval, *, begun: bool) -> Iterator[UsageInterval]:
    """
    Yield the usage of a team in a span, divided by owner; two queries. Unless the span has `begun` with the
    question, the day before is stored: its rows then name the claims that held devices when it ended.
    """
    if begun:
        return _intervals(_overlapping(span).filter(claim__team=team).values_list(*COLUMNS), span.start)
    rows = HELD_SINCE.rows(team.pk, span.start, span.end, utc_day(span.start) - DAY)
    return _intervals(rows, span.start)


def _held_since(team: UUID, start: datetime, stop: datetime, last: date) -> QuerySet[Allocation]:
    """
    Return what a team held from `start` to `stop`; the day `last` before is the end of the stored days.

    Only a live claim begins to hold devices, so one that began since is live now or changed its state since.
    """
    holding = DailyUse.objects.filter(team=team, day=last).order_by().values("claim")
    live = Claim.objects.live().filter(team=team).order_by().values("pk")
    moved = Transition.objects.filter(team=team, at__gte=start).order_by().values("claim")
    held = Allocation.objects.gpus().filter(_held_after(start), started_at__lt=stop)
    return held.filter(claim__in=holding.union(live, moved, all=True)).order_by()


# Usage without model objects: a month may have many allocations.
COLUMNS = (
    *("claim_id", "claim__cluster_id", "driver", "product", "basis_id", "partition", "fraction"),
    *("started_at", "ended_at", "capacity_type", "claim__requested_by_id"),
)
HELD_SINCE = Prepared(lambda *of: _held_since(*of).values_list(*COLUMNS), UUID, datetime, datetime, date)


def _stored_sums(team: UUID, first: date, end: date) -> QuerySet[Any, tuple[Any, ...]]:
    """
    Return the sums of a team's stored days by line and currency, those of the corrections that are booked on
    these days, with the day that they correct, and a row with the end of the stored days.
    """
    days = DailyUse.objects.filter(team=team, day__gte=first, day__lt=Least(end, Subquery(UNTIL)))
    booked = Correction.objects.filter(team=team, booked_on__gte=first, booked_on__lt=end)
    no_day = Cast(Value(None), models.DateField())  # of three unions, two without a type are text
    line, sums = ("claim_id", "product", "partition", "owner_id", "currency"), (Sum("held"), Sum("amount"))
    unpriced = Coalesce(Sum("held", filter=Q(rate=None)), Value(0), output_field=models.DecimalField())
    parts = [
        rows.order_by()
        .annotate(corrected=corrected)
        .values_list(*line, "corrected")
        .annotate(*sums, unpriced=unpriced, until=no_day)
        for rows, corrected in ((days, no_day), (booked, F("day")))
    ]
    no_id, no_text = Value(None, models.UUIDField()), Value("", models.CharField())
    nothing = (no_text, no_text, no_id, no_text, no_day, *(Value(0) for _ in range(3)))
    ends = StoredDays.objects.annotate(claim=no_id).values_list("claim", *nothing, "until")
    return parts[0].union(parts[1], ends, all=True).order_by()


STORED_SUMS = Prepared(_stored_sums, UUID, date, date)


def _stored_costs(team: Team, first: date, end: date) -> tuple[dict[CostKey, Cost], date | None]:
    """Return the sums of the stored days from `first` to `end`, and the end of all stored days; one query."""
    costs: dict[CostKey, Cost] = defaultdict(Cost)
    stored_until: date | None = None
    for *line, currency, corrected, held, amount, unpriced, until in STORED_SUMS.rows(team.pk, first, end):
        key = LineKey(*line)
        if key.claim_id is None:
            stored_until = until
            continue
        exact = {currency: int(amount)} if currency else {}
        month = corrected and corrected.replace(day=1)
        costs[key, month].add(Cost(int(held), int(unpriced), exact))
    return costs, stored_until


def _held_after(instant: datetime) -> Q:
    return Q(ended_at=None) | Q(ended_at__gt=instant)


def _overlapping(span: Interval) -> QuerySet[Allocation]:
    return Allocation.objects.gpus().filter(_held_after(span.start), started_at__lt=span.end).order_by()


def _intervals(rows: Iterable[Sequence[Any]], since: datetime) -> Iterator[UsageInterval]:
    """Yield the usage of rows of `COLUMNS` for each owner since then; what ended before is left whole."""
    groups: dict[Any, PriceGroup] = {}
    rows = list(rows)
    owners = PreviousOwners(since)  # after the rows
    for claim, *kind, partition, fraction, start, end, capacity_type, owner in rows:
        key = tuple(kind)
        group = groups.get(key) or groups.setdefault(key, PriceGroup(*key))
        yield from owners.divide(
            UsageInterval(claim, group, partition, millionths(fraction), start, end, capacity_type, owner)
        )


def mean_activity(claims: Sequence[Claim | UUID], since: datetime, *, now: datetime) -> float | None:
    """
    Return the mean of 0 to 1 over all rollups of these claims since then; None without telemetry. One query:
    whole stored days come from their rows.
    """
    if not claims:
        return None
    span = Interval(since, now)
    first, end = first_day_in(span), utc_day(now)
    keys = [claim if isinstance(claim, UUID) else claim.pk for claim in claims]
    totals = MEAN_ACTIVITY.rows(keys, since, first, end, midnight(first), midnight(end))
    number = sum(count or 0 for _total, count in totals)
    return sum(total or 0.0 for total, _count in totals) / number if number else None


class UtcMidnight(Func):
    """The begin of a day in UTC."""

    template = "((%(expressions)s)::timestamp AT TIME ZONE 'UTC')"
    output_field = models.DateTimeField()


def _activity(
    claim: UUID, since: datetime, first: date, end: date, first_instant: datetime, end_instant: datetime
) -> QuerySet[Any, Any]:
    """
    Return (sum, number) of the stored days of a claim from `first` to `end`, and of its rollups since then on
    no such day; the instants are the begin of both days.
    """
    days = DailyActivity.objects.filter(claim=claim, day__gte=first, day__lt=end)
    stored = days.filter(day__lt=Subquery(UNTIL))
    until = Least(Coalesce(UtcMidnight(Subquery(UNTIL)), first_instant), end_instant)
    rollups = Rollup.objects.filter(claim=claim, bucket__gte=since, activity__isnull=False)
    measured = rollups.filter(Q(bucket__lt=first_instant) | Q(bucket__gte=until))
    parts = [
        rows.order_by().values(part=Value(1)).annotate(total=Sum("activity"), number=number)
        for rows, number in ((stored, Sum("rollups")), (measured, Count("activity")))
    ]
    of_days, of_rollups = (rows.values_list("total", "number") for rows in parts)
    return of_days.union(of_rollups, all=True)


MEAN_ACTIVITY = Prepared(_activity, UUID, datetime, date, date, datetime, datetime, any_of="claim_id")


# Writing.


def forget_from(instant: datetime, *, now: datetime) -> None:
    """
    Record, in the transaction of a change, that the days from `instant` on must be stored again; those of
    closed months are compared instead.

    The update locks the row even if it changes nothing, so that `store_days` of the same days waits for this
    transaction, or this one for it.
    """
    day = Value(utc_day(instant), models.DateField())
    if utc_day(instant) < utc_day(now):
        StoredDays.objects.update(
            until=Least("until", Greatest(day, Coalesce("closed_until", day))),
            check_from=Case(
                When(closed_until__gt=utc_day(instant), then=Least(Coalesce("check_from", day), day)),
                default=F("check_from"),
            ),
        )


def store_days(*, now: datetime) -> int:
    """
    Store the past days that have no rows yet; return their number. Each chunk is a transaction. Closed days
    that may differ get corrections first; last come the rankings of claims that are missing.
    """
    end = utc_day(now - SETTLED_AFTER)
    earliest = first_day()
    if earliest == date.max:
        return 0
    StoredDays.objects.get_or_create(pk=1, defaults={"until": min(earliest, end)})
    _correct_changed()
    stored = 0
    while True:
        with transaction.atomic():
            first = lock_days().until
            until = min(first + CHUNK * DAY, end)
            if first >= until:
                break
            refresh(first, until)
            StoredDays.objects.update(until=until, months_until=until)
        stored += (until - first).days
    _rank_claims(earliest)
    return stored


def _rank_claims(earliest: date) -> None:
    """Store the rankings of claims that are missing. Each is a transaction."""
    until = stored_until() or earliest
    for first, end in claim_rankings.missing(earliest, until):
        with transaction.atomic():
            if lock_days().until < until:  # days were forgotten meanwhile
                return
            claim_rankings.store(first, end)


def _correct_changed() -> None:
    """Compare the closed days from `StoredDays.check_from` on. Each chunk is a transaction."""
    while True:
        with transaction.atomic():
            days = lock_days()
            if days.check_from is None or days.closed_until is None:
                return
            end = min(days.check_from + CHUNK * DAY, days.closed_until)
            _correct(days.check_from, end, check=False)
            StoredDays.objects.update(check_from=end if end < days.closed_until else None)


def repair_chunk(number: int) -> RowDifferences:
    """Compute one chunk of the stored days again; repeated calls go through all of them."""
    with transaction.atomic():
        if StoredDays.objects.exists():
            until, first = lock_days().until, first_day()
            chunks = max(-(-(until - first).days // CHUNK), 1)
            start = first + number % chunks * CHUNK * DAY
            return refresh(start, min(start + CHUNK * DAY, until))
    return RowDifferences()


def refresh_all(*, check: bool = False) -> RowDifferences:
    """Compute all stored days again, or with `check` only compare them; return what differed."""
    total = RowDifferences()
    until = stored_until()
    start = first_day()
    while until is not None and start < until:
        with transaction.atomic():
            lock_days()
            total += refresh(start, min(start + CHUNK * DAY, until), check=check)
        start += CHUNK * DAY
    with transaction.atomic():
        if until is not None:
            lock_days()
        return total + claim_rankings.compare(check=check)


def first_day() -> date:
    """Return the first day with an allocation, a recorded size of the fleet, or a row."""
    allocation = Allocation.objects.aggregate(at=Min("started_at"))["at"]
    fleet = FleetSpan.objects.aggregate(at=Min("started_at"))["at"]
    row = DailyUse.objects.aggregate(day=Min("day"))["day"]
    days = [day for day in (allocation and utc_day(allocation), fleet and utc_day(fleet), row) if day]
    return min(days, default=date.max)


def lock_days() -> StoredDays:
    """Lock and return the row until the transaction ends: days are then stored and months closed by one."""
    return StoredDays.objects.select_for_update(no_key=True).get()


def refresh(first: date, end: date, *, check: bool = False) -> RowDifferences:
    """
    Write the rows of these days, or with `check` only compare them; return what differed. Days of closed
    months get corrections instead. The caller holds the lock.
    """
    stored, months, closed_until = StoredDays.objects.values_list(
        "until", "months_until", "closed_until"
    ).get()
    closed = min(max(first, closed_until or first), end)
    differences = _correct(first, closed, check=check) if first < closed else RowDifferences()
    if closed < end:
        differences += _refresh_use(closed, end, check=check)
        span = midnight(closed), midnight(end)
        differences += daily_activity.refresh(closed, end, span, check=check)
        if differences.total and not check:
            claim_rankings.forget(closed, end)
        differences += daily_sums.refresh(closed, end, check=check)
        unread = end <= stored != months  # forgotten, and not stored again now
        until = max(end, stored)
        differences += monthly_sums.refresh(closed, end, until=until, unread=unread, check=check)
    return differences


def _correct(first: date, end: date, *, check: bool) -> RowDifferences:
    """
    Book today by how much the entries of these closed days differ from their rows and earlier corrections;
    return for how many of them. A repeated call finds no difference.
    """
    columns = (*KEY, *VALUES)
    differing = {_key(row): row for row in _expected_use(first, end)}
    recorded: dict[tuple[Any, ...], list[Any]] = {}
    for model in (DailyUse, Correction):
        for *row, team, owner, currency, held, amount in model.objects.filter(
            day__gte=first, day__lt=end
        ).values_list(*columns):
            sums = recorded.setdefault(tuple(row), [team, owner, currency, 0, 0])
            sums[3] += int(held)
            sums[4] += int(amount)
    today, corrections = utc_day(timezone.now()), []
    for key in sorted(differing.keys() | recorded.keys(), key=str):
        row = differing.get(key)
        same = recorded.get(key) or (row.team_id, row.owner_id, row.currency, 0, 0)  # type: ignore[union-attr]
        held, amount = (row.held if row else 0) - same[3], (row.amount if row else 0) - same[4]
        if held or amount:
            values = (*key, *same[:3], held, amount)
            corrections.append(Correction(booked_on=today, **dict(zip(columns, values, strict=True))))
    if not check:
        Correction.objects.bulk_create(corrections, 2000)
    return RowDifferences(len(corrections))


def _key(row: DailyUse) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in KEY)


def _refresh_use(first: date, end: date, *, check: bool) -> RowDifferences:
    expected = {_key(row): row for row in _expected_use(first, end)}
    stored = DailyUse.objects.filter(day__gte=first, day__lt=end)
    rows = {values[: len(KEY)]: values[len(KEY) :] for values in stored.values_list(*KEY, *VALUES)}
    missing = [row for key, row in expected.items() if key not in rows]
    altered = [row for key, row in expected.items() if key in rows and rows[key] != _values(row)]
    obsolete = [key for key in rows if key not in expected]
    if not check:
        changed = sorted([*missing, *altered], key=lambda row: (row.claim_id, row.day))
        DailyUse.objects.bulk_create(
            changed, 2000, update_conflicts=True, unique_fields=KEY, update_fields=VALUES
        )
        for key in obsolete:
            DailyUse.objects.filter(**dict(zip(KEY, key, strict=True))).delete()
    return RowDifferences(len(missing), len(altered), len(obsolete))


def _values(row: DailyUse) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in VALUES)


def _expected_use(first: date, end: date) -> Iterator[DailyUse]:
    """Yield the entries of these days."""
    span = Interval(midnight(first), midnight(end))
    card, ledger = RateCard.load(), Ledger()
    allocations = _overlapping(span)
    teams = dict(allocations.values_list("claim_id", "claim__team_id"))
    for interval in _intervals(allocations.values_list(*COLUMNS), span.start):
        ledger.add(interval, card, until=span.end, within=span)
    for entry in ledger:
        claim_id, product, partition, owner = entry.line
        rate = entry.rate
        yield DailyUse(  # type: ignore[misc]  # what is held has an owner
            team_id=teams[claim_id], owner_id=owner, claim_id=claim_id, day=entry.day, driver=entry.driver,
            product=product, partition=partition, capacity_type=entry.capacity_type, rate=rate,
            currency=rate.currency if rate else "", held=entry.held, amount=sum(entry.cost.exact.values()),
        )  # fmt: skip
