"""
Sums of the stored days of all claims, by team, person, profile, kind of device and capacity type, and of the
fleet: what its report reads. 40,000 devices have 5,000 claim-days a day and 3,000 sums.

`usage.daily` writes them in the transaction that stores or repairs its days. A day counts for the owner of
its entry (`usage.owners`).

Here is the one rule that divides an entry (`DailyUse`) into used, idle and no telemetry. `DailyActivity`
says which share of the time of its devices was measured on the day, and in which share they computed. Each
share of the amount is rounded once to cents: used is `used × amount`, idle `measured × amount` without it,
and the rest of the amount has no telemetry. So the three add up to the cost.
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
# What was measured of an entry (`use`).
ACTIVITY = """
LEFT JOIN usage_dailyactivity activity ON activity.claim_id = use.claim_id AND activity.day = use.day
  AND activity.driver = use.driver AND activity.product = use.product
  AND activity.partition = use.partition AND activity.capacity_type = use.capacity_type
"""


def share(name: str, value: str, unit: int = 1) -> str:
    """Return the SQL of the measured or used share of a value of an entry, rounded half up to the unit."""
    return f"coalesce(round({value} * activity.{name} / (activity.held * {unit})) * {unit}, 0)"


HELD = ("use.held", share("measured", "use.held"), share("used", "use.held"))
UNPRICED, UNPRICED_MEASURED, UNPRICED_USED = (
    f"CASE WHEN use.rate_id IS NULL THEN {value} ELSE 0 END" for value in HELD
)
AMOUNT = ("use.amount", share("measured", "use.amount", CENT), share("used", "use.amount", CENT))
IDLE_AMOUNT = f"({AMOUNT[1]} - {AMOUNT[2]})"
# The time, the time without a rate and the amount of an entry: each whole, measured and used; its energy by
# time.
SPLIT = (*HELD, UNPRICED, UNPRICED_MEASURED, UNPRICED_USED, *AMOUNT)
SHARE = "(use.held / activity.held)::float8"
ENERGY_OF_ENTRY = (
    f"activity.joules * {SHARE}",
    f"activity.joules_estimated * {SHARE}",
    f"activity.joules * {SHARE} / 3600000 * activity.grams_per_kwh",
)
SUMS = ", ".join(f"sum({value})" for value in SPLIT)
ENERGY_SUMS = "sum({}), coalesce(sum({}), 0), sum({})".format(*ENERGY_OF_ENTRY)

type Key = tuple[Any, ...]  # values of `KEY`
type Values = tuple[int, ...]  # of `VALUES`

# Each set of groups is a dimension: a column that is not of its set is null, and its bit of GROUPING is 1.
OF_CLAIMS = f"""
SELECT CASE GROUPING(team_id, owner_id, profile_id, partition, capacity_type)
         WHEN 15 THEN 'team' WHEN 23 THEN 'person' WHEN 27 THEN 'profile' WHEN 29 THEN 'kind'
         ELSE 'capacity' END,
       day, coalesce(team_id, owner_id, profile_id), cluster_id,
       coalesce(product, ''), coalesce(partition, capacity_type, ''), currency,
       {", ".join(f"sum({name})" for name in VALUES)},
       sum(joules), coalesce(sum(joules_estimated), 0), sum(grams)
FROM entries
GROUP BY day, currency, GROUPING SETS (
  (team_id), (owner_id), (profile_id), (cluster_id, product, partition), (cluster_id, product, capacity_type)
)
"""  # noqa: S608
ENTRIES = f"""
SELECT use.team_id, use.owner_id, version.profile_id, claim.cluster_id, use.day, use.product, use.partition,
       use.capacity_type, use.currency,
       {", ".join(f"{value} AS {name}" for name, value in zip(VALUES, SPLIT, strict=True))},
       {", ".join(f"{value} AS {name}" for name, value in zip(ENERGY, ENERGY_OF_ENTRY, strict=True))}
FROM usage_dailyuse use
JOIN claims_claim claim ON claim.id = use.claim_id
JOIN claims_profileversion version ON version.id = claim.profile_version_id
{ACTIVITY}
WHERE use.day >= %(first)s AND use.day < %(end)s
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
WITH entries AS MATERIALIZED ({ENTRIES}), sums ({COLUMNS}) AS MATERIALIZED (
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
        cluster, product, use, _owner = entry.line
        currency = entry.rate.currency if entry.rate else ""
        costs["fleet", entry.day, None, cluster, product, use, currency].add(entry.cost)
    sums: dict[Key, Values] = {}
    for key, cost in costs.items():
        measures = (cost.held, cost.unpriced_held, sum(cost.exact.values()))
        sums[key] = tuple(number for measure in measures for number in (measure, 0, 0))
    return sums
