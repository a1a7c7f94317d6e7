"""Filters of lists by the rows of a small table, such as teams: one query reads keys only, for any use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import Select
from django.utils.safestring import SafeString, mark_safe
from django_filters import ModelChoiceFilter
from django_filters.fields import ModelChoiceField, ModelChoiceIterator

from core.form_renderer import attributes, escape


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
