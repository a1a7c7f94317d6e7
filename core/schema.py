"""
The OpenAPI schema: statuses of refusals, and the Idempotency-Key of writes.

Most statuses follow from the operation: its permissions, parameters and path. An operation or its view
declares others with `@refuses(409)`.
"""

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent, force_instance
from drf_spectacular.utils import OpenApiParameter

from core import idempotency
from core.conditional import IF_MATCH, IF_NONE_MATCH
from core.problems import MEDIA_TYPE
from core.scopes import Scope, declared_scope

PRINTABLE = "^[ -~\u00a1-\u00ac\u00ae-\u00ff]*$"  # of what a header can hold


def key(description: str) -> OpenApiParameter:
    """Return the header of a write with an Idempotency-Key."""
    kind = {"type": "string", "maxLength": idempotency.MAX_KEY_LENGTH, "pattern": PRINTABLE}
    return OpenApiParameter(idempotency.HEADER, kind, OpenApiParameter.HEADER, description=description)


KEY = key("A repeated request with the same key within a day is executed once and gets the same response.")
ETAG_HEADER = {"ETag": {"schema": {"type": "string"}, "description": "Names this content"}}
UNLESS = OpenApiParameter(
    IF_NONE_MATCH, str, OpenApiParameter.HEADER, description="An ETag: 304 while it is that of the answer."
)
ONLY_IF = OpenApiParameter(
    IF_MATCH,
    str,
    OpenApiParameter.HEADER,
    description="The ETag of the object as you have read it: 412 if it has changed since.",
)
VERBS = {
    "GET": "retrieve",
    "POST": "create",
    "PUT": "update",
    "PATCH": "partial_update",
    "DELETE": "destroy",
}
WRITES = VERBS.keys() - {"GET"}
SENTENCE_END = re.compile(r"\.(?:\s|$)")
TEXT = {"type": "string"}
PROBLEM = {
    "type": "object",
    "description": "An error (RFC 9457). It may have additional members, such as numbers.",
    "properties": {
        "type": {**TEXT, "format": "uri", "description": "The section of the help about `code`"},
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {**TEXT, "description": "The message, as on the pages"},
        "code": {**TEXT, "description": "Stable, for programs"},
        "instance": {**TEXT, "description": "The path of the request"},
        "request_id": {**TEXT, "description": "As in the header X-Request-ID, and in the log of the portal"},
        "errors": {
            "type": "array",
            "description": "The fields of a malformed request",
            "items": {
                "type": "object",
                "properties": {"field": {**TEXT, "description": "As a.b.0"}, "message": TEXT, "code": TEXT},
                "required": ["field", "message", "code"],
            },
        },
        "retry_after": {"type": "integer", "minimum": 0, "description": "Seconds; of 429"},
    },
    "required": ["type", "title", "status", "detail", "code", "instance", "request_id"],
}
MEANING = {
    400: "There is no token yet, or none any more; `code` and `error` say which (RFC 8628).",
    401: "Nobody is signed in, or the token is unknown, expired or revoked.",
    403: (
        "Your role or the scopes of your token do not allow this, or a write with a session came without its "
        "CSRF token."
    ),
    404: "Not found, or you do not have access.",
    406: "The requested media type is not available.",
    412: "The object is not as `If-Match` names it: it has changed since.",
    409: "Conflict: already taken, used up, or changed in the meantime.",
    413: "The body is too large.",
    415: "The body has a media type other than application/json.",
    422: "The request is malformed, has an unknown parameter, or refers to something that does not exist.",
    429: "Too many requests; try again after the given seconds.",
    502: "The cluster refused what the portal asked of it.",
    503: "The cluster, or the database of the portal, does not respond now.",
}
HEADERS = {
    401: {"WWW-Authenticate": {"schema": TEXT, "required": True}},
    429: {"Retry-After": {"schema": {"type": "integer", "minimum": 0}, "required": True}},
}


def refuses[T: Callable[..., Any]](*statuses: int) -> Callable[[T], T]:
    """Declare more statuses of an operation, or of all operations of a view."""
    unknown = set(statuses) - MEANING.keys()
    if unknown:
        raise ValueError(f"No description for status {sorted(unknown)}.")

    def declared(of: T) -> T:
        of.refuses = frozenset(statuses)  # type: ignore[attr-defined]
        return of

    return declared


class Schema(AutoSchema):
    """
    `is_keyed` of a view means that its POST honors the Idempotency-Key.

    Names, tags and summaries follow from address, method and docstring: operations do not choose them.
    """

    def get_operation_id(self) -> str:
        """Return the words of the address and the verb of the method, which an action has in its address."""
        words = "_".join(self._tokenize_path() or ("resources",)).replace("-", "_")
        if self.method == "POST" and not self._reads():
            return words
        is_page = self.method == "GET" and self._is_list_view()
        return f"{words}_{'list' if is_page else VERBS[str(self.method)]}"

    def get_summary(self) -> str:
        return SENTENCE_END.split(self.get_description(), maxsplit=1)[0].replace("\n", " ")

    def get_description(self) -> str:  # type: ignore[override]
        """Return the docstring; that of a view speaks of its list, so that of one object says so before."""
        view: Any = self.view
        text: str = super().get_description()
        if getattr(view, "action", "") == "retrieve" and not view.retrieve.__doc__:
            answer = force_instance(self.get_response_serializers())  # type: ignore[no-untyped-call]
            name = type(answer).__name__.removesuffix("Out").removesuffix("Detail")
            text = f"Read one {re.sub(r'(?<=[a-z])(?=[A-Z])', ' ', name).lower()}. {text}"
        return text

    def _reads(self) -> bool:
        """Whether its address can be read."""
        actions = getattr(self.view, "action_map", None)
        return bool("get" in actions if actions else hasattr(self.view, "get"))

    def get_override_parameters(self) -> list[Any]:
        keyed = [KEY] if self.method == "POST" and getattr(self.view, "is_keyed", False) else []
        conditions = [UNLESS] if self.method == "GET" else [ONLY_IF] if self._is_conditional() else []
        return [*super().get_override_parameters(), *keyed, *conditions]

    def _is_conditional(self) -> bool:
        """Whether it writes an object that can be read: at its address, or at that of an action."""
        view: Any = self.view
        if self.method in ("PUT", "PATCH", "DELETE"):
            return self._reads() or hasattr(view, "retrieve")
        handler = getattr(view, getattr(view, "action", None) or "post", None)
        return bool(getattr(handler, "detail", False)) and hasattr(view, "retrieve")

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is not None:
            for status in sorted({*self._refusals(operation)}):
                operation["responses"][str(status)] = self._problem(status)
            self._describe_conditions(operation)
            if self.view.authentication_classes:
                needed = declared_scope(self.view, self.method) or Scope.ADMIN
                operation["x-required-scope"] = needed.value
                described = operation.get("description", "")
                operation["description"] = f"{described}\n\nScope of the token: `{needed}`.".strip()
        return operation

    def _refusals(self, operation: dict[str, Any]) -> Iterator[int]:
        parameters = operation.get("parameters", [])
        yield from (406, 422)  # of every operation: an unknown parameter
        if self.view.authentication_classes:
            yield 401
        if self.view.throttle_classes:
            yield 429
        if self.method in WRITES:
            yield 403
        if any(parameter["in"] == "path" for parameter in parameters):
            yield 404
        if "requestBody" in operation:
            yield from (413, 415)
        if any(parameter["name"] == idempotency.HEADER for parameter in parameters):
            yield 409
        if any(parameter["name"] == IF_MATCH for parameter in parameters):
            yield 412
        handler = getattr(self.view, getattr(self.view, "action", None) or self.method.lower(), None)
        for declared in (handler, self.view):
            yield from getattr(declared, "refuses", ())

    def _describe_conditions(self, operation: dict[str, Any]) -> None:
        found = operation["responses"].get("200")
        if self.method == "GET" and found is not None:
            found.setdefault("headers", {}).update(ETAG_HEADER)
            operation["responses"]["304"] = self._component(
                "NotModified",
                ResolvedComponent.RESPONSE,
                {"description": "You have this content: its ETag is among those of If-None-Match."},
            )

    def _problem(self, status: int) -> dict[str, str]:
        """Return a reference to the response, which is a component."""
        self._component("Problem", ResolvedComponent.SCHEMA, PROBLEM)
        return self._component(
            HTTPStatus(status).phrase.title().replace(" ", ""),
            ResolvedComponent.RESPONSE,
            {
                "description": MEANING[status],
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                **({"headers": HEADERS[status]} if status in HEADERS else {}),
            },
        )

    def _component(self, name: str, kind: str, description: dict[str, Any]) -> dict[str, str]:
        same = ComponentIdentity(name)  # type: ignore[no-untyped-call]
        component = ResolvedComponent(name, kind, description, same)  # type: ignore[no-untyped-call]
        self.registry.register_on_missing(component)
        reference: dict[str, str] = component.ref
        return reference
