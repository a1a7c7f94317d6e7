"""
Conditions of lists: a filter by the rows of a small table, and the search for a part of a text.

A filter reads the keys of its rows once, for its options and for the chosen one. The search for a part of a
text is an index scan, as with the extension pg_trgm, which many PostgreSQL servers do not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property, reduce
from operator import or_
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.fields.array import ArrayContains  # type: ignore[attr-defined]
from django.core.exceptions import ValidationError
from django.db.models import F, Func, Q, QuerySet, TextField, Value
from django.forms import Select
from django.utils.safestring import SafeString, mark_safe
from django_filters import ModelChoiceFilter
from django_filters.fields import ModelChoiceField, ModelChoiceIterator

from core.form_renderer import attributes, escape

TRIGRAM = 3  # characters of a part that the index has


class KeySelect(Select):
    """A `<select>` whose options are (key, label), written without a dictionary for each."""

    def render(
        self, name: str, value: Any, attrs: Mapping[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen = "" if value is None else str(value)
        options = "\n".join(
            f'<option value="{escape(key)}"{" selected" if key == chosen else ""}>{escape(label)}</option>'
            for key, label in self.choices
        )
        whole = attributes(self.build_attrs(self.attrs, dict(attrs or {})))
        return mark_safe(f'<select name="{escape(name)}"{whole}>\n{options}\n</select>')  # noqa: S308, escaped


class Keys(ModelChoiceIterator):
    def __iter__(self) -> Iterator[tuple[str, str]]:
        yield "", self.field.empty_label
        yield from ((key, key) for key in self.field.rows)


class RowField(ModelChoiceField):
    """A choice of one row, by the field `to_field_name`; `clean` returns it with this field and its key."""

    iterator = Keys
    widget = KeySelect

    @cached_property
    def rows(self) -> dict[str, Any]:
        """The keys that may be chosen, each with its primary key."""
        return dict(self.queryset.values_list(self.to_field_name, "pk"))

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        if value not in self.rows:
            raise ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        return self.queryset.model(**{self.to_field_name: value, "pk": self.rows[value]})


class RowFilter(ModelChoiceFilter):
    field_class = RowField


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

    Use it where the index is sure to be used: on a row, it takes fifty times as long as `has_text`.
    """
    return Q(ArrayContains(Trigrams(*map(F, fields)), Trigrams(Value(word)))) & has_text(word, *fields)


def estimated_rows(rows: QuerySet[Any, Any]) -> int:
    """Return how many rows the planner expects, from its statistics; nothing is read."""
    plan: int = json.loads(rows.order_by().explain(format="json"))[0]["Plan"]["Plan Rows"]
    return plan
