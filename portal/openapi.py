"""
The description of the API as OpenAPI 3.1: what drf-spectacular makes, completed with examples.

docs/openapi.yaml has it for readers and generators of clients. `breaking_changes` says what of an earlier one
a client could rely on that is gone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import yaml
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.plumbing import resolve_type_hint
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from claims.states import ClaimState
from claims.webhook_events import BudgetData, ClaimData, ClaimStateData, ExtensionData, QuotaRequestData
from core.schema import TEXT
from notify.webhooks.kinds import EventKind
from notify.webhooks.services import MessageData
from portal.api_root import RESOURCES
from usage.alerts.services import AlertData

FILE: Path = settings.BASE_DIR / "docs" / "openapi.yaml"
EXAMPLES = Path(__file__).with_name("openapi_examples.json")
METHODS = ("get", "post", "put", "patch", "delete")
TAGS = {
    "resources": "What there is.",
    "login": "Sign in a program that has no token yet.",
    "waste": "Devices that cost money and do little.",
} | {one.name: one.description for one in RESOURCES if "/" not in one.name and one.name != "schema"}
EVENT_DATA: Mapping[EventKind, type] = {
    **{EventKind(f"claim.{state}"): ClaimStateData for state in ClaimState},
    EventKind.CLAIM_EXPIRING: ClaimData,
    EventKind.EXTENSION_REQUESTED: ExtensionData,
    EventKind.EXTENSION_DECIDED: ExtensionData,
    EventKind.QUOTA_REQUESTED: QuotaRequestData,
    EventKind.QUOTA_DECIDED: QuotaRequestData,
    EventKind.BUDGET_USED: BudgetData,
    EventKind.ALERT_OPENED: AlertData,
    EventKind.TEST: MessageData,
}
MESSAGE_HEADERS = {
    "webhook-id": "The same each time one event is sent.",
    "webhook-timestamp": "When it was sent, in seconds since 1970.",
    "webhook-signature": "`v1,` and the signature; two while a secret is replaced.",
}
MAKING = Lock()  # drf-spectacular loads its extensions while it makes the first description

type Json = dict[str, Any]


@cache
def examples() -> Json:
    """Return a request and a response of each operation, which tests/api has recorded in the demo."""
    return dict(json.loads(EXAMPLES.read_text())) if EXAMPLES.is_file() else {}


def complete(result: Json, **_spectacular: Any) -> Json:
    """Add the examples, and write what may be null as JSON Schema does; drf-spectacular calls it."""
    for path, item in result["paths"].items():
        for method in METHODS:
            if method in item:
                _add_example(item[method], examples().get(f"{method.upper()} {path}", {}))
                _close(item[method].get("requestBody", {}), result["components"]["schemas"])
    result["tags"] = [{"name": name, "description": text} for name, text in sorted(TAGS.items())]
    result["webhooks"] = {}
    for kind in EventKind:
        result["webhooks"][kind.value] = {"post": _message(kind, result["components"]["schemas"])}
    completed: Json = without_nullable(result)
    return completed


def _message(kind: EventKind, schemas: Json) -> Json:
    """Return the request that a receiver of this kind gets, and add what its `data` is."""
    data = EVENT_DATA[kind]
    described: Json = resolve_type_hint(data)  # type: ignore[no-untyped-call]
    schemas[data.__name__] = {**described, "required": sorted(described.get("required", ()))}
    members = {
        "type": {**TEXT, "const": kind.value},
        "timestamp": {**TEXT, "format": "date-time"},
        "data": {"$ref": f"#/components/schemas/{data.__name__}"},
    }
    content = {"schema": {"type": "object", "properties": members, "required": list(members)}}
    return {
        "operationId": f"on_{kind.name.lower()}",
        "summary": kind.label,
        "description": f"{kind.label}. Check `webhook-signature` (Standard Webhooks) before you read it.",
        "tags": ["webhooks"],
        "parameters": [
            {"name": name, "in": "header", "required": True, "schema": TEXT, "description": text}
            for name, text in MESSAGE_HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {"2XX": {"description": "Taken; anything else is sent again."}},
    }


def _close(part: Any, schemas: Json) -> None:
    """Say of every object of a request body that it has no other members (`core.inputs.Input`)."""
    if isinstance(part, list):
        for one in part:
            _close(one, schemas)
    elif isinstance(part, dict):
        named = schemas.get(str(part.get("$ref", "")).rpartition("/")[2])
        if named is not None and "additionalProperties" not in named and "properties" in named:
            named["additionalProperties"] = False
            _close(named["properties"], schemas)
        for value in part.values():
            _close(value, schemas)


def _add_example(operation: Json, example: Mapping[str, Any]) -> None:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        if "request" in example:
            content["example"] = example["request"]
    answer = operation["responses"].get(str(example.get("status")), {})
    for media_type, content in answer.get("content", {}).items():
        if "response" in example and media_type == "application/json":
            content["example"] = example["response"]


def without_nullable(part: Any) -> Any:
    """Return a part of a description in which null is a type, as since OpenAPI 3.1."""
    if isinstance(part, list):
        return [without_nullable(one) for one in part]
    if not isinstance(part, dict):
        return part
    part = {name: without_nullable(value) if name != "example" else value for name, value in part.items()}
    if part.get("default") == "" and ("" not in part.get("enum", [""]) or part.get("minLength")):
        del part["default"]  # of the code, for what was left out; nobody may send it
    if isinstance(part.get("oneOf"), list):  # drf-spectacular says of some twice that they may be null
        part["oneOf"] = [one for number, one in enumerate(part["oneOf"]) if one not in part["oneOf"][:number]]
    if part.get("nullable") is True and not isinstance(part.get("properties"), dict):
        part.pop("nullable")
        if isinstance(part.get("type"), str):
            part["type"] = [part["type"], "null"]
        elif "$ref" in part:
            part["oneOf"] = [{"$ref": part.pop("$ref")}, {"type": "null"}]
    return part


def description() -> Json:
    with MAKING:
        made: Json = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return dict(json.loads(json.dumps(made, default=str)))


@cache
def rendered(media_type: str) -> Any:
    """Return the description as drf-spectacular writes it, which takes seconds: once."""
    described = description()
    if settings.PORTAL_URL:
        described["servers"] = [{"url": settings.PORTAL_URL}]
    renderers = (one for one in SpectacularAPIView.renderer_classes if one.media_type == media_type)
    return next(renderers)().render(described, renderer_context={})


class DescriptionView(SpectacularAPIView):
    """The description for programs, as YAML or JSON. Everybody may read it, before they have a token."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *_args: Any, **_kwargs: Any) -> HttpResponse:
        renderer = request.accepted_renderer
        return HttpResponse(rendered(renderer.media_type), content_type=renderer.media_type)


def as_text(described: Json) -> str:
    head = "# The API of Dragoman. Written by `manage.py openapi`; do not edit.\n"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return head + yaml.dump(described, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)


def stored() -> Json:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load(FILE.read_text(), Loader=loader))  # noqa: S506, a safe loader


# What a client relies on.


def breaking_changes(old: Json, new: Json) -> list[str]:
    """Return what is in `old` and not in `new`, or asks for more, by operation; empty if clients go on."""
    return [*_Comparison(old, new).operations()]


class _Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self.old, self.new = old, new
        self.compared: set[tuple[str, str, bool]] = set()

    def operations(self) -> Iterator[str]:
        there = {without_names(path): item for path, item in self.new["paths"].items()}
        for path, item in self.old["paths"].items():
            for method in METHODS:
                if method not in item:
                    continue
                where, after = f"{method.upper()} {path}", there.get(without_names(path), {}).get(method)
                if after is None:
                    yield f"{where}: removed"
                else:
                    yield from self.operation(where, item[method], after)

    def operation(self, where: str, before: Json, after: Json) -> Iterator[str]:
        yield from self.parameters(where, before, after)
        body, now = content(before.get("requestBody")), content(after.get("requestBody"))
        if now is not None:
            is_new = body is None and after.get("requestBody", {}).get("required")
            if is_new:
                yield f"{where}: needs a body now"
            if body is not None:
                yield from self.schemas(f"{where} body", body, now, is_sent=True)
        elif body is not None:
            yield f"{where}: takes no body any more"
        for status, answer in before["responses"].items():
            if status not in after["responses"]:
                yield f"{where}: status {status} removed"
                continue
            returned, then = content(answer), content(after["responses"][status])
            if returned is not None and then is None:
                yield f"{where} {status}: no body any more"
            elif returned is not None and then is not None:
                yield from self.schemas(f"{where} {status}", returned, then, is_sent=False)

    def parameters(self, where: str, before: Json, after: Json) -> Iterator[str]:
        old, new = (
            {(one["in"], one["name"]): one for one in each.get("parameters", ()) if one["in"] != "path"}
            for each in (before, after)
        )
        for key in old.keys() - new.keys():
            yield f"{where}: parameter {key[1]} removed"
        for key, one in new.items():
            if one.get("required") and not old.get(key, {}).get("required"):
                yield f"{where}: parameter {key[1]} is required now"
            if key in old:
                yield from self.schemas(f"{where} ?{key[1]}", old[key]["schema"], one["schema"], is_sent=True)

    def schemas(self, where: str, before: Json, after: Json, *, is_sent: bool) -> Iterator[str]:
        """Yield what narrows a value that is sent, or widens one that is returned."""
        key = (json.dumps(before, sort_keys=True), json.dumps(after, sort_keys=True), is_sent)
        if key in self.compared:
            return
        self.compared.add(key)
        before, after = resolved(self.old, before), resolved(self.new, after)
        yield from self._types(where, before, after, is_sent=is_sent)
        old, new = before.get("properties", {}), after.get("properties", {})
        for name in old.keys() - new.keys():
            yield f"{where}: field {name} removed"
        required, was = set(after.get("required", ())), set(before.get("required", ()))
        if is_sent:
            yield from (f"{where}: field {name} is required now" for name in sorted(required - was))
        else:
            gone = sorted((was - required) & set(new))
            yield from (f"{where}: field {name} may be missing now" for name in gone)
        for name in old.keys() & new.keys():
            yield from self.schemas(f"{where}.{name}", old[name], new[name], is_sent=is_sent)
        if "items" in before and "items" in after:
            yield from self.schemas(f"{where}[]", before["items"], after["items"], is_sent=is_sent)

    def _types(self, where: str, before: Json, after: Json, *, is_sent: bool) -> Iterator[str]:
        old, new = kinds(self.old, before), kinds(self.new, after)
        if old and new:
            lost = old - new if is_sent else new - old
            lost -= {"integer"} if is_sent and "number" in new else set()
            if lost:
                yield f"{where}: {'no longer takes' if is_sent else 'may be'} {', '.join(sorted(lost))}"
        if is_sent and "enum" in before and "enum" in after:
            gone = [value for value in before["enum"] if value not in after["enum"]]
            yield from (f"{where}: value {value!r} removed" for value in gone)
        for limit, narrower in (("maxLength", min), ("maximum", min), ("minLength", max), ("minimum", max)):
            was, now = before.get(limit), after.get(limit)
            if is_sent and now is not None and (was is None or (now != was and narrower(now, was) == now)):
                yield f"{where}: {limit} {was} → {now}"


def without_names(path: str) -> str:
    """Return a path without the names of its parameters, which no request contains."""
    return re.sub(r"{\w+}", "{}", path)


def content(part: Json | None) -> Json | None:
    """Return the schema of a body, None without one."""
    bodies = list((part or {}).get("content", {}).values())
    return bodies[0].get("schema", {}) if bodies else None


def resolved(described: Json, schema: Json) -> Json:
    while "$ref" in schema:
        part: Any = described
        for name in schema["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        schema = part
    return schema


def kinds(described: Json, schema: Json) -> set[str]:
    """Return the types that a value may have; none if anything is allowed."""
    found = schema.get("type")
    if isinstance(found, str):
        return {found}
    if isinstance(found, list):
        return set(found)
    parts = [
        resolved(described, part) for name in ("oneOf", "anyOf", "allOf") for part in schema.get(name, ())
    ]
    return {kind for part in parts for kind in kinds(described, part)}
