"""
Sums of the stored days of all claims, by team, person, profile, kind of device and capacity type, and of the
fleet: what its report reads. 40,000 devices have 5,000 claim-days a day and 3,000 sums.

`usage.daily` writes them in the transaction that stores or repairs its days. A claim counts for the person
who owned it then. Money is in whole cents: of a claim's day, `mean utilization × amount` is rounded once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from core.models import RowDifferences
from inventory.models import FleetSpan
from usage.cost import CENT, Cost, Interval, Ledger, UsageInterval
from usage.models import DailySum
from usage.rates import PriceGroup, RateCard

Dimension = DailySum.Dimension
KEY = ("dimension", "day", "key", "cluster", "product", "partition", "currency")
MEASURES = ["held", "unpriced", "amount"]
VALUES = (
    *("held", "held_measured", "held_used"),
    *("unpriced", "unpriced_measured", "unpriced_used"),
    *("amount", "amount_measured", "amount_used"),
)
ENERGY = ("joules", "joules_estimated", "grams")
DIMENSIONS = {
    Dimension.TEAM: ("use.team_id", None),
    Dimension.PERSON: ("claim.requested_by_id", None),
    Dimension.PROFILE: ("version.profile_id", None),
    Dimension.KIND: (None, ("claim.cluster_id", "use.product", "use.partition")),
    Dimension.CAPACITY: (None, ("claim.cluster_id", "use.product", "use.capacity_type")),
}
SUMS = """
SELECT {columns}, use.currency, {sums}
FROM usage_dailyuse use {whole}
JOIN claims_claim claim ON claim.id = use.claim_id
JOIN claims_profileversion version ON version.id = claim.profile_version_id
LEFT JOIN usage_dailyactivity activity ON activity.claim_id = use.claim_id AND activity.day = use.day
WHERE use.day = %s
GROUP BY {groups}, use.currency
"""
UTILIZATION = "activity.activity / NULLIF(activity.rollups, 0)"
USED_AMOUNT = f"round((use.amount * {UTILIZATION})::numeric / {CENT}) * {CENT}"  # of one claim's day
OF_ONE = """
sum({value}), coalesce(sum({value}) FILTER (WHERE activity.rollups > 0), 0),
round(coalesce(sum({used}), 0)::numeric)
"""
UNPRICED = "CASE WHEN use.rate_id IS NULL THEN use.held ELSE 0 END"
SUMMED = {
    "use.held": f"use.held * {UTILIZATION}",
    UNPRICED: f"{UNPRICED} * {UTILIZATION}",
    "use.amount": USED_AMOUNT,
}

# The energy of a claim's day is divided among its entries by the time held.
ENERGY_SHARE = """
JOIN (
    SELECT claim_id, day, sum(held) AS held FROM usage_dailyuse WHERE day >= %s AND day < %s
    GROUP BY claim_id, day
) whole ON whole.claim_id = use.claim_id AND whole.day = use.day
"""
SHARE = "(use.held / NULLIF(whole.held, 0))::float8"
ENERGY_SUMS = f"""
sum(activity.joules * {SHARE}), coalesce(sum(activity.joules_estimated * {SHARE}), 0),
sum(activity.joules * {SHARE} / 3600000 * activity.grams_per_kwh)
"""

type Sums = dict[tuple[Any, ...], tuple[Any, ...]]  # values by key


def refresh(first: date, end: date, *, check: bool = False) -> RowDifferences:
    """Write the sums of these days, or with `check` only compare them; return what differed."""
    fleet = _fleet(first, end)
    days = (first + timedelta(days=number) for number in range((end - first).days))
    return sum((_refresh_day(day, fleet[day], check=check) for day in days), RowDifferences())


def _refresh_day(day: date, fleet: Sums, *, check: bool) -> RowDifferences:
    """Write or compare the sums of one day; a month of 40,000 devices has 75,000."""
    expected = dict(_expected(day)) | fleet
    rows = DailySum.objects.filter(day=day)
    columns = (*VALUES, *ENERGY)
    stored = {row[: len(KEY)]: row[len(KEY) :] for row in rows.values_list(*KEY, *columns)}
    missing = [key for key in expected if key not in stored]
    altered = [key for key in expected if key in stored and not _close(stored[key], expected[key])]
    obsolete = [key for key in stored if key not in expected]
    if not check:
        for key in [*altered, *obsolete]:
            rows.filter(**_conditions(key)).delete()
        DailySum.objects.bulk_create(
            (
                DailySum(**dict(zip(KEY, key, strict=True)), **dict(zip(columns, expected[key], strict=True)))
                for key in [*missing, *altered]
            ),
            2000,
        )
    return RowDifferences(len(missing), len(altered), len(obsolete))


def _expected(day: date) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield key and values of each sum; a query per dimension."""
    sums = ", ".join(OF_ONE.format(value=value, used=used) for value, used in SUMMED.items())
    sums = f"{sums}, {ENERGY_SUMS}"
    for dimension, (key, kind) in DIMENSIONS.items():
        columns = ("NULL::uuid", *kind) if kind else (key, "NULL::uuid", "''", "''")
        groups = ", ".join(kind or [str(key)])
        sql = SUMS.format(columns=", ".join(map(str, columns)), groups=groups, sums=sums, whole=ENERGY_SHARE)
        with connection.cursor() as cursor:
            cursor.execute(sql, [day, day + timedelta(days=1), day])
            for row in cursor:
                of_key = (dimension.value, day, *row[:5])
                yield of_key, tuple(row[5:])


def _fleet(first: date, end: date) -> dict[date, Sums]:
    """Return the sums of the fleet's time and cost by day, cluster, product and use; one query."""
    span = Interval(*(datetime.combine(day, time(), UTC) for day in (first, end)))
    card, ledger = RateCard.load(), Ledger()
    for row in FleetSpan.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=span.start), started_at__lt=span.end
    ):
        kind = PriceGroup(row.cluster_id, row.driver, row.product, row.basis_id)
        usage = UsageInterval(row.cluster_id, kind, row.use, row.parts, row.started_at, row.ended_at)
        ledger.add(usage, card, until=span.end, within=span)
    costs: dict[tuple[Any, ...], Cost] = defaultdict(Cost)
    for entry in ledger:
        cluster, product, use = entry.line
        currency = entry.rate.currency if entry.rate else ""
        key = (Dimension.FLEET.value, entry.day, None, cluster, product, use, currency)
        costs[key].add(entry.cost)
    days: dict[date, Sums] = defaultdict(dict)
    for key, cost in costs.items():
        values = (cost.held, cost.unpriced_held, sum(cost.exact.values()))
        of_time = (number for value in values for number in (value, 0, 0))
        days[key[1]][key] = (*of_time, None, 0.0, None)
    return days


def _close(stored: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether sums are equal but for the order in which utilizations and energies were added."""
    return all(
        mine == theirs if mine is None or theirs is None else abs(mine - theirs) <= max(1, theirs // 10**9)
        for mine, theirs in zip(stored, expected, strict=True)
    )


def _conditions(key: tuple[Any, ...]) -> dict[str, Any]:
    """Return the filter of one row."""
    values = dict(zip(KEY, key, strict=True))
    null = {name for name, value in values.items() if value is None}
    return {f"{name}__isnull": True for name in null} | {
        name: value for name, value in values.items() if name not in null
    }
