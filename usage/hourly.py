"""
Hours, made from five minutes: what ranges of weeks and years are read from.

`store` is the only writer. It stores each hour after its end, again if samples came late
(`usage.samples.reopen`), and once more a day later: then the hour is final and takes no more samples. Each
time the rows of an hour are computed from all its five minutes, so a repeated run changes nothing, and one
that died is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection, transaction

from usage.models import StoredHour
from usage.partitions import FIVE_MINUTES
from usage.samples import HOUR, MAXIMA, MEANS, SUMS, hour_start

SETTLED_AFTER = timedelta(minutes=5)  # then no collection of the hour is running
LATE = timedelta(days=1)  # how long samples of an hour are accepted
AT_ONCE = 200  # hours that one run stores

COMMON = (*MEANS, *MAXIMA, *SUMS)


def weighted(name: str) -> str:
    """Return the SQL of a mean weighted by samples; a row without a value counts in neither sum."""
    return f"sum({name} * samples) / nullif(sum(samples) FILTER (WHERE {name} IS NOT NULL), 0)"


def hours_sql(where: str) -> str:
    """Return the query that makes hours of the five minutes that `where` chooses, with `COLUMNS`."""
    values = [
        *(f"{weighted(name)} AS {name}" for name in MEANS),
        *(f"max({name}) AS {name}" for name in MAXIMA),
        *(f"sum({name}) AS {name}" for name in SUMS),
    ]
    return f"""
SELECT spans.*, peaks.activity_p95 FROM (
  SELECT claim_id, driver, pool, device, date_trunc('hour', bucket, 'UTC') AS bucket,
         sum(samples)::int AS samples, min(activity_min) AS activity_min, max(activity_max) AS activity_max,
         {", ".join(values)},
         percentile_cont(0.95) WITHIN GROUP (ORDER BY memory_bytes)::bigint AS memory_p95
  FROM usage_rollup WHERE {where} GROUP BY 1, 2, 3, 4, 5
) spans LEFT JOIN (
  SELECT claim_id, driver, pool, device, date_trunc('hour', bucket, 'UTC') AS bucket,
         percentile_cont(0.95) WITHIN GROUP (ORDER BY sample) AS activity_p95
  FROM usage_rollup, unnest(coalesce(nullif(activities, '{{}}'), ARRAY[activity]::real[])) AS sample
  WHERE {where} GROUP BY 1, 2, 3, 4, 5
) peaks USING (claim_id, driver, pool, device, bucket)
"""  # noqa: S608, names of columns


KEY = ("claim_id", "driver", "pool", "device", "bucket")
COLUMNS = (*KEY, "samples", "activity_min", "activity_max", *COMMON, "memory_p95", "activity_p95")
_NAMES = ", ".join(COLUMNS)
_CHANGES = ", ".join(f"{name} = EXCLUDED.{name}" for name in COLUMNS[len(KEY) :])
OF_HOUR = hours_sql("bucket >= %(start)s AND bucket < %(end)s")
STORE = f"""
INSERT INTO usage_hourlyrollup ({_NAMES}) SELECT {_NAMES} FROM ({OF_HOUR}) hours ORDER BY {", ".join(KEY)}
ON CONFLICT ({", ".join(KEY)}) DO UPDATE SET {_CHANGES}
"""  # noqa: S608, names of columns

# Hours for a reader: those that are stored, and the last ones of five minutes. `where` must hold for both.
STORED_UNTIL = "(SELECT coalesce(max(hour) + interval '1 hour', '-infinity') FROM usage_storedhour)"


def read_sql(where: str) -> str:
    """Return the query of the hours that `where` chooses, with `COLUMNS`."""
    return f"""
SELECT {_NAMES} FROM usage_hourlyrollup WHERE {where} AND bucket < {STORED_UNTIL}
UNION ALL SELECT {_NAMES} FROM ({hours_sql(f"{where} AND bucket >= {STORED_UNTIL}")}) latest
"""  # noqa: S608, names of columns


PENDING = """
SELECT hour FROM generate_series(%s::timestamptz, %s::timestamptz, interval '1 hour') hour
LEFT JOIN usage_storedhour stored USING (hour)
WHERE stored.hour IS NULL OR (NOT stored.is_final AND hour < %s)
ORDER BY hour LIMIT %s
"""


def pending(now: datetime) -> Iterator[datetime]:
    """Yield the hours to store, oldest first: those that are over and not stored, and those to make final."""
    last = hour_start(now - SETTLED_AFTER) - HOUR
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(bucket) FROM usage_rollup_default")  # what waits there for a partition
        waiting = [hour_start(at) for (at,) in cursor.fetchall() if at]
        first = min([*waiting, *FIVE_MINUTES.existing().values()], default=None)
        if first is None:
            return
        cursor.execute(PENDING, [first, last, last - LATE, AT_ONCE])
        yield from (hour for (hour,) in cursor.fetchall())


def store(now: datetime) -> int:
    """Store the pending hours; return their number."""
    hours = list(pending(now))
    final_before = hour_start(now - SETTLED_AFTER) - HOUR - LATE
    for hour in hours:
        store_hour(hour, is_final=hour < final_before)
    return len(hours)


def store_hour(hour: datetime, *, is_final: bool) -> None:
    """Compute the rows of one hour from its five minutes, and note that it is stored."""
    store_span(hour, hour + HOUR, is_final=is_final)


@transaction.atomic
def store_span(start: datetime, end: datetime, *, is_final: bool) -> None:
    """Compute the rows of all hours from `start` to `end`, and note that they are stored."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '5min'")  # 40,000 devices
        cursor.execute(STORE, {"start": start, "end": end})
    hours = ((end - start) // HOUR) if start < end else 0
    StoredHour.objects.bulk_create(
        (StoredHour(hour=start + number * HOUR, is_final=is_final) for number in range(hours)),
        update_conflicts=True,
        unique_fields=["hour"],
        update_fields=["is_final"],
    )


def store_past(now: datetime) -> None:
    """Store all that is at least a day old as final: an invented past, or one from elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(bucket) FROM usage_rollup")
        (first,) = cursor.fetchone() or (None,)
    if first is not None:
        store_span(hour_start(first), hour_start(now - LATE), is_final=True)
