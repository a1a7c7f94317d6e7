"""
Inputs of the API, with strict types: 0 is not a string and 1 is not true; pages of its lists; and the names
that a query may have.

DRF's fields read JSON like a form, where everything is text. A number instead of a string is a mistake of the
client, which it should see. Every list has pages of one form (`Paged`): by cursor, which is stable while rows
change, or for rows that are not of one table by the number of rows before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Self
from uuid import UUID

import django_filters as filters
from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import BasePagination, CursorPagination
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from core.errors import Invalid, UnknownName
from core.text import written
from core.times import parse_duration, spell_duration

TRUE, FALSE = frozenset(("true", "1", "yes", "on")), frozenset(("false", "0", "no", "off"))


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_whole(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1


# A class before its base classes.
JSON_TYPES: tuple[tuple[type[Any], Callable[[Any], bool], str], ...] = (
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


class Texts(serializers.ListField):
    child = serializers.CharField()


class FigureField(serializers.DecimalField):
    def __init__(self, places: int = 2, **more: Any) -> None:
        super().__init__(max_digits=20, decimal_places=places, **more)


# No docstring: it would become the description of every input without its own. In a query everything is
# text and is read as DRF reads it.
class Input(serializers.Serializer[Any]):
    @classmethod
    def of(cls, request: Request, now: Mapping[str, Any] | None = None) -> Self:
        """
        Return the body of a request; with `now`, the answer about what it changes, a field that it leaves out
        is as it is there. Raises ValidationError.
        """
        sent = request.data
        if now and isinstance(sent, Mapping):
            kept = now.keys() & cls().fields.keys()
            sent = {name: now[name] for name in kept if now[name] not in (None, "")} | {**sent}
        body = cls(data=sent)
        body.is_valid(raise_exception=True)
        return body

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and not isinstance(data, QueryDict):
            sent = {name: field for name, field in self.fields.items() if name in data}
            wrong: dict[str, Any] = {
                str(name): [unknown_member(str(name), self.fields)] for name in data if name not in sent
            }
            wrong |= {name: errors for name, field in sent.items() if (errors := mistyped(field, data[name]))}
            if wrong:
                raise serializers.ValidationError(wrong)
            data = {name: written(value) if isinstance(value, str) else value for name, value in data.items()}
        return super().to_internal_value(data)


class AskingInput(Input):
    allow_unknown = serializers.BooleanField(default=False, help_text="Take a name that no cluster has (yet)")


def require_known(surprise: str, *, allowed: bool, field: str) -> None:
    """Raise UnknownName if `surprise` says that a name may be mistyped, unless the caller allows it."""
    if surprise and not allowed:
        raise UnknownName(f"{surprise} To take it anyway, send allow_unknown: true.", field=field)


def unknown_member(name: str, known: Iterable[str]) -> str:
    """Return why a body is refused that has this member, with the nearest name that it may have."""
    names = list(known)
    hint = did_you_mean(name, names) or f"Known: {', '.join(names) or 'none'}."
    return f"Unknown member “{name[:40]}”. {hint}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the name of `known` that is nearest, empty if none is near."""
    near = get_close_matches(name, list(known), n=1)
    return f"Did you mean “{near[0]}”?" if near else ""


def mistyped(field: Any, value: object) -> dict[str, Any] | list[str]:
    """Return the errors in the JSON type of `value`; none for null, which the field itself checks."""
    if value is None:
        return []
    child = getattr(field, "child", None) or getattr(field, "child_relation", None)
    if isinstance(value, list) and child is not None and not isinstance(child, serializers.BaseSerializer):
        return {str(index): errors for index, item in enumerate(value) if (errors := mistyped(child, item))}
    for kind, fits, words in JSON_TYPES:
        if isinstance(field, kind):
            return [] if fits(value) else [f"This must be {words}."]
    return []


def is_true(request: Request, name: str) -> bool:
    """Return a boolean of the query, False without it. Raises Invalid for any other text."""
    text = request.query_params.get(name, "")
    try:
        return bool(YesNo(required=False).clean(text))
    except ValidationError as error:
        raise Invalid(f"{name}: {error.messages[0]}", field=name) from None


class YesNo(forms.Field):
    """Unlike Django's NullBooleanField it refuses unknown text. Empty is None."""

    default_error_messages = {"invalid": "This must be true or false."}
    empty_values = [None, ""]

    def to_python(self, value: Any) -> bool | None:
        text = str(value).lower()
        if value in self.empty_values:
            return None
        if text not in TRUE | FALSE:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return text in TRUE


class BooleanFilter(filters.BooleanFilter):
    """A filter of django-filter without its widget, which ignores unknown text."""

    field_class = YesNo


class AskingForm(forms.Form):
    """
    A form that asks before it takes a name that no cluster has: it is refused once, beside “Save anyway”.
    """

    allow_unknown = forms.BooleanField(required=False, label="Save anyway")

    def surprises(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that may be mistyped, each with a sentence."""
        raise NotImplementedError

    @property
    def confirmation(self) -> forms.BoundField | None:
        """The box that is shown beside a surprise."""
        return self["allow_unknown"] if "allow_unknown" in self.fields else None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        box = self.fields.pop("allow_unknown")
        if self.is_bound:
            self.fields["allow_unknown"] = box  # the last one

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        allowed, found = self.cleaned_data.pop("allow_unknown", False), dict(self.surprises())
        if not found:
            del self.fields["allow_unknown"]
        elif not allowed:
            for name, sentence in found.items():
                self.add_error(name, sentence)


class DurationText(forms.CharField):
    """A form field for a duration such as "24h"; empty is None."""

    default_error_messages = {"invalid": "Enter a duration such as 24h, 3d or 1d 12h."}

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            return parse_duration(text)
        except ValueError as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error

    def prepare_value(self, value: Any) -> Any:
        return spell_duration(value) if isinstance(value, timedelta) else value


MAX_ROWS = 500
MOST_BEFORE = 10_000_000  # rows before a page: more is no cursor
CURSOR, LIMIT, ORDER = "cursor", "limit", "order"


class Paged(BasePagination):
    """
    The one form of a list: `limit` rows, and `next`, the address of the following ones; null at the end.

    Raises Invalid for another limit than 1 to MAX_ROWS, and for a cursor of another list.
    """

    page_size: int | None = 50

    def get_page_size(self, request: Request) -> int:
        limit = positive(request, LIMIT) or self.page_size or MAX_ROWS
        if limit > MAX_ROWS:
            raise Invalid(f"limit is at most {MAX_ROWS}, not {limit}. Follow `next` for more.", field=LIMIT)
        return limit

    def get_next_link(self) -> str | None:
        raise NotImplementedError

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self.get_next_link(), "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": "string", "format": "uri", "nullable": True, "description": "Null on the last page"}
        properties = {"next": link, "results": schema}
        return {"type": "object", "required": list(properties), "properties": properties}

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_ROWS, "default": self.page_size}
        return [
            _in_query(CURSOR, {"type": "string"}, "Where the page begins: follow `next`."),
            _in_query(LIMIT, limit, "Rows per page."),
        ]


def _in_query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def no_cursor() -> Invalid:
    return Invalid("This is not a cursor of this list. Use the one of `next`.", field=CURSOR)


class Rows(Paged):
    """Pages of rows that have an order of their own; the cursor is the number of rows before the page."""

    request: Request
    following: object = None

    def paginate_queryset(self, rows: Any, request: Request, view: Any = None) -> list[Any]:
        self.request, text = request, request.query_params.get(CURSOR) or "0"
        start = int(text[:20]) if text.isascii() and text.isdigit() else MOST_BEFORE + 1
        if start > MOST_BEFORE:
            raise no_cursor()
        end = start + self.get_page_size(request)
        self.following = end if len(rows) > end else None
        return list(rows[start:end])

    def get_next_link(self) -> str | None:
        address = self.request.build_absolute_uri()
        return replace_query_param(address, CURSOR, self.following) if self.following else None


class Cursor(Paged, CursorPagination):
    """
    Pages by cursor. `orders` are the orders that a request may choose, by name; each also runs backwards, as
    "-name". Without it there is one: that of `ordering`, whose first field names it.
    """

    get_next_link = CursorPagination.get_next_link
    ordering: Any = ("-id",)
    offset_cutoff = MOST_BEFORE  # among rows of one position
    orders: Mapping[str, tuple[str, ...]] = {}

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        """Return the order of a request, by fields that are never null. Raises Invalid for an unknown one."""
        chosen, known = request.query_params.get(ORDER), self.known_orders()
        if chosen is None:
            return tuple(self.ordering)
        if chosen not in known:
            names = ", ".join(known)
            raise Invalid(f"Unknown order {chosen[:40]}. Known: {names}.", field=ORDER)
        return known[chosen]

    def known_orders(self) -> dict[str, tuple[str, ...]]:
        fields = tuple(self.ordering)
        if fields[0].startswith("-"):
            fields = backwards(fields)
        name = fields[0].rpartition("__")[2]
        upwards = dict(self.orders) or {"created" if name in ("id", "pk") else name: fields}
        found: dict[str, tuple[str, ...]] = {}
        for each, columns in upwards.items():
            found |= {each: columns, f"-{each}": backwards(columns)}
        return found

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, Any]]:
        orders = {"type": "string", "enum": list(self.known_orders())}
        order = _in_query(ORDER, orders, "A name with “-” runs backwards.")
        return [*super().get_schema_operation_parameters(view), order]

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValueError, ValidationError):  # malformed, or a cursor of another list
            if CURSOR not in request.query_params:
                raise
            raise no_cursor() from None


def ordered(*fields: str) -> type[Cursor]:
    """Return pages in the order of these fields, which are never null; together they are unique."""
    return type("Ordered", (Cursor,), {"ordering": fields})


def page_of(view: Any, rows: Any, out: type[serializers.BaseSerializer[Any]], **options: Any) -> Response:
    """Return one page of a list; `options` are those of the serializer."""
    shown = out(view.paginate_queryset(rows), many=True, **options)
    answer: Response = view.get_paginated_response(shown.data)
    return answer


def backwards(fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.removeprefix("-") if name.startswith("-") else f"-{name}" for name in fields)


def positive(request: Request, name: str) -> int | None:
    """Return the number in the query, None without it. Raises Invalid unless it is positive."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:20]) > 0):
        raise Invalid(f"{name} must be a whole number of at least 1, not “{text[:20]}”.", field=name)
    return int(text[:20])


FORMAT = "format"  # of DRF: the media type of the response
_query_parameters: dict[tuple[type, str], frozenset[str]] = {}


class KnownParameters(BasePermission):
    """
    Refuses a query with a parameter that the operation does not describe, and names those that it does; and
    members of a body where it takes none. Those of other bodies are refused by `Input`.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        operation = getattr(view, "action", None) or (request.method or "").lower()
        _require_no_members(view, operation, request)
        if not request.query_params or not hasattr(view, operation):
            return True  # the second is 405
        known = query_parameters(view, operation, request)
        if unknown := sorted(set(request.query_params) - known - {FORMAT}):
            names = ", ".join(sorted(known)) or "none"
            raise Invalid(f"Unknown parameter {', '.join(unknown)}. Known: {names}.", field=unknown[0])
        return True


def query_parameters(view: Any, operation: str, request: Request) -> frozenset[str]:
    """Return the names that the query of an operation may have: those in its description."""
    key = (type(view), operation)
    if key not in _query_parameters:
        schema = _schema(view, getattr(view, operation), request)
        names = {*_described_parameters(schema)}
        names |= {parameter["name"] for parameter in schema._get_pagination_parameters()}
        if operation == "list" or (not hasattr(view, "action") and hasattr(view, "list")):
            names |= set(getattr(getattr(view, "filterset_class", None), "base_filters", ()))
        _query_parameters[key] = frozenset(names)
    return _query_parameters[key]


def _require_no_members(view: Any, operation: str, request: Request) -> None:
    """Raise Invalid if a body has members and the operation is described without a body."""
    is_json = (request.content_type or "").startswith("application/json")
    if request.method in SAFE_METHODS or not is_json or not hasattr(view, operation):
        return
    takes_none = request.method == "DELETE" or (
        "schema" in getattr(handler := getattr(view, operation), "kwargs", {})
        and _schema(view, handler, request).get_request_serializer() is None
    )
    if takes_none and isinstance(request.data, Mapping) and (sent := next(iter(request.data), None)):
        raise Invalid(f"{unknown_member(sent, ())} Send no body.", field=sent)


def _schema(view: Any, handler: Any, request: Request) -> Any:
    """Return the description of an operation by `@extend_schema`."""
    schema = getattr(handler, "kwargs", {}).get("schema", type(view.schema))()
    schema.view, schema.method, schema.path = view, request.method, ""
    return schema


def _described_parameters(schema: Any) -> Iterator[str]:
    """Yield the parameters of `@extend_schema`, the only place that names them."""
    for parameter in schema.get_override_parameters():
        if not isinstance(parameter, OpenApiParameter):
            yield from parameter().fields
        elif parameter.location == OpenApiParameter.QUERY:
            yield parameter.name


# A name in addresses, and in labels and names of objects in clusters.
validate_name = RegexValidator(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z", "Lower-case letters, digits and hyphens.")


def valid_ids(texts: Iterable[str]) -> list[UUID]:
    """Return the UUIDs among texts that anybody can write, such as labels; other texts are ignored."""
    uuids = []
    for text in texts:
        try:
            uuids.append(UUID(text))
        except ValueError:
            continue
    return uuids


class MomentInput(forms.DateTimeInput):
    """
    A time in the reader's zone, for which browsers offer a calendar. Beside it stands the instant: a local
    time may be there twice or have been rounded, and what nobody changed comes back as it was.
    """

    input_type = "datetime-local"
    supports_microseconds = True
    EXACT = "{}_exact"

    def format_value(self, value: object) -> str | None:
        if not isinstance(value, datetime):
            return super().format_value(value)
        return value.strftime("%Y-%m-%dT%H:%M:%S" if value.second else "%Y-%m-%dT%H:%M")

    def render(
        self, name: str, value: object, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        shown = super().render(name, value, attrs, renderer)
        if not isinstance(value, datetime):
            return shown
        exact = format_html(
            '<input type="hidden" name="{}" value="{}">', self.EXACT.format(name), value.isoformat()
        )
        return shown + exact

    def value_from_datadict(self, data: Any, files: Any, name: str) -> object:
        text = super().value_from_datadict(data, files, name)
        try:
            exact = timezone.localtime(datetime.fromisoformat(data.get(self.EXACT.format(name), "")))
        except (TypeError, ValueError, OverflowError):
            return text
        return exact if text in (self.format_value(exact), f"{exact:%Y-%m-%dT%H:%M}") else text


class LocalMoment(forms.DateTimeField):
    """
    An instant, given in the reader's time zone. Of a time that is there twice, as clocks go back, it is the
    first; one that is not there, as clocks go forward, is refused. Cleaned, it is in UTC: Python finds no
    time of an hour that is there twice equal to one in another zone.
    """

    widget = MomentInput
    default_error_messages = {"invalid": "Enter a date and a time, like 2026-11-20 18:00."}

    def prepare_value(self, value: object) -> object:
        return timezone.localtime(value) if isinstance(value, datetime) else value

    def to_python(self, value: Any) -> datetime | None:
        try:
            found = super().to_python(value)
            return None if found is None else found.astimezone(UTC)
        except OverflowError:  # in the first or last hours of the calendar
            raise ValidationError(self.error_messages["invalid"], code="invalid") from None
        except ValidationError as refusal:
            if refusal.code != "ambiguous_timezone" or not refusal.params:
                raise
            local = timezone.make_aware(refusal.params["datetime"])
        instant = local.astimezone(UTC)
        there = timezone.localtime(instant)
        if there.replace(tzinfo=None, fold=0) != local.replace(tzinfo=None, fold=0):
            raise ValidationError(
                f"The clocks go forward, so {local:%Y-%m-%d %H:%M} is left out. Enter {there:%H:%M}.",
                code="no_such_time",
            )
        return instant


class PersonField(forms.ModelChoiceField):  # type: ignore[type-arg]  # not generic while it runs
    """A choice of people, shown by their full names."""

    def __init__(self, queryset: Any, *, empty_label: str | None = "Choose somebody", **options: Any) -> None:
        super().__init__(queryset, empty_label=empty_label, **options)

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.label)


class TitleField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A choice of rows that have titles, such as profiles."""

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.title)
