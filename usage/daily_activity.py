"""
How much of what a claim held on one day (UTC) was measured, how much of it computed, and its energy: a row
for each driver, product, partition and capacity type of the day, which is what its entries of the ledger
have in common.

A device is measured for five minutes per rollup, for no longer than it is held. A gap and a device without
telemetry stay in the time held, and are neither measured nor used.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import connection

from core.models import RowDifferences
from usage.models import DailyActivity
from usage.samples import BUCKET, EVERY

KEY = ("claim_id", "day", "driver", "product", "partition", "capacity_type")
VALUES = ("held", "measured", "used", "activity", "rollups", "joules", "joules_estimated")
# From when to when, and of which claim: placeholders of `DAYS`.
SPAN = {"start": "%(start)s", "end": "%(end)s", "claim": ""}
OF_CLAIM = "AND claim_id = %(claim)s"
MICROSECONDS = "(extract(epoch FROM until - since) * 1000000)::numeric(30)"

# A claim may hold several shares of a device, at once or one after the other, and each may count under
# another key: what was measured of the device is divided among them by fraction × time. A partition gets
# its part of the energy of its GPU, and several shares of one the parts of all; of shares that follow each
# other, their mean by time on the day. Both are estimates.
DAYS = f"""
WITH holdings AS (
    SELECT claim_id, driver, pool, device, day::date AS day, product, partition, capacity_type, fraction,
           greatest(started_at, {{start}}, day AT TIME ZONE 'UTC') AS since,
           least(ended_at, {{end}}, (day + interval '1 day') AT TIME ZONE 'UTC') AS until
    FROM claims_allocation CROSS JOIN LATERAL generate_series(
        date_trunc('day', greatest(started_at, {{start}}) AT TIME ZONE 'UTC'),
        least(ended_at, {{end}}) AT TIME ZONE 'UTC' - interval '1 microsecond', interval '1 day'
    ) AS day
    WHERE started_at < {{end}} AND (ended_at IS NULL OR ended_at > {{start}}) {{claim}}
), shares AS (
    SELECT claim_id, driver, pool, device, day, product, partition, capacity_type,
           sum(fraction * 1000000 * {MICROSECONDS}) AS held, sum({MICROSECONDS}) AS time,
           min(since) AS since, max(until) AS until
    FROM holdings WHERE since < until
    GROUP BY claim_id, driver, pool, device, day, product, partition, capacity_type
), devices AS (
    SELECT *, sum(held) OVER device AS of_device,
           least(sum(time) OVER device,
                 (extract(epoch FROM max(until) OVER device - min(since) OVER device) * 1000000)::numeric(30))
             AS of_time
    FROM shares WINDOW device AS (PARTITION BY claim_id, driver, pool, device, day)
), measured AS (
    SELECT claim_id, driver, pool, device, (bucket AT TIME ZONE 'UTC')::date AS day,
           sum(activity) AS activity, count(activity) AS rollups,
           sum(coalesce(energy_joules, power_watts * samples * %(every)s)) AS joules,
           coalesce(sum(power_watts * samples * %(every)s) FILTER (WHERE energy_joules IS NULL), 0)
             AS estimated
    FROM usage_rollup WHERE bucket >= {{start}} AND bucket < {{end}} {{claim}}
    GROUP BY claim_id, driver, pool, device, day
), parts AS (
    SELECT devices.*, activity, coalesce(rollups, 0) AS rollups, joules, estimated,
           greatest(0, least(1, activity / nullif(rollups, 0)))::numeric AS utilization,
           (held / of_device)::float8 AS share,
           least(1, of_device / (of_time * 1000000))::float8 AS part,
           least(held, held * coalesce(rollups, 0) * %(bucket)s * 1000000 / of_time) AS seen
    FROM devices LEFT JOIN measured USING (claim_id, driver, pool, device, day)
)
SELECT claim_id, day, driver, product, partition, capacity_type,
       sum(held), round(sum(seen)), round(coalesce(sum(seen * utilization), 0)),
       coalesce(sum(activity * share), 0), sum(rollups * share), sum(joules * part * share),
       coalesce(sum(CASE WHEN part = 1 THEN estimated ELSE joules * part END * share), 0)
FROM parts GROUP BY claim_id, day, driver, product, partition, capacity_type
HAVING sum(rollups) > 0 OR sum(joules) IS NOT NULL
"""  # noqa: S608, names of columns
PARAMETERS = {"every": EVERY.total_seconds(), "bucket": int(BUCKET.total_seconds())}
# Days of open months have the grams that their cluster has now.
STORE_GRAMS = """
UPDATE usage_dailyactivity activity SET grams_per_kwh = cluster.grams_per_kwh
FROM claims_claim claim JOIN inventory_cluster cluster ON cluster.id = claim.cluster_id
WHERE claim.id = activity.claim_id AND activity.day >= %s AND activity.day < %s
  AND activity.grams_per_kwh IS DISTINCT FROM cluster.grams_per_kwh
"""


def refresh(first: date, end: date, span: tuple[datetime, datetime], *, check: bool) -> RowDifferences:
    """
    Write the rows of these days, whose `span` is given as instants, or with `check` only compare them; return
    what differed.
    """
    with connection.cursor() as cursor:
        cursor.execute(DAYS.format(**SPAN), PARAMETERS | {"start": span[0], "end": span[1]})
        expected = {row[: len(KEY)]: row[len(KEY) :] for row in cursor.fetchall()}
    stored = DailyActivity.objects.filter(day__gte=first, day__lt=end)
    rows = {row[: len(KEY)]: row[len(KEY) :] for row in stored.values_list(*KEY, *VALUES)}
    missing = [key for key in expected if key not in rows]
    altered = [key for key in expected if key in rows and not _close(rows[key], expected[key])]
    # Days without rollups keep their rows: rollups are dropped after `usage.partitions.KEEP`, these are not.
    measured = {key[:2] for key in expected}
    obsolete = [key for key in rows if key not in expected and key[:2] in measured]
    if not check:
        DailyActivity.objects.bulk_create(
            (
                DailyActivity(**dict(zip((*KEY, *VALUES), (*key, *expected[key]), strict=True)))
                for key in sorted([*missing, *altered])
            ),
            2000,
            update_conflicts=True,
            unique_fields=KEY,
            update_fields=VALUES,
        )
        for key in obsolete:
            DailyActivity.objects.filter(**dict(zip(KEY, key, strict=True))).delete()
        with connection.cursor() as cursor:
            cursor.execute(STORE_GRAMS, [first, end])
    return RowDifferences(len(missing), len(altered), len(obsolete))


def _close(stored: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether sums are equal but for the order in which they were added."""
    return all(
        mine == theirs
        if mine is None or theirs is None
        else abs(float(mine) - float(theirs)) <= 1e-9 * max(1.0, abs(float(theirs)))
        for mine, theirs in zip(stored, expected, strict=True)
    )


type Kind = tuple[date, str, str, str, str]  # day, driver, product, partition and capacity type

# Rows of stored days, then what the days since have until now.
STORED_UNTIL = "coalesce((SELECT until::timestamp AT TIME ZONE 'UTC' FROM usage_storeddays), %(first)s)"
TIMES = f"""
SELECT day, driver, product, partition, capacity_type, held, measured, used FROM usage_dailyactivity
WHERE claim_id = %(claim)s AND day < (SELECT until FROM usage_storeddays)
UNION ALL
SELECT day, driver, product, partition, capacity_type, held, measured, used
FROM ({DAYS.format(start=STORED_UNTIL, end="%(end)s", claim=OF_CLAIM)})
  AS since ({", ".join((*KEY, *VALUES))})
"""  # noqa: S608, names of columns


def times_of(claim: UUID, first: datetime, now: datetime) -> dict[Kind, tuple[int, int, int]]:
    """Return the time that was held, measured and used, by day and kind of device; one query."""
    with connection.cursor() as cursor:
        cursor.execute(TIMES, PARAMETERS | {"claim": claim, "first": first, "end": now})
        return {
            (day, driver, product, partition, capacity): (int(held), int(measured), int(used))
            for day, driver, product, partition, capacity, held, measured, used in cursor.fetchall()
        }
