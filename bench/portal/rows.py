"""Many rows at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection, models
from psycopg import sql


def copy(model: type[models.Model], rows: Iterable[models.Model]) -> None:
    """Write rows by COPY; keys that the database numbers are left to it."""
    fields = [
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, models.AutoField) and not field.generated
    ]
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(model._meta.db_table),
        sql.SQL(", ").join(sql.Identifier(str(field.column)) for field in fields),
    )
    with connection.cursor() as cursor, cursor.copy(statement) as target:
        for row in rows:
            target.write_row(
                [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields]
            )


def execute(statement: str, values: Iterable[Any] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values))


def settle() -> None:
    """Let PostgreSQL know what its tables hold, as its own housekeeping does sooner or later."""
    execute("ANALYZE" if connection.in_atomic_block else "VACUUM ANALYZE")
