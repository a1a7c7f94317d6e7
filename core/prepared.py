"""
Queries that Django compiles once in a process, and PostgreSQL plans once per connection.

They are the queries of every page and of every poll: compiling and planning them takes several times longer
than running them. Their values are parameters of the server; constants stay in the text, so that the planner
still sees the condition of a partial index.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.postgresql.psycopg_any import sql as composable
from django.db.models import Model, QuerySet
from django.db.models.base import ModelState

from core.limits import limiting_team

type Parameter = type[UUID] | type[datetime] | type[date] | type[int] | type[str]
type Statement = tuple[str, Sequence[Any]]
type Maker = Callable[[Sequence[Any]], Any]  # of an object of a row

MAX_STATEMENTS = 32  # of one query: for readers of all their teams, and of one that a token is limited to


class Prepared:
    """
    One query. `build` returns it for placeholders of the given types, as a queryset of values or as SQL.

    Each placeholder differs from every other value, so that its places are found in the compiled query. The
    columns `any_of` ("pk": the primary key), each compared with one value, are compared with lists, wherever
    they stand.
    """

    def __init__(
        self,
        build: Callable[..., QuerySet[Any, Any] | Statement],
        *types: Parameter,
        any_of: str | tuple[str, ...] = (),
    ) -> None:
        self.build, self.any_of = build, any_of
        self.placeholders = [placeholder(kind, number) for number, kind in enumerate(types, 1)]
        self.statement = lru_cache(MAX_STATEMENTS)(self._compile)

    def _compile(self, _team: UUID | None) -> tuple[str, list[int]]:
        """
        Return the SQL, and for each of its parameters which value it gets. It is kept for readers of all
        their teams, and for each team that a token was limited to lately: conditions of the query read that.
        """
        query = self.build(*self.placeholders)
        text, values = query.query.sql_with_params() if isinstance(query, QuerySet) else query
        for column in (self.any_of,) if isinstance(self.any_of, str) else self.any_of:
            comparison = f'"{column}" = '
            if column == "pk" and isinstance(query, QuerySet):
                options = query.query.get_meta()
                comparison = f'"{options.db_table}"."{options.pk.column}" = '
            text = text.replace(f'"{column}" IN (%s)', f"{comparison}%s")
            if text.count(f"{comparison}%s") not in map(list(values).count, self.placeholders):
                raise AssertionError(text)
            text = text.replace(f"{comparison}%s", f"{comparison}ANY(%s)")
        head, *pieces = text.split("%s")
        order: list[int] = []
        for value, piece in zip(values, pieces, strict=True):
            if value in self.placeholders:
                order.append(self.placeholders.index(value))
                head += f"%s{piece}"
            else:
                head += f"{literal(value)}{piece}"
        return head, order

    def rows(self, *values: object) -> list[tuple[Any, ...]]:
        """Run the query with these values; the columns are as psycopg reads them."""
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        text, order = self.statement(limiting_team())
        with cursor_of_server() as cursor:
            cursor.execute(text, [values[number] for number in order])
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


class PreparedObjects[M: Model](Prepared):
    """A query for objects with their `select_related`; what else is read of them has to be prefetched."""

    @cached_property
    def compiled(self) -> tuple[Any, Any, Maker]:
        """Django's compiler, its converters of columns, and what makes an object of a row."""
        compiler: Any = self.build(*self.placeholders).query.get_compiler(DEFAULT_DB_ALIAS)  # type: ignore[union-attr]
        compiler.as_sql()
        converters = compiler.get_converters([column[0] for column in compiler.select[: compiler.col_count]])
        return compiler, converters, _maker(compiler.klass_info, compiler.select)

    def objects(self, *values: object) -> list[M]:
        """Run the query with these values; the objects are as those of its queryset."""
        rows: Iterable[Sequence[Any]] = self.rows(*values)
        compiler, converters, make = self.compiled
        if converters:
            rows = compiler.apply_converters(rows, converters)
        annotations = compiler.annotation_col_map
        objects: list[M] = []
        for row in rows:
            item = make(row)
            if item is None:
                raise AssertionError(row)  # only a related object can be missing
            for name, column in annotations.items():
                setattr(item, name, row[column])
            objects.append(item)
        return objects


def _maker(info: Mapping[str, Any], select: Sequence[Any]) -> Maker:
    """
    Return what makes an object of a row, with its related objects; None if the row has none.

    It sets all columns at once. The constructor sets them one by one, which takes four times as long.
    """
    model, columns = info["model"], info["select_fields"]
    names = [select[column][0].target.attname for column in columns]
    part, key = slice(columns[0], columns[-1] + 1), columns[names.index(model._meta.pk.attname)]
    related = [
        (_maker(other, select), other["local_setter"], other["remote_setter"])
        for other in info.get("related_klass_infos", ())
    ]

    def make(row: Sequence[Any]) -> Any:
        if row[key] is None:
            return None
        item = model.__new__(model)
        item._state = state = ModelState()
        state.adding, state.db = False, DEFAULT_DB_ALIAS
        item.__dict__.update(zip(names, row[part], strict=True))
        for make_other, set_here, set_there in related:
            other = make_other(row)
            set_here(item, other)
            if other is not None:
                set_there(other, item)
        return item

    return make


def partial_object[M: Model](model: type[M], columns: Mapping[str, Any]) -> M:
    """Return a row of which only these columns were read; the others are deferred."""
    names = [field.attname for field in model._meta.concrete_fields if field.attname in columns]
    values = [columns[name] for name in names]  # in the order of the fields, as `from_db` reads them
    return model.from_db(DEFAULT_DB_ALIAS, names, values)


def by_keys(build: Callable[[Any], QuerySet[Any, Any]], kind: Parameter = UUID) -> Prepared:
    """Return the query of rows by a list of their keys; `build` returns that of a row by its key."""
    return Prepared(lambda key: build(key).order_by(), kind, any_of="pk")


def cursor_of_server() -> Any:
    """Return a cursor that sends values apart from the query; while queries are logged, one that does not."""
    if connection.queries_logged:  # a text with its values can be explained
        return connection.cursor()
    database: Any = connection  # psycopg's, of which Django's types know nothing
    return database._prepare_cursor(ServerBindingCursor(database.connection))  # type: ignore[call-arg]


def placeholder(kind: Parameter, number: int) -> UUID | date | int | str:
    if kind is datetime:
        return datetime(1, 1, number, tzinfo=UTC)
    if kind is date:
        return date(1, 1, number)
    if kind is int:
        return sys.maxsize - number
    return UUID(int=number) if kind is UUID else f"\x00{number}"


def literal(value: object) -> str:
    """Return the constant as SQL, with "%" as a text with parameters needs it."""
    text: str = composable.Literal(value).as_string(connection.connection)
    return text.replace("%", "%%")
