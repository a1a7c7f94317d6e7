"""
Sparse responses: `?fields=id,state` leaves only these members of an object, or of each object of a list.

Every GET that answers with JSON takes it. A view whose serializer is made with the names of `wanted` does not
read what the others need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.http import QueryDict
from drf_spectacular.plumbing import force_instance
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from core.errors import Invalid

NAME = "fields"
ALWAYS = ("next", "previous", "count")  # around the rows of a page
_known: dict[tuple[type, str], frozenset[str]] = {}


def wanted(query: QueryDict) -> frozenset[str] | None:
    """Return the names of the query, None if it has none: everything."""
    text = ",".join(query.getlist(NAME))
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    return names if NAME in query else None


def only_wanted[S: serializers.Serializer[Any]](serializer: S, request: Request) -> S:
    """Return the serializer without the fields that the query leaves out: nothing is read for them."""
    names = wanted(request.query_params)
    if names is not None:
        for name in set(serializer.fields) - names:
            serializer.fields.pop(name)
    return serializer


def pruned(data: Any, names: Collection[str]) -> Any:
    """Return an object with these members, or a list or page of such objects."""
    if isinstance(data, list):
        return [pruned(row, names) for row in data]
    if not isinstance(data, Mapping):
        return data
    if isinstance(data.get("results"), list) and data.keys() <= {*ALWAYS, "results"}:
        return {**data, "results": pruned(data["results"], names)}
    return {name: value for name, value in data.items() if name in names}


def described_fields(schema: Any) -> frozenset[str]:
    """Return the members of the objects that an operation answers with; none if that is no JSON object."""
    described: Any = schema.get_response_serializers()
    if isinstance(described, Mapping):
        described = next((one for status, one in described.items() if str(status).startswith("2")), None)
    found = force_instance(described)  # type: ignore[no-untyped-call]
    if isinstance(found, serializers.ListSerializer):
        found = found.child
    if not isinstance(found, serializers.Serializer):
        return frozenset()
    rows = found.fields.get("results")
    if isinstance(rows, serializers.ListSerializer):
        found = rows.child
    return frozenset(found.fields)


def described_method(request: Request) -> str:
    """Return the method under which the operation of a request is described: a HEAD is a GET."""
    return "GET" if request.method == "HEAD" else str(request.method)


def fields_of(view: Any, operation: str, request: Request) -> frozenset[str]:
    """Return the names that `?fields=` of an operation may have."""
    key = (type(view), operation)
    if key not in _known:
        handler = getattr(view, operation)
        schema = getattr(handler, "kwargs", {}).get("schema", type(view.schema))()
        schema.view, schema.method = view, described_method(request)
        _known[key] = described_fields(schema)
    return _known[key]


def require_known(view: Any, operation: str, request: Request) -> None:
    """Raise Invalid for a name that no member has, with those that there are."""
    names = wanted(request.query_params)
    if names is None:
        return
    known = fields_of(view, operation, request)
    unknown = sorted(names - known)
    if unknown or not names:
        what = f"Unknown field {', '.join(unknown)}." if unknown else "No field is named."
        raise Invalid(f"{what} Known: {', '.join(sorted(known)) or 'none'}.", field=NAME)


def parameter(known: Collection[str]) -> OpenApiParameter:
    return OpenApiParameter(
        NAME,
        {"type": "array", "items": {"type": "string", "enum": sorted(known)}, "minItems": 1},
        description="Only these members, separated by commas; the others are missing from the answer.",
        style="form",
        explode=False,
    )


class SparseJSON(JSONRenderer):
    """JSON, pruned to the fields of the query; a problem document is not."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> Any:
        context = renderer_context or {}
        request, response = context.get("request"), context.get("response")
        if request is not None and request.method == "GET" and getattr(response, "status_code", 0) == 200:
            names = wanted(request.query_params)
            if names is not None:
                data = pruned(data, names)
        return super().render(data, accepted_media_type, renderer_context)
