"""
Many rows in one statement, as one JSON text.

A full listing writes thousands of rows. Handed over one value at a time, most of the time went into quoting;
PostgreSQL takes a JSON array apart faster than a client can put parameters together.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, models
from psycopg import sql

AT_ONCE = 1000  # rows in a statement


def upsert_rows(
    model: type[models.Model],
    rows: Sequence[Mapping[str, Any]],
    *,
    unique: Sequence[str],
    kept: Iterable[str] = (),
    returning: Sequence[str] = (),
) -> list[tuple[Any, ...]]:
    """
    Insert rows, given by column, all with the same ones; where `unique` is taken, replace all but `kept`.

    Return the columns `returning` of every row, in no order. With `kept` being all columns a taken row stays
    as it is, and is not returned.
    """
    if not rows:
        return []
    names = list(rows[0])
    replaced = [name for name in names if name not in {*unique, *kept}]
    statement = sql.SQL(
        "INSERT INTO {table} ({columns}) "
        "SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s::json) "
        "ON CONFLICT ({unique}) DO {action}{returning}"
    ).format(
        table=sql.Identifier(model._meta.db_table),
        columns=_listed(names),
        unique=_listed(unique),
        action=_action(replaced),
        returning=sql.SQL(" RETURNING {}").format(_listed(returning)) if returning else sql.SQL(""),
    )
    found: list[tuple[Any, ...]] = []
    with connection.cursor() as cursor:
        for start in range(0, len(rows), AT_ONCE):
            cursor.execute(statement, [as_json(rows[start : start + AT_ONCE])])
            if returning:
                found += cursor.fetchall()
    return found


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Dates and ids as text, which PostgreSQL reads as it reads any other."""
    return json.dumps(rows, default=str, ensure_ascii=False, separators=(",", ":"))


def _listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _action(replaced: Sequence[str]) -> sql.Composable:
    if not replaced:
        return sql.SQL("NOTHING")
    pairs = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in replaced)
    return sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(pairs))


def update_rows(model: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Set columns of rows that exist: each row is {"id": …, column: value, …}, all with the same columns."""
    if not rows:
        return
    table = sql.Identifier(model._meta.db_table)
    pairs = [sql.SQL("{0} = new.{0}").format(sql.Identifier(name)) for name in rows[0] if name != "id"]
    statement = sql.SQL(
        "UPDATE {table} SET {pairs} FROM json_populate_recordset(NULL::{table}, %s::json) AS new "
        "WHERE {table}.id = new.id"
    ).format(table=table, pairs=sql.SQL(", ").join(pairs))
    with connection.cursor() as cursor:
        for start in range(0, len(rows), AT_ONCE):
            cursor.execute(statement, [as_json(rows[start : start + AT_ONCE])])
