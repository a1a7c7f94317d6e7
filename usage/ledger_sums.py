"""
Sums of the stored entries (`DailyUse`) by any key, of some teams, one person, one profile or one kind of
device, or by claim: what `usage.daily_sums` has no rows for. The entries of a team, or of one person, are
few; those of all teams are read by claim, where `usage.claim_rankings` has no order of them, or of a kind of
device, and of at most `LONGEST_OF_ALL`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from usage.claim_rankings import Ranking
from usage.cost import Cost
from usage.daily_sums import ACTIVITY, ENERGY_SUMS, IDLE_AMOUNT, SUMS, UNPRICED

LONGEST_OF_ALL = timedelta(days=31)

# What a query may read beside the entries (`use`), by alias, in this order.
JOINS = {
    "claim": "JOIN claims_claim claim ON claim.id = use.claim_id",
    "version": "JOIN claims_profileversion version ON version.id = claim.profile_version_id",
    "activity": ACTIVITY,
}
NEEDS = {"version": "claim"}
MODEL = "trim(use.product || ' ' || use.partition)"
STORED = "use.day >= %s AND use.day < %s"  # of stored days; a third bound would mislead the planner


@dataclass(frozen=True, slots=True)
class EntryScope:
    """
    Which entries count: of these teams (None: all), of one person, of one profile, and of devices of one
    cluster, model and capacity type ("" where that is not known).
    """

    teams: Sequence[UUID] | None = None
    person: UUID | None = None
    profile: UUID | None = None
    cluster: UUID | None = None
    model: str | None = None
    capacity: str | None = None

    @property
    def is_all(self) -> bool:
        return self == EntryScope()

    @property
    def is_of_all_claims(self) -> bool:
        """Return whether it is narrowed by the kind of device at most, so that all entries are read."""
        return self.teams is None and self.person is None and self.profile is None

    def conditions(self) -> tuple[str, list[Any]]:
        """Return what `ENTRIES` is narrowed by, with its values."""
        parts: list[tuple[str, Any]] = []
        if self.teams is not None:
            parts.append(("use.team_id = ANY(%s)", list(self.teams)))
        if self.person is not None:
            parts.append(("use.owner_id = %s", self.person))
        if self.profile is not None:
            parts.append(("version.profile_id = %s", self.profile))
        if self.cluster is not None:
            parts.append(("claim.cluster_id = %s", self.cluster))
        if self.model is not None:
            parts.append((f"{MODEL} = %s", self.model))
        if self.capacity is not None:
            parts.append(("use.capacity_type = %s", self.capacity))
        return "".join(f" AND {text}" for text, _value in parts), [value for _text, value in parts]


def ranking(
    key: str, scope: EntryScope, first: date, end: date, *, order: str, offset: int, most: int
) -> Ranking:
    """Return the keys of a page in one of `claim_rankings.ORDERS`; one query. `key` is an SQL expression."""
    where, values = scope.conditions()
    idle = f"sum({IDLE_AMOUNT})" if order == "idle" else "0"
    sums = f"""
        SELECT {key}::text AS key, use.currency, sum(use.held) AS hours, sum({UNPRICED}) AS unpriced,
               sum(use.amount) AS cost, {idle} AS idle
        {_entries(key, idle, where)} {where} GROUP BY {key}, 2"""
    return _ranking(sums, [first, end, *values], order, offset, most)


def ranking_of_sums(
    dimension: str, first: date, end: date, months: tuple[date, date], *, order: str, offset: int, most: int
) -> Ranking:
    """
    Return the keys of a page from `MonthlySum` of whole months, and from the days before and after them; one
    query. `months` is from `usage.monthly_sums.whole_months`.
    """
    sums = """
        SELECT key, currency, sum(held) AS hours, sum(unpriced) AS unpriced, sum(amount) AS cost,
               sum(idle) AS idle
        FROM (
            SELECT key, currency, held, unpriced, amount, idle FROM usage_monthlysum
            WHERE dimension = %s AND month >= %s AND month < %s
            UNION ALL
            SELECT key, currency, held, unpriced, amount, amount_measured - amount_used FROM usage_dailysum
            WHERE dimension = %s AND (day >= %s AND day < %s OR day >= %s AND day < %s)
        ) parts GROUP BY 1, 2"""
    start, stop = months
    return _ranking(sums, [dimension, *months, dimension, first, start, stop, end], order, offset, most)


def _entries(*texts: str) -> str:
    """Return FROM and WHERE of the stored entries with what the texts of a query name."""
    named = {alias for alias in JOINS if any(f"{alias}." in text for text in texts)}
    named |= {NEEDS[alias] for alias in named if alias in NEEDS}
    joins = " ".join(join for alias, join in JOINS.items() if alias in named)
    return f"FROM usage_dailyuse use {joins} WHERE {STORED}"


def _ranking(sums: str, values: Sequence[Any], order: str, offset: int, most: int) -> Ranking:
    """`sums` is a query of key, currency, hours, unpriced, cost and idle."""
    sql = f"""
        WITH sums AS ({sums}), keys AS (
            SELECT key, sum(cost) AS cost, sum(hours) AS hours, sum(idle) AS idle FROM sums GROUP BY key
        )
        SELECT place, key::text, NULL, 0, 0, 0 FROM (
            SELECT key,
                   row_number() OVER (ORDER BY {order} DESC NULLS LAST, cost DESC, hours DESC, key) AS place
            FROM keys ORDER BY place OFFSET %s LIMIT %s
        ) page
        UNION ALL
        SELECT NULL, NULL, currency, sum(hours), sum(unpriced), sum(cost) FROM sums GROUP BY currency
        UNION ALL SELECT NULL, NULL, NULL, count(*), 0, 0 FROM keys"""  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, offset, most])
        rows = cursor.fetchall()
    places: list[tuple[int, str]] = []
    count, total = 0, Cost()
    for place, name, currency, held, unpriced, amount in rows:
        if place is not None:
            places.append((place, name))
        elif currency is None:
            count = int(held)
        else:
            total.add(Cost(int(held), int(unpriced), {currency: int(amount)} if currency else {}))
    return Ranking([name for _place, name in sorted(places)], count, total)


def sums_by(
    key: str, scope: EntryScope, first: date, end: date, keys: Sequence[str] | None = None
) -> dict[str, list[tuple[Any, ...]]]:
    """
    Return (currency, nine sums, three of energy) by key, in the order of `usage.fleet_report.parts_of`; one
    query. With `keys` only of these.
    """
    where, values = scope.conditions()
    if keys is not None:
        kind = "uuid" if key.endswith("_id") else "text"
        where, values = f"{where} AND {key} = ANY(%s::{kind}[])", [*values, list(keys)]
    entries = _entries(key, SUMS, ENERGY_SUMS, where)
    sql = f"SELECT {key}::text, use.currency, {SUMS}, {ENERGY_SUMS} {entries} {where} GROUP BY {key}, 2"
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(sql, [first, end, *values])
        for name, currency, *sums in cursor.fetchall():
            split, energy = sums[:-3], sums[-3:]
            found[name].append((currency, *split[::3], *split[1::3], *split[2::3], *energy))
    return found
