"""
Conditions of lists: a filter by the rows of a small table, and the search for a part of a text.

A filter reads the keys of its rows once, for its options and for the chosen one. The search for a part of a
text is an index scan, as with the extension pg_trgm, which many PostgreSQL servers do not have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any, NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.fields.array import ArrayContains  # type: ignore[attr-defined]
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, F, Func, Lookup, Model, Q, QuerySet, TextField, Value
from django.db.models.sql.compiler import SQLCompiler
from django.forms import Form, Select
from django.utils.safestring import SafeString, mark_safe
from django_filters import IsoDateTimeFilter, ModelChoiceFilter
from django_filters.fields import ModelChoiceField, ModelChoiceIterator
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema_field

from core.errors import Invalid, unknown
from core.markup import attributes, escape

TRIGRAM = 3  # characters of a part that the index has
MAX_PARTS = 50  # a function of PostgreSQL takes 100 arguments


class KeySelect(Select):
    """A `<select>` whose options are (key, label), written without a dictionary for each."""

    def render(
        self, name: str, value: Any, attrs: Mapping[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen = "" if value is None else str(value)
        options = "\n".join(
            f'<option value="{text}"{" selected" if key == chosen else ""}>'
            f"{text if label is key else escape(label)}</option>"
            for key, label in self.choices
            for text in (escape(key),)
        )
        whole = attributes(self.build_attrs(self.attrs, dict(attrs or {})))
        return mark_safe(f'<select name="{escape(name)}"{whole}>\n{options}\n</select>')  # noqa: S308, escaped


class Titled(NamedTuple):
    """A row whose option shows its title instead of its key."""

    pk: Any
    title: str


class Keys(ModelChoiceIterator):
    def __iter__(self) -> Iterator[tuple[str, str]]:
        yield "", self.field.empty_label
        for key, row in self.field.rows.items():
            yield key, row.title if isinstance(row, Titled) else key


class RowField(ModelChoiceField):
    """A choice of one row, by the field `to_field_name`; `clean` returns it with this field and its key."""

    iterator = Keys
    widget = KeySelect
    read_rows: Callable[[], dict[str, Any]]

    @cached_property
    def rows(self) -> dict[str, Any]:
        """The keys that may be chosen, each with its primary key, or with that and a title."""
        return self.read_rows()

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        if value not in self.rows:
            raise ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        row = self.rows[value]
        return self.queryset.model(
            **{self.to_field_name: value, "pk": row.pk if isinstance(row, Titled) else row}
        )


def unknown_value(form: Form, name: str) -> tuple[str, list[str]]:
    """Return the value of a filter that is unknown, and those that there are, if they have names."""
    choices, value = getattr(form.fields.get(name), "choices", ()), form[name].value()
    known = [key for key, _label in choices if key and isinstance(key, str)]
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value), known


class Filters(DjangoFilterBackend):
    """The filters of a list of the API: an unknown value is refused, and those that there are are named."""

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        found = self.get_filterset(request, queryset, view)
        for name, one in found.filters.items() if found is not None else ():
            if isinstance(one, IsoDateTimeFilter) and request.query_params.get(name) == "":
                raise Invalid(f"The parameter “{name}” is empty. Leave it out.", field=name)
        if found is not None and not found.is_valid():
            name, problems = next(iter(found.form.errors.items()))
            if not hasattr(found.form.fields.get(name), "choices"):
                raise Invalid(f"{name}: {problems[0]}", field=name)
            raise unknown(name, *unknown_value(found.form, name))
        return queryset if found is None else found.qs


@extend_schema_field({"type": "string"})
class RowFilter(ModelChoiceFilter):
    """
    `rows` returns the keys that a request may choose, in the order of the options, with primary keys; as
    `Titled` rows, their options show titles.
    """

    field_class = RowField

    def __init__(self, model: type[Model], rows: Callable[[Any], dict[str, Any]], **options: Any) -> None:
        super().__init__(queryset=lambda _request: model._default_manager.none(), **options)
        self.rows = rows

    @property
    def field(self) -> Any:
        field = super().field
        field.read_rows = partial(self.rows, self.get_request())
        return field


@CharField.register_lookup
@TextField.register_lookup
class Matches(Lookup[Any]):
    """`icontains` with a ready `like_pattern`: Django would change the placeholders of prepared queries."""

    lookup_name = "matches"

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        text, text_values = self.process_lhs(compiler, connection)
        pattern, pattern_values = self.process_rhs(compiler, connection)
        return f"UPPER({text}::text) LIKE UPPER({pattern})", (*text_values, *pattern_values)


def like_pattern(word: str) -> str:
    """Return the pattern of LIKE for a text that contains the word."""
    return f"%{connection.ops.prep_for_like_query(word)}%"


class Trigrams(Func):
    """All parts of three characters of some texts, in upper case: `search_trigrams` of core's migrations."""

    function = "search_trigrams"
    output_field = ArrayField(TextField())


def has_text(word: str, *fields: str) -> Q:
    """Return the condition that one of the fields contains the word, in any case, for a scan of the rows."""
    return reduce(or_, (Q((f"{field}__icontains", word)) for field in fields))


def has_text_by_index(word: str, *fields: str) -> Q:
    """
    Return the condition of `has_text` for a word of at least a trigram, for `GinIndex(Trigrams(*fields))`.

    Use it where the index is sure to be used: on a row, it takes fifty times as long as `has_text`. The index
    is asked for every third trigram and the last one: all of the word, in a third of the lists of rows. Of a
    long word the first ones are enough.
    """
    starts = [*range(0, len(word) - TRIGRAM, TRIGRAM), len(word) - TRIGRAM][:MAX_PARTS]
    parts = [Value(word[start : start + TRIGRAM]) for start in starts]
    return Q(ArrayContains(Trigrams(*map(F, fields)), Trigrams(*parts))) & has_text(word, *fields)


def estimated_rows(rows: QuerySet[Any, Any]) -> int:
    """Return how many rows the planner expects, from its statistics; nothing is read."""
    plan: int = json.loads(rows.order_by().explain(format="json"))[0]["Plan"]["Plan Rows"]
    return plan
