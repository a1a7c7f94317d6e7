"""
The order of all claims in the report: of each month, and of the last 7 and 30 days.

To put claims in order reads each of their days, 134,000 rows of 24,000 claims in the benchmarks. The page
shows fifty claims, so the first ones of the periods that it offers are stored once, after the days. A change
of a day deletes the rankings of its periods in its transaction; the report then reads the days until they are
ranked again. Other periods are never ranked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from django.db import connection

from core.models import RowDifferences
from usage.cost import Cost
from usage.daily_sums import ACTIVITY, IDLE_AMOUNT, UNPRICED
from usage.models import ClaimRanking
from usage.monthly_sums import next_month

MOST = 1000  # claims of a period that are stored: twenty pages
LAST_DAYS = (7, 30)  # what the report offers beside months
ORDERS = ("cost", "hours", "idle")  # the highest first

RANKED = f"""
WITH sums AS MATERIALIZED (
  SELECT use.claim_id AS key, use.currency, sum(use.held) AS hours, sum({UNPRICED}) AS unpriced,
         sum(use.amount) AS cost, sum({IDLE_AMOUNT}) AS idle
  FROM usage_dailyuse use {ACTIVITY} WHERE use.day >= %(first)s AND use.day < %(end)s GROUP BY 1, 2
), keys AS MATERIALIZED (
  SELECT key, sum(cost) AS cost, sum(hours) AS hours, sum(idle) AS idle FROM sums GROUP BY key
), ranked AS (
  SELECT (SELECT count(*) FROM keys) AS count,
    (SELECT coalesce(jsonb_object_agg(currency, jsonb_build_array(hours, unpriced, cost)), '{{}}') FROM (
      SELECT currency, sum(hours) AS hours, sum(unpriced) AS unpriced, sum(cost) AS cost
      FROM sums GROUP BY currency) totals) AS totals,
    {
    ", ".join(
        f"ARRAY(SELECT key FROM keys ORDER BY {order} DESC NULLS LAST, cost DESC, hours DESC, key "
        f"LIMIT {MOST}) AS by_{order}"
        for order in ORDERS
    )
}
)"""  # noqa: S608
COLUMNS = ", ".join(("count", "totals", *(f"by_{order}" for order in ORDERS)))
STORED = f"""{RANKED}
INSERT INTO usage_claimranking (first, "end", {COLUMNS}) SELECT %(first)s, %(end)s, {COLUMNS} FROM ranked
ON CONFLICT (first, "end") DO UPDATE SET ({COLUMNS}) = (SELECT {COLUMNS} FROM ranked)"""  # noqa: S608
SAME = f"""{RANKED}
SELECT EXISTS (
  SELECT FROM usage_claimranking WHERE first = %(first)s AND "end" = %(end)s
  AND ({COLUMNS}) = (SELECT {COLUMNS} FROM ranked)
)"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Ranking:
    """The keys of one page, best first; the number of all keys, and what all entries add up to."""

    keys: list[str]
    count: int
    total: Cost


def stored_ranking(first: date, end: date, *, order: str, offset: int, most: int) -> Ranking | None:
    """Return the page of all claims of these stored days; None if it is not stored. One query."""
    keys = f"by_{order}__{offset}_{offset + most}"
    for page, count, totals in ClaimRanking.objects.filter(first=first, end=end).values_list(
        keys, "count", "totals"
    ):
        if offset + most <= MOST or count <= MOST:
            total = Cost()
            for currency, (held, unpriced, amount) in totals.items():
                total.add(Cost(held, unpriced, {currency: amount} if currency else {}))
            return Ranking([str(key) for key in page], count, total)
    return None


def periods(first: date, until: date) -> Iterator[tuple[date, date]]:
    """
    Yield the periods that the report offers, of the stored days from `first` to before `until`: the months,
    and the last days up to yesterday as they are read today, and tomorrow until today is stored.
    """
    if first >= until:
        return
    month = first.replace(day=1)
    while month < until:
        yield month, min(next_month(month), until)
        month = next_month(month)
    for days in LAST_DAYS:
        yield until - timedelta(days=days), until
        yield until - timedelta(days=days - 1), until


def missing(first: date, until: date) -> list[tuple[date, date]]:
    """Return the periods that are not stored, and delete the rankings that the report no longer reads."""
    wanted = set(periods(first, until))
    stored = {(row.first, row.end): row.pk for row in ClaimRanking.objects.only("first", "end")}
    ClaimRanking.objects.filter(pk__in=[stored[span] for span in stored.keys() - wanted]).delete()
    return sorted(wanted - stored.keys())


def store(first: date, end: date) -> None:
    """Store the ranking of a period. The caller holds the lock of the stored days."""
    with connection.cursor() as cursor:
        cursor.execute(STORED, {"first": first, "end": end})


def forget(first: date, end: date) -> None:
    """Delete the rankings of periods with any of these days, in the transaction that changes the days."""
    ClaimRanking.objects.filter(first__lt=end, end__gt=first).delete()


def compare(*, check: bool) -> RowDifferences:
    """Compare all rankings with their days; unless `check`, store those that differ. A query each."""
    altered = 0
    for span in ClaimRanking.objects.values_list("first", "end"):
        parameters = dict(zip(("first", "end"), span, strict=True))
        with connection.cursor() as cursor:
            cursor.execute(SAME, parameters)
            if not cursor.fetchone()[0]:
                altered += 1
                if not check:
                    store(*span)
    return RowDifferences(altered=altered)
