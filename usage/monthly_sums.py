"""
Sums of the stored days of each month by team, person and profile: what the report puts in order, which with
the days of a month would be thirty times as many rows.

`usage.daily` writes them with the days. Those of a month in which `StoredDays.until` lies end with it; if the
days were forgotten since, they are left unread until the days are stored again (`whole_months`).
"""

from __future__ import annotations

from datetime import date, timedelta

from django.db import connection

from core.models import RowDifferences

SUMS = """
SELECT dimension, key, currency, sum(held), sum(unpriced), sum(amount), sum(amount_measured - amount_used)
FROM usage_dailysum
WHERE dimension IN ('team', 'person', 'profile') AND day >= %(first)s AND day < %(end)s GROUP BY 1, 2, 3
"""
VALUES = "held, unpriced, amount, idle"
COMPARED = f"""
WITH sums (dimension, key, currency, {VALUES}) AS MATERIALIZED ({SUMS}), compared AS MATERIALIZED (
  SELECT sums.*, stored.id AS stored
  FROM sums FULL JOIN (SELECT * FROM usage_monthlysum WHERE month = %(month)s) stored
    USING (dimension, key, currency)
  WHERE (sums.held, sums.unpriced, sums.amount, sums.idle)
    IS DISTINCT FROM (stored.held, stored.unpriced, stored.amount, stored.idle)
)"""  # noqa: S608
WRITTEN = f""", missing AS (
  INSERT INTO usage_monthlysum (month, dimension, key, currency, {VALUES})
  SELECT %(month)s, dimension, key, currency, {VALUES} FROM compared WHERE stored IS NULL
), altered AS (
  UPDATE usage_monthlysum SET ({VALUES}) = (compared.held, compared.unpriced, compared.amount, compared.idle)
  FROM compared WHERE usage_monthlysum.id = compared.stored AND compared.held IS NOT NULL
), obsolete AS (
  DELETE FROM usage_monthlysum WHERE id IN (SELECT stored FROM compared WHERE held IS NULL)
)"""  # noqa: S608
COUNTED = """
SELECT count(*) FILTER (WHERE stored IS NULL),
       count(*) FILTER (WHERE stored IS NOT NULL AND held IS NOT NULL), count(*) FILTER (WHERE held IS NULL)
FROM compared
"""


def next_month(day: date) -> date:
    """Return the first day of the month after that of a day."""
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def refresh(first: date, end: date, *, until: date, unread: bool, check: bool = False) -> RowDifferences:
    """
    Write the sums of the months of these days, from all their days before `until`, or with `check` only
    compare them; return what differed. A statement per month. If those of the month of `until` are `unread`,
    they are left to the next `usage.daily.store_days`.
    """
    differences, month = RowDifferences(), first.replace(day=1)
    while month < end:
        following = next_month(month)
        if unread and following > until:
            break
        parameters = {"month": month, "first": month, "end": min(following, until)}
        with connection.cursor() as cursor:
            cursor.execute(f"{COMPARED}{'' if check else WRITTEN}{COUNTED}", parameters)
            differences += RowDifferences(*cursor.fetchone())
        month = following
    return differences


def whole_months(first: date, end: date, months_until: date | None) -> tuple[date, date]:
    """
    Return from and before which day, of the stored days from `first` to `end`, months have their sums; twice
    `end` if none has. `months_until` is that of `StoredDays`.
    """
    start = first if first.day == 1 else next_month(first)
    stop = end if end == months_until else end.replace(day=1)
    return (start, stop) if months_until is not None and start < stop else (end, end)
