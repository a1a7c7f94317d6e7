"""What stands in the database, as one text per table: to show that a refused request has written nothing."""

from __future__ import annotations

from django.apps import apps
from django.db import connection

# What every request may write: who was refused, and when a token was last used.
WRITTEN_BY_REFUSALS = {"django_session", "teams_auditentry", "teams_auditseal"}
LAST_USE = ("last_used_at", "last_used_from", "last_login")


def stored() -> dict[str, str]:
    """Return a digest of the rows of each table, in one query."""
    tables = sorted({model._meta.db_table for model in apps.get_models()} - WRITTEN_BY_REFUSALS)
    without = ", ".join(f"'{name}'" for name in LAST_USE)
    parts = [
        f"""SELECT '{table}', count(*) || ':' || coalesce(md5(string_agg(
            (to_jsonb(row) - ARRAY[{without}])::text, ',' ORDER BY to_jsonb(row)::text)), '')
            FROM "{table}" row"""
        for table in tables
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts))
        return dict(cursor.fetchall())


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [table for table in before if before[table] != after.get(table)]


def writes() -> dict[str, int]:
    """
    Return how many rows of each table were written since the transaction began, whatever became of them.

    Where two counts are the same, `stored` is: it reads every row, this none. PostgreSQL counts while
    `track_counts` is on, and keeps the counts of savepoints that were rolled back.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT relname, written FROM pg_class, LATERAL (
                   SELECT pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)
                       + pg_stat_get_xact_tuples_deleted(oid)
               ) AS of (written)
               WHERE relkind = 'r' AND written > 0 AND relname <> ALL (%s)""",
            [[*WRITTEN_BY_REFUSALS]],
        )
        return dict(cursor.fetchall())
