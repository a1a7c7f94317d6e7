"""
The API reference below /help/reference/: a page per resource, drawn from the OpenAPI description.

The description is made once per process. Objects stand once on the page of a resource, and operations link to
them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from core.glossary import formatted
from portal.help.pages import contents
from portal.openapi import METHODS, description

REFERENCE = "#/components/"
SIMPLE = {
    ("string", "date-time"): "time",
    ("string", "date"): "date",
    ("string", "uuid"): "UUID",
    ("string", "uri"): "address",
    ("string", "decimal"): "decimal number as text",
    ("integer", ""): "whole number",
    ("number", ""): "number",
    ("boolean", ""): "true or false",
    ("object", ""): "object",
}
CHOICE = re.compile(r"^\* `.*\n?", re.MULTILINE)  # the choices of a field, which its type names too

type Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a member of an object; `where` is query, path or header."""

    name: str
    kind: SafeString
    text: SafeString
    is_required: bool
    where: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """`answers` are statuses of success with the kind of their body; `refusals` are the others."""

    method: str
    path: str
    anchor: str
    text: SafeString
    parameters: list[Field]
    body: list[Field]
    answers: list[tuple[str, SafeString]]
    refusals: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ApiObject:
    name: str
    text: SafeString
    fields: list[Field]


@dataclass(slots=True)
class ReferencePage:
    """The operations of one tag, and the objects that they read and return."""

    name: str
    operations: list[Operation] = field(default_factory=list)
    objects: list[ApiObject] = field(default_factory=list)

    @property
    def url(self) -> str:
        return reverse("help_resource", args=[self.name])


class Drawing:
    """Draws the parts of one description."""

    def __init__(self, description: Schema) -> None:
        self.components: Schema = description["components"]

    def resolved(self, schema: Schema) -> Schema:
        """Return what a reference refers to; anything else unchanged."""
        while "$ref" in schema:
            part, name = schema["$ref"].removeprefix(REFERENCE).split("/")
            schema = self.components[part][name]
        return schema

    def name_of(self, schema: Schema) -> str:
        """Return the name of the object that a schema is, "" for a simple value."""
        name: str = schema.get("$ref", "").rpartition("/")[2]
        return name if name and "properties" in self.resolved(schema) else ""

    def kind(self, schema: Schema) -> SafeString:
        """Return the type of a value in words; an object is a link to its table."""
        if name := self.name_of(schema):
            return format_html('<a class="dg-link" href="#{}">{}</a>', name, name)
        schema = self.resolved(schema)
        if parts := [part for key in ("oneOf", "anyOf", "allOf") for part in schema.get(key, ())]:
            kinds = [self.kind(part) for part in parts if not self.is_null(part)]
            return self._or_null(format_html_join(" or ", "{}", ((kind,) for kind in kinds)), schema)
        if choices := [value for value in schema.get("enum", ()) if value not in ("", None)]:
            return self._or_null(
                format_html_join(", ", "<code>{}</code>", ((value,) for value in choices)), schema
            )
        if self.one_type(schema) == "array":
            return self._or_null(format_html("list of {}", self.kind(schema["items"])), schema)
        key = (self.one_type(schema), schema.get("format", ""))
        return self._or_null(format_html("{}", SIMPLE.get(key) or SIMPLE.get((key[0], ""), "text")), schema)

    def _or_null(self, kind: SafeString, schema: Schema) -> SafeString:
        parts = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
        types = schema.get("type")
        may_be = "null" in types if isinstance(types, list) else any(self.is_null(part) for part in parts)
        return format_html("{}, or null", kind) if may_be else kind

    def is_null(self, schema: Schema) -> bool:
        """Return whether a schema is of null alone."""
        schema = self.resolved(schema)
        return schema.get("type") == "null" or schema.get("enum") == [None]

    def one_type(self, schema: Schema) -> str:
        """Return the type of a value other than null."""
        types = schema.get("type", "object")
        return next((one for one in types if one != "null"), "null") if isinstance(types, list) else types

    def fields(self, schema: Schema) -> list[Field]:
        schema = self.resolved(schema)
        needed = schema.get("required", ())
        return [
            Field(name, self.kind(part), words(part), name in needed)
            for name, part in schema.get("properties", {}).items()
        ]

    def operation(self, path: str, method: str, described: Schema) -> Operation:
        parameters = [
            Field(
                each["name"], self.kind(each["schema"]), words(each), each.get("required", False), each["in"]
            )
            for each in described.get("parameters", ())
        ]
        body = content(described.get("requestBody", {}))
        answers = [
            (status, self.kind(content(answer)) if content(answer) else SafeString(""))
            for status, answer in described["responses"].items()
            if status < "400"
        ]
        refusals = [
            (status, str(self.resolved(answer)["description"]))
            for status, answer in described["responses"].items()
            if status >= "400"
        ]
        anchor = described["operationId"].replace("_", "-")
        return Operation(
            method.upper(), path, anchor, words(described), parameters, self.fields(body), answers, refusals
        )

    def objects_in(self, schema: Any) -> Iterator[str]:
        """Yield the names of the objects that a schema mentions, directly or through others, each once."""
        seen: set[str] = set()
        waiting = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                waiting += reversed(part)
            elif isinstance(part, Mapping) and "$ref" in part:
                name = part["$ref"].rpartition("/")[2]
                if name not in seen:
                    seen.add(name)
                    waiting.append(self.components["schemas"][name])
                    if self.name_of(part):
                        yield name
            elif isinstance(part, Mapping):
                waiting += [
                    value for value in reversed(list(part.values())) if isinstance(value, Mapping | list)
                ]


def content(part: Schema) -> Schema:
    """Return the schema of a body; {} without one."""
    bodies = list(part.get("content", {}).values())
    return bodies[0].get("schema", {}) if bodies else {}


def words(part: Schema) -> SafeString:
    """Return a description without the list of choices, which the type names."""
    return formatted(CHOICE.sub("", part.get("description", "")).strip())


@cache
def resources() -> dict[str, ReferencePage]:
    """Return every resource of the API by its name."""
    whole = description()
    drawing = Drawing(whole)
    found: dict[str, ReferencePage] = {}
    mentioned: dict[str, list[Schema]] = {}
    for path, item in whole["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            described = item[method]
            (name,) = described["tags"]
            found.setdefault(name, ReferencePage(name)).operations.append(
                drawing.operation(path, method, described)
            )
            answers = [content(answer) for status, answer in described["responses"].items() if status < "400"]
            body = drawing.resolved(content(described.get("requestBody", {})))
            mentioned.setdefault(name, []).extend([*answers, *body.get("properties", {}).values()])
    for name, schemas in mentioned.items():
        for each in drawing.objects_in(schemas):
            schema = whole["components"]["schemas"][each]
            found[name].objects.append(ApiObject(each, words(schema), drawing.fields(schema)))
    return dict(sorted(found.items()))


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Show every operation of the API with its first sentence."""
    return render(request, "help/reference.html", {"resources": resources().values(), "chapters": contents()})


@require_safe
def resource(request: HttpRequest, name: str) -> HttpResponse:
    """Show the operations of one resource with their parameters, bodies and answers."""
    shown = resources().get(name)
    if shown is None:
        raise Http404(f"The API has no resource “{name}”.")
    return render(request, "help/resource.html", {"resource": shown, "resources": resources().values()})
