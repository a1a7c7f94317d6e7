"""
Conditional requests (RFC 9110 §13): ETag and If-None-Match of what is read, If-Match of what is written.

The ETag of a response is the start of the SHA-256 of its body; a view that knows the version of its object
sets its own before the work is done. A view names the members of its objects that change by themselves,
such as free devices, as `volatile`: its ETags have a part without them, and If-Match compares that part.

`If-Match` compares with the ETag that a GET has now: of the same address, or of the object that an action is
about. Where an ETag has a version, services compare it again once the row is locked (`require_expected`), so
nothing changes in between; elsewhere one of two writes at once with the same ETag is refused (`_mark`), while
the cache is there. A weak tag counts as its strong one, since proxies that compress weaken tags.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, QueryDict
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import Resolver404, resolve
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from core.errors import PortalError

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"
TAG = re.compile(r'"[^"\x00-\x20]*"')
VERSIONED = re.compile(r'"v(\d+)-')
KEPT = ("Cache-Control", "Content-Location", "ETag", "Expires", "Last-Modified", "Vary")  # RFC 9110 §15.4.5


class Changed(PortalError):
    """The object is not as the client has read it: 412."""

    code = "changed"
    status = 412
    title = "It has changed since you read it"


_expected: ContextVar[tuple[str, int] | None] = ContextVar("expected", default=None)
# In the cache: the object that this request writes, with each ETag that it expects.
_marks: ContextVar[tuple[str, ...]] = ContextVar("marks", default=())
LONGEST_WRITE = 60  # seconds; gunicorn stops a request before


def require_expected(key: object, version: int) -> None:
    """Raise Changed if this request expects another version of the object with this key."""
    expected = _expected.get()
    if expected is not None and expected[0] == str(key) and expected[1] != version:
        raise Changed(f"It has changed meanwhile: version {version} instead of {expected[1]}. Read it again.")


def tags_in(header: str) -> set[str]:
    """Return the tags of If-Match or If-None-Match, without W/; "*" is one of them."""
    return {"*"} if header.strip() == "*" else set(TAG.findall(header))


def version_tag(version: int, *parts: object) -> str:
    """Return the ETag of an object with a version; `parts` are what else its body depends on."""
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return f'"v{version}-{digest}"'


def body_tag(response: HttpResponse) -> str:
    """Return the ETag of a body, `"lasting.whole"` where a view names members that change by themselves."""
    whole = hashlib.sha256(response.content).hexdigest()[:32]
    context: Mapping[str, Any] = getattr(response, "renderer_context", None) or {}
    volatile: Collection[str] = getattr(context.get("view"), "volatile", ())
    data = getattr(response, "data", None)
    if not volatile or not isinstance(data, Mapping):
        return f'"{whole}"'
    lasting = {name: value for name, value in data.items() if name not in volatile}
    text = json.dumps(lasting, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{whole}"'


def lasting_part(tag: str) -> str:
    return tag.partition(".")[0].strip('"')


def matches(request: HttpRequest | Request, etag: str) -> bool:
    """Return whether the client has this representation already."""
    tags = tags_in(request.headers.get(IF_NONE_MATCH, ""))
    return bool(tags & {"*", etag})


def not_modified(etag: str, like: HttpResponseBase | None = None) -> HttpResponse:
    answer = HttpResponseNotModified()
    for name in KEPT:
        if like is not None and name in like.headers:
            answer[name] = like[name]
    answer["ETag"] = etag
    return answer


class ConditionalMiddleware:
    """Gives each GET of the API its ETag, and answers 304 where the client has it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith("/api/"):
            return self.get_response(request)
        before, none = _expected.set(None), _marks.set(())
        try:
            response = self.get_response(request)
        finally:
            if marks := _marks.get():
                cache.delete_many(marks)
            _marks.reset(none)
            _expected.reset(before)
        if response.status_code == 201 and (place := location_of(request, response)):
            response.headers.setdefault("Location", place)
        if request.method not in ("GET", "HEAD") or response.status_code != 200 or response.streaming:
            return response
        if "ETag" not in response.headers:
            response["ETag"] = body_tag(response)
        etag = response["ETag"]
        return not_modified(etag, response) if matches(request, etag) else response


class Unchanged(BasePermission):
    """Refuses a write whose If-Match names another representation than the present one."""

    def has_permission(self, request: Request, view: Any) -> bool:
        sent = request.headers.get(IF_MATCH, "")
        if not sent or request.method in SAFE_METHODS or not request.user.is_authenticated:
            return True
        tags = tags_in(sent)
        path = path_of_object(request)
        if path is None:
            raise Changed("This address has no ETag. Send the request without If-Match.")
        _mark(path, tags - {"*"})
        response = current(request, path)
        if response.status_code != 200 or response.streaming:
            return True  # the write is refused for the same reason
        etag = response.headers.get("ETag") or body_tag(response)
        if "*" not in tags and lasting_part(etag) not in {lasting_part(tag) for tag in tags}:
            raise Changed(
                "It has changed since you read it. Read it again, and send its new ETag.", etag=etag
            )
        if (version := VERSIONED.match(etag)) and "*" not in tags:
            _expected.set((str(view.kwargs.get("pk", "")), int(version[1])))
        return True


def _mark(path: str, tags: Collection[str]) -> None:
    """Mark what this request expects of an object, until it ends. Raises Changed if another one does."""
    for tag in tags:
        mark = f"write:{hashlib.sha256(f'{path} {lasting_part(tag)}'.encode()).hexdigest()}"
        if not cache.add(mark, 1, LONGEST_WRITE):
            raise Changed("Another request with this ETag is changing it at this moment. Read it again.")
        _marks.set((*_marks.get(), mark))


def path_of_object(request: Request) -> str | None:
    """Return the address of the object of a write that a GET reads; None if there is none."""
    parent = request.path.rstrip("/").rpartition("/")[0] + "/"
    return next((path for path in (request.path, parent) if _is_read(path)), None)


def _is_read(path: str) -> bool:
    try:
        found = resolve(path)
    except Resolver404:
        return False
    view, actions = getattr(found.func, "cls", None), getattr(found.func, "actions", None)
    return view is not None and ("get" in actions if actions else hasattr(view, "get"))


def location_of(request: HttpRequest, response: Any) -> str | None:
    """Return where what a POST has created is read: at its own address, else in the list; None without."""
    field = getattr(response.renderer_context["view"], "lookup_field", "pk")
    made = response.data if isinstance(response.data, Mapping) else {}
    key = made.get("id" if field == "pk" else field, "")
    return next((path for path in (f"{request.path}{key}/", request.path) if _is_read(path)), None)


def current(request: Request, path: str) -> HttpResponse:
    """Return what a GET of an address answers now."""
    found = resolve(path)
    response: HttpResponse = found.func(_reading(request, path), *found.args, **found.kwargs)
    if isinstance(response, SimpleTemplateResponse):  # as DRF's are
        response.render()
    return response


def _reading(request: Request, path: str) -> HttpRequest:
    """Return a GET by the same person, which no limit counts."""
    reading = copy.copy(request._request)
    without = (
        "HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IDEMPOTENCY_KEY", "CONTENT_TYPE", "CONTENT_LENGTH"
    )  # fmt: skip
    reading.META = {name: value for name, value in request._request.META.items() if name not in without}
    reading.META |= {"REQUEST_METHOD": "GET", "QUERY_STRING": "", "PATH_INFO": path}
    reading.method, reading.path, reading.path_info = "GET", path, path
    reading.GET = QueryDict()
    vars(reading).pop("headers", None)  # a cached property
    reading._force_auth_user = request.user  # type: ignore[attr-defined]
    reading._force_auth_token = request.auth  # type: ignore[attr-defined]
    reading.is_counted = True  # type: ignore[attr-defined]
    return reading
