"""
What the API takes, read as strictly as it is described: 0 is no text and 1 is not true.

DRF's fields read JSON as they read a form, in which everything is text. A program that sends a number for a
text has a mistake in it that is better told than kept.
"""

from collections.abc import Callable, Mapping
from typing import Any

import django_filters as filters
from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.request import Request

from core.errors import Invalid

TRUE, FALSE = frozenset(("true", "1", "yes", "on")), frozenset(("false", "0", "no", "off"))


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_whole(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1


# A class before those it derives from.
FITTING: tuple[tuple[type[Any], Callable[[Any], bool], str], ...] = (
    (serializers.BooleanField, lambda value: isinstance(value, bool), "true or false"),
    (serializers.IntegerField, is_whole, "a whole number"),
    *(
        (kind, is_text, "a text")
        for kind in (
            serializers.CharField,
            serializers.ChoiceField,
            serializers.DateTimeField,
            serializers.DecimalField,
            serializers.SlugRelatedField,
            serializers.UUIDField,
        )
    ),
)  # fmt: skip


# Without a docstring, which would describe to readers of the API what has none of its own. In a query
# everything is text, and is read as DRF reads it.
class Input(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and not isinstance(data, QueryDict):
            sent = {name: field for name, field in self.fields.items() if name in data}
            if wrong := {name: told for name, field in sent.items() if (told := mistyped(field, data[name]))}:
                raise serializers.ValidationError(wrong)
        return super().to_internal_value(data)


def mistyped(field: Any, value: object) -> dict[str, Any] | list[str]:
    """Return what is wrong with the JSON type of `value`; nothing for null, which the field itself judges."""
    if value is None:
        return []
    child = getattr(field, "child", None) or getattr(field, "child_relation", None)
    if isinstance(value, list) and child is not None and not isinstance(child, serializers.BaseSerializer):
        return {str(place): found for place, one in enumerate(value) if (found := mistyped(child, one))}
    for kind, fits, words in FITTING:
        if isinstance(field, kind):
            return [] if fits(value) else [f"This has to be {words}."]
    return []


def is_true(request: Request, name: str) -> bool:
    """Return a switch of the query, off where it is not there. Raises Invalid for neither true nor false."""
    text = request.query_params.get(name, "")
    try:
        return bool(YesNo(required=False).clean(text))
    except ValidationError as error:
        raise Invalid(f"{name}: {error.messages[0]}", field=name) from None


class YesNo(forms.Field):
    """Unlike Django's NullBooleanField it refuses what it does not understand. Empty is None."""

    default_error_messages = {"invalid": "This has to be true or false."}
    empty_values = [None, ""]

    def to_python(self, value: Any) -> bool | None:
        text = str(value).lower()
        if value in self.empty_values:
            return None
        if text not in TRUE | FALSE:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return text in TRUE


class BooleanFilter(filters.BooleanFilter):
    """A filter of django-filter, without its widget, which turns what it does not understand into nothing."""

    field_class = YesNo
