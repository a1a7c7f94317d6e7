"""Many rows at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connection, models
from psycopg import sql

type Prepare = Callable[[Any], Any]

PLAIN = (
    *(models.DurationField, models.DateTimeField, models.UUIDField, models.ForeignKey),
    *(models.IntegerField, models.FloatField, models.BooleanField),
)  # psycopg writes their values as they are


def copy(model: type[models.Model], rows: Iterable[models.Model]) -> None:
    """Write rows by COPY; keys that the database numbers are left to it."""
    fields = [
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, models.AutoField) and not field.generated
    ]
    columns = [(field.attname, _prepare(field)) for field in fields]
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(model._meta.db_table),
        sql.SQL(", ").join(sql.Identifier(str(field.column)) for field in fields),
    )
    with connection.cursor() as cursor, cursor.copy(statement) as target:
        for row in rows:
            values = row.__dict__
            target.write_row(
                [prepare(values[name]) if prepare else values[name] for name, prepare in columns]
            )


def _prepare(field: models.Field[Any, Any]) -> Prepare | None:
    """Return what makes a value ready for COPY; None if psycopg takes it as it is."""
    if isinstance(field, models.JSONField):
        return _json_texts()
    if isinstance(field, PLAIN):
        return None
    if isinstance(field, models.CharField | models.TextField):
        return lambda value: value if value is None or type(value) is str else str(value)
    return lambda value: field.get_db_prep_save(value, connection)


def _json_texts() -> Prepare:
    """Return a function that encodes an object once, however many rows share it."""
    texts: dict[int, tuple[Any, str]] = {}

    def text(value: Any) -> str:
        known = texts.get(id(value))
        if known is None or known[0] is not value:
            known = texts[id(value)] = (value, json.dumps(value))
        return known[1]

    return text


def execute(statement: str, values: Iterable[Any] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values))


def analyze() -> None:
    """Give PostgreSQL the statistics that autovacuum collects sooner or later."""
    if connection.in_atomic_block:
        return execute("ANALYZE")
    execute("SET statement_timeout = 0")
    execute("VACUUM ANALYZE")
    return execute("RESET statement_timeout")
