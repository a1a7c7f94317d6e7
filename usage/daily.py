"""
Use of each claim on each past day (UTC), stored, so that a month is a sum of rows and not of its history.

`StoredDays.until` says which days have rows. `forget_from` moves it back in the transaction that changes the
past (a late end of an allocation, a rate that began earlier); from there on readers compute from
allocations until `store_days` has stored the days again. So a figure is never older than what it is made of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import Count, F, Min, Q, QuerySet, Sum
from django.db.models.functions import Least, TruncDate

from claims.models import Allocation, Claim
from core.models import RowDifferences
from teams.models import Team
from usage.cost import Cost, Interval, LineKey, UsageInterval, interval_cost, millionths, sums
from usage.models import DailyActivity, DailyUse, Rollup, StoredDays
from usage.rates import PriceGroup, RateCard

DAY = timedelta(days=1)
SETTLED_AFTER = timedelta(hours=1)  # after midnight: then no transaction of the day before is open
CHUNK = 30  # days computed at once
KEY = ("claim_id", "day", "product", "partition", "currency")
VALUES = ("team_id", "held", "unpriced", "amount")


def midnight(day: date) -> datetime:
    """Return the begin of a day in UTC."""
    return datetime.combine(day, time(), UTC)


def utc_day(instant: datetime) -> date:
    return instant.astimezone(UTC).date()


# Reading.


def stored_until() -> date | None:
    """Return the day before which every day has rows, None if no day has."""
    return StoredDays.objects.values_list("until", flat=True).first()


def split(span: Interval, until: date | None, *, now: datetime) -> tuple[date, date] | None:
    """Return the first and the end of the stored days that are entirely in `span`; None without any."""
    if until is None:
        return None
    first = utc_day(span.start) + (DAY if span.start > midnight(utc_day(span.start)) else timedelta(0))
    end = min(until, utc_day(min(span.end, now)))
    return (first, end) if first < end else None


def team_costs(team: Team, span: Interval, card: RateCard, *, now: datetime) -> dict[LineKey, Cost]:
    """
    Return the cost of a team in a span by claim, product and partition: whole past days from rows, the parts
    of days at both ends and the days that are not stored from allocations.
    """
    until = stored_until()
    days = split(span, until, now=now)
    if until is None or days is None:
        return sums(_intervals(_overlapping(span).filter(claim__team=team)), card, until=now, within=span)
    first, end = days
    costs = _stored_costs(team, first, end)
    before, after = Interval(span.start, midnight(first)), Interval(midnight(end), span.end)
    parts = [part for part in (before, after) if part.start < part.end]
    for interval in _around(team, before, after, is_stored=end < until) if parts else ():
        for part in parts:
            costs[interval.line].add(interval_cost(interval, card, until=now, within=part))
    return costs


def _around(team: Team, before: Interval, after: Interval, *, is_stored: bool) -> Iterator[UsageInterval]:
    """
    Yield the usage of a team in the parts of a span around its stored days; one query.

    The rows of the day before and of the day after name the claims. If no row of the day after is stored,
    those of the last stored day name the claims that held devices when it ended; others have begun since.
    """
    held_before = Q(started_at__lt=before.end) & _held_after(before.start)
    held_since = Q(started_at__lt=after.end) & _held_after(after.start)
    last = utc_day(after.start) - (timedelta(0) if is_stored else DAY)
    holding = DailyUse.objects.filter(team=team, day__in={utc_day(before.end) - DAY, last})
    known = Allocation.objects.filter(held_before | held_since, claim__in=holding.values("claim")).order_by()
    if is_stored:
        return _intervals(known)
    begun = _overlapping(after).filter(claim__team=team, started_at__gte=after.start)
    return _intervals(known.filter(started_at__lt=after.start), begun)


def _stored_costs(team: Team, first: date, end: date) -> dict[LineKey, Cost]:
    costs: dict[LineKey, Cost] = defaultdict(Cost)
    rows = DailyUse.objects.filter(team=team, day__gte=first, day__lt=end).order_by()
    totals = rows.values_list("claim_id", "product", "partition", "currency").annotate(
        Sum("held"), Sum("unpriced"), Sum("amount")
    )
    for claim_id, product, partition, currency, held, unpriced, amount in totals:
        exact = {currency: int(amount)} if currency else {}
        costs[claim_id, product, partition].add(Cost(int(held), int(unpriced), exact))
    return costs


def _held_after(instant: datetime) -> Q:
    return Q(ended_at=None) | Q(ended_at__gt=instant)


def _overlapping(span: Interval) -> QuerySet[Allocation]:
    return Allocation.objects.filter(_held_after(span.start), started_at__lt=span.end).order_by()


def _intervals(allocations: QuerySet[Allocation], *others: QuerySet[Allocation]) -> Iterator[UsageInterval]:
    """Yield usage without model objects: a month may have many allocations. One query for all of them."""
    columns = ("claim_id", "claim__cluster_id", "driver", "product", "partition", "fraction")
    rows, *more = (part.values_list(*columns, "started_at", "ended_at") for part in (allocations, *others))
    combined = rows.union(*more, all=True).order_by() if more else rows
    for claim, cluster, driver, product, partition, fraction, start, end in combined:
        group = PriceGroup(cluster, driver, product)
        yield UsageInterval(claim, group, partition, millionths(fraction), start, end)


def mean_activity(claims: Sequence[Claim], since: datetime, *, now: datetime) -> float | None:
    """Return the mean of 0 to 1 over all rollups of these claims since then; None without telemetry."""
    days = split(Interval(since, now), stored_until(), now=now)
    measured = Rollup.objects.filter(claim__in=claims, bucket__gte=since, activity__isnull=False)
    totals = [(0.0, 0)]
    if days is not None:
        first, end = days
        stored = DailyActivity.objects.filter(claim__in=claims, day__gte=first, day__lt=end)
        totals.append(_total(stored.aggregate(total=Sum("activity"), number=Sum("rollups"))))
        measured = measured.filter(Q(bucket__lt=midnight(first)) | Q(bucket__gte=midnight(end)))
    totals.append(_total(measured.aggregate(total=Sum("activity"), number=Count("pk"))))
    number = sum(count for _total_activity, count in totals)
    return sum(activity for activity, _count in totals) / number if number else None


def _total(row: dict[str, Any]) -> tuple[float, int]:
    return row["total"] or 0.0, row["number"] or 0


# Writing.


def forget_from(instant: datetime, *, now: datetime) -> None:
    """
    Record, in the transaction of a change, that the days from `instant` on must be stored again.

    The update locks the row even if it changes nothing, so that `store_days` of the same days waits for this
    transaction, or this one for it.
    """
    if utc_day(instant) < utc_day(now):
        StoredDays.objects.update(until=Least("until", models.Value(utc_day(instant))))


def store_days(*, now: datetime) -> int:
    """Store the past days that have no rows yet; return their number. Each chunk is a transaction."""
    end = utc_day(now - SETTLED_AFTER)
    earliest = Allocation.objects.aggregate(at=Min("started_at"))["at"]
    if earliest is None:
        return 0
    StoredDays.objects.get_or_create(pk=1, defaults={"until": min(utc_day(earliest), end)})
    stored = 0
    while True:
        with transaction.atomic():
            first = _lock()
            until = min(first + CHUNK * DAY, end)
            if first >= until:
                return stored
            refresh(first, until)
            StoredDays.objects.update(until=until)
        stored += (until - first).days


def repair_chunk(number: int) -> RowDifferences:
    """Compute one chunk of the stored days again; repeated calls go through all of them."""
    with transaction.atomic():
        if StoredDays.objects.exists():
            until, first = _lock(), first_day()
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
            total += refresh(start, min(start + CHUNK * DAY, until), check=check)
        start += CHUNK * DAY
    return total


def first_day() -> date:
    """Return the first day on which a claim held a device, or has a row."""
    earliest = Allocation.objects.aggregate(at=Min("started_at"))["at"]
    row = DailyUse.objects.aggregate(day=Min("day"))["day"]
    days = [day for day in (earliest and utc_day(earliest), row) if day]
    return min(days, default=date.max)


def _lock() -> date:
    """Lock the row until the transaction ends; return the end of the stored days."""
    StoredDays.objects.update(until=F("until"))
    return StoredDays.objects.values_list("until", flat=True).get()


def refresh(first: date, end: date, *, check: bool = False) -> RowDifferences:
    """Write the rows of these days, or with `check` only compare them; return what differed."""
    return _refresh_use(first, end, check=check) + _refresh_activity(first, end, check=check)


def _refresh_use(first: date, end: date, *, check: bool) -> RowDifferences:
    expected = {tuple(getattr(row, name) for name in KEY): row for row in _expected_use(first, end)}
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
    """Yield the rows of these days. The hours of a line are in the first of its rows, as in the CSV."""
    span = Interval(midnight(first), midnight(end))
    card = RateCard.load()
    allocations = _overlapping(span)
    teams = dict(allocations.values_list("claim_id", "claim__team_id"))
    costs: dict[tuple[date, LineKey], Cost] = defaultdict(Cost)
    for interval in _intervals(allocations):
        start, stop = max(interval.start, span.start), min(interval.end or span.end, span.end)
        day = utc_day(start)
        while midnight(day) < stop:
            within = Interval(midnight(day), midnight(day + DAY))
            costs[day, interval.line].add(interval_cost(interval, card, until=within.end, within=within))
            day += DAY
    for (day, (claim_id, product, partition)), cost in costs.items():
        if not cost.held:
            continue
        held, unpriced = cost.held, cost.unpriced_held
        for currency in sorted(cost.exact) or [""]:
            yield DailyUse(
                team_id=teams[claim_id], claim_id=claim_id, day=day, product=product, partition=partition,
                currency=currency, held=held, unpriced=unpriced, amount=cost.exact.get(currency, 0),
            )  # fmt: skip
            held = unpriced = 0


def _refresh_activity(first: date, end: date, *, check: bool) -> RowDifferences:
    measured = Rollup.objects.filter(
        bucket__gte=midnight(first), bucket__lt=midnight(end), activity__isnull=False
    )
    by_day = measured.annotate(day=TruncDate("bucket", tzinfo=UTC)).order_by().values_list("claim_id", "day")
    expected = {row[:2]: row[2:] for row in by_day.annotate(Sum("activity"), Count("pk"))}
    columns = ("claim_id", "day", "activity", "rollups")
    stored = DailyActivity.objects.filter(day__gte=first, day__lt=end).values_list(*columns)
    rows = {row[:2]: row[2:] for row in stored}
    missing = [key for key in expected if key not in rows]
    altered = [key for key in expected if key in rows and not _close(rows[key], expected[key])]
    if not check:
        DailyActivity.objects.bulk_create(
            (
                DailyActivity(claim_id=claim_id, day=day, activity=activity, rollups=rollups)
                for claim_id, day in sorted([*missing, *altered])
                for activity, rollups in [expected[claim_id, day]]
            ),
            2000,
            update_conflicts=True,
            unique_fields=("claim_id", "day"),
            update_fields=("activity", "rollups"),
        )
    # Rows without rollups stay: rollups are deleted after `usage.samples.KEEP`, daily activity is not.
    return RowDifferences(len(missing), len(altered), 0)


def _close(stored: tuple[float, int], expected: tuple[float, int]) -> bool:
    """Return whether two sums are equal but for the order in which they were added."""
    return stored[1] == expected[1] and abs(stored[0] - expected[0]) <= 1e-9 * max(1.0, expected[0])
