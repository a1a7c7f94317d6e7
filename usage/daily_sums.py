"""
Sums of the stored days of all claims, by team, person, profile, kind of device and capacity type, and of the
fleet: what its report reads. 40,000 devices have 5,000 claim-days a day and 3,000 sums.

`usage.daily` writes them in the transaction that stores or repairs its days. A claim counts for the person
who owned it then. Money is in whole cents: of a claim's day, `mean utilization × amount` is rounded once.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from core.models import RowDifferences
from inventory.models import FleetSpan
from usage.cost import CENT, Cost, Interval, Ledger, UsageInterval
from usage.rates import PriceGroup, RateCard

AT_ONCE = timedelta(days=7)
KEY = {
    "dimension": "text",
    "day": "date",
    "key": "uuid",
    "cluster": "uuid",
    "product": "text",
    "partition": "text",
    "currency": "text",
}
MEASURES = ["held", "unpriced", "amount"]
VALUES = (
    *("held", "held_measured", "held_used"),
    *("unpriced", "unpriced_measured", "unpriced_used"),
    *("amount", "amount_measured", "amount_used"),
)
ENERGY = ("joules", "joules_estimated", "grams")
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
    SELECT claim_id, day, sum(held) AS held FROM usage_dailyuse WHERE {days} GROUP BY claim_id, day
) whole ON whole.claim_id = use.claim_id AND whole.day = use.day
"""
SHARE = "(use.held / NULLIF(whole.held, 0))::float8"
ENERGY_SUMS = f"""
sum(activity.joules * {SHARE}), coalesce(sum(activity.joules_estimated * {SHARE}), 0),
sum(activity.joules * {SHARE} / 3600000 * activity.grams_per_kwh)
"""

type Key = tuple[Any, ...]  # values of `KEY`
type Values = tuple[int, ...]  # of `VALUES`

# Each set of groups is a dimension: a column that is not of its set is null, and its bit of GROUPING is 1.
OF_CLAIMS = f"""
SELECT CASE GROUPING(use.team_id, claim.requested_by_id, version.profile_id, use.partition, use.capacity_type)
         WHEN 15 THEN 'team' WHEN 23 THEN 'person' WHEN 27 THEN 'profile' WHEN 29 THEN 'kind'
         ELSE 'capacity' END,
       use.day, coalesce(use.team_id, claim.requested_by_id, version.profile_id), claim.cluster_id,
       coalesce(use.product, ''), coalesce(use.partition, use.capacity_type, ''), use.currency,
       {", ".join(OF_ONE.format(value=value, used=used) for value, used in SUMMED.items())}, {ENERGY_SUMS}
FROM usage_dailyuse use {ENERGY_SHARE.format(days="day >= %(first)s AND day < %(end)s")}
JOIN claims_claim claim ON claim.id = use.claim_id
JOIN claims_profileversion version ON version.id = claim.profile_version_id
LEFT JOIN usage_dailyactivity activity ON activity.claim_id = use.claim_id AND activity.day = use.day
WHERE use.day >= %(first)s AND use.day < %(end)s
GROUP BY use.day, use.currency, GROUPING SETS (
  (use.team_id), (claim.requested_by_id), (version.profile_id),
  (claim.cluster_id, use.product, use.partition), (claim.cluster_id, use.product, use.capacity_type)
)
"""  # noqa: S608
STORED = (*VALUES, *ENERGY)
COLUMNS = ", ".join((*KEY, *STORED))
OF_FLEET = ", ".join(
    f"%({name})s::{kind}[]" for name, kind in (KEY | dict.fromkeys(VALUES, "numeric")).items()
)
NO_KEY = "'00000000-0000-0000-0000-000000000000'::uuid"
SAME = " AND ".join(
    f"coalesce(sums.{name}, {NO_KEY}) = coalesce(stored.{name}, {NO_KEY})"
    if kind == "uuid"
    else f"sums.{name} = stored.{name}"
    for name, kind in KEY.items()
)
# Equal but for the order in which utilizations and energies were added.
CLOSE = " AND ".join(
    f"(abs(sums.{name} - stored.{name}) <= greatest(1, sums.{name} / 1000000000)"
    f" OR coalesce(sums.{name}, stored.{name}) IS NULL)"
    for name in STORED
)
COMPARED = f"""
WITH sums ({COLUMNS}) AS MATERIALIZED (
  {OF_CLAIMS} UNION ALL SELECT fleet.*, NULL, 0, NULL FROM unnest({OF_FLEET}) AS fleet
), compared AS MATERIALIZED (
  SELECT sums.*, stored.id AS stored
  FROM sums FULL JOIN (SELECT * FROM usage_dailysum WHERE day >= %(first)s AND day < %(end)s) stored ON {SAME}
  WHERE (sums.day IS NOT NULL AND stored.id IS NOT NULL AND {CLOSE}) IS NOT TRUE
)"""  # noqa: S608
# Rows of three kinds: without one that is stored, without a sum, and with another sum.
WRITTEN = f""", missing AS (
  INSERT INTO usage_dailysum ({COLUMNS}) SELECT {COLUMNS} FROM compared WHERE stored IS NULL
), altered AS (
  UPDATE usage_dailysum SET ({", ".join(STORED)}) = ROW ({", ".join(f"compared.{name}" for name in STORED)})
  FROM compared WHERE usage_dailysum.id = compared.stored AND compared.day IS NOT NULL
), obsolete AS (
  DELETE FROM usage_dailysum WHERE id IN (SELECT stored FROM compared WHERE day IS NULL)
)"""  # noqa: S608
COUNTED = """
SELECT count(*) FILTER (WHERE stored IS NULL), count(*) FILTER (WHERE stored IS NOT NULL AND day IS NOT NULL),
       count(*) FILTER (WHERE day IS NULL)
FROM compared
"""


def refresh(first: date, end: date, *, check: bool = False) -> RowDifferences:
    """
    Write the sums of these days, or with `check` only compare them; return what differed. A day of 40,000
    devices has 3,000 sums, which PostgreSQL makes, compares and writes in one statement for `AT_ONCE`.
    """
    fleet = _fleet(first, end)
    differences = RowDifferences()
    while first < end:
        until = min(first + AT_ONCE, end)
        of_days = {key: values for key, values in fleet.items() if first <= key[1] < until}
        differences += _refresh(first, until, of_days, check=check)
        first = until
    return differences


def _refresh(first: date, end: date, fleet: dict[Key, Values], *, check: bool) -> RowDifferences:
    parameters: dict[str, Any] = {"first": first, "end": end}
    parameters |= {name: [key[number] for key in fleet] for number, name in enumerate(KEY)}
    parameters |= {name: [of[number] for of in fleet.values()] for number, name in enumerate(VALUES)}
    with connection.cursor() as cursor:
        cursor.execute(f"{COMPARED}{'' if check else WRITTEN}{COUNTED}", parameters)
        return RowDifferences(*cursor.fetchone())


def _fleet(first: date, end: date) -> dict[Key, Values]:
    """Return the sums of the fleet's time and cost by day, cluster, product and use; one query."""
    span = Interval(*(datetime.combine(day, time(), UTC) for day in (first, end)))
    card, ledger = RateCard.load(), Ledger()
    for row in FleetSpan.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=span.start), started_at__lt=span.end
    ):
        kind = PriceGroup(row.cluster_id, row.driver, row.product, row.basis_id)
        usage = UsageInterval(row.cluster_id, kind, row.use, row.parts, row.started_at, row.ended_at)
        ledger.add(usage, card, until=span.end, within=span)
    costs: dict[Key, Cost] = defaultdict(Cost)
    for entry in ledger:
        cluster, product, use = entry.line
        currency = entry.rate.currency if entry.rate else ""
        costs["fleet", entry.day, None, cluster, product, use, currency].add(entry.cost)
    sums: dict[Key, Values] = {}
    for key, cost in costs.items():
        measures = (cost.held, cost.unpriced_held, sum(cost.exact.values()))
        sums[key] = tuple(number for measure in measures for number in (measure, 0, 0))
    return sums
