"""
Middleware: requests have an id, refusals become pages, one person's requests are limited, API addresses get
their slash, and caches keep users and fragments apart.
"""

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from uuid import uuid4

import rest_framework.views  # noqa: F401 - before core.problems, which its settings name
import structlog
from django.conf import settings
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.shortcuts import render
from django.utils.cache import patch_cache_control, patch_vary_headers

from core.errors import PortalError, data_error_refusal
from core.problems import problem
from core.rates import incremented, parse_rate
from core.text import TURNS, written
from core.transactions import saved

REQUEST_ID = "X-Request-ID"
REQUEST_ID_META = "HTTP_X_REQUEST_ID"  # where django-structlog reads it
SOUND_ID = re.compile(r"[A-Za-z0-9._=+/-]{1,64}")  # nothing that a log or a header could be misread by


class RequestIdMiddleware:
    """
    Give each request an id: that of `X-Request-ID` if a proxy or client has sent a sound one, or a new one.

    It stands in every line that is logged meanwhile, in the response, in problem documents and in the audit
    log; tasks queued meanwhile log it too (`portal.celery`), and API servers of clusters get it as Audit-ID.
    django-structlog reads it again from the header (DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.META.get(REQUEST_ID_META, "")
        request_id = sent if SOUND_ID.fullmatch(sent) else uuid4().hex
        request.META[REQUEST_ID_META] = request_id
        request.request_id = request_id  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(
            request_id=request_id
        )  # also for what answers before structlog's
        saved.set("")
        response = self.get_response(request)
        structlog.contextvars.clear_contextvars()
        response[REQUEST_ID] = request_id
        return response


class PortalErrorMiddleware:
    """
    Make pages of refusals, and of opening an address that only receives forms, as a reload does.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not isinstance(response, HttpResponseNotAllowed) or request.path.startswith("/api/"):
            return response
        page = render(request, "405.html", status=response.status_code)
        page["Allow"] = response["Allow"]
        return page

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        refusal = data_error_refusal(exception) if isinstance(exception, DataError) else exception
        if not isinstance(refusal, PortalError):
            return None
        return render(request, "error.html", {"error": refusal}, status=refusal.status)


TURNS_IN_UTF8 = re.compile("|".join(sorted(TURNS)).encode())


class StraightTextMiddleware:
    """Leave out of pages what turns the direction of a text: it would turn the words behind it too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not response.streaming and response.headers.get("Content-Type", "").startswith("text/html"):
            response.content = TURNS_IN_UTF8.sub(b"", response.content)
        return response


class PageRateMiddleware:
    """
    Limit the requests to pages of each person (`PAGE_RATE`); the API has its own limit (`API_RATE`).

    The cache counts in windows of fixed length; nothing is limited while it is away.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.most, self.seconds = parse_rate(settings.PAGE_RATE)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], *_arguments: object
    ) -> HttpResponse | None:
        if request.path.startswith("/api/") or not request.user.is_authenticated:
            return None
        window, elapsed = divmod(time.time(), self.seconds)
        key = f"pages:{request.user.pk}:{window:.0f}"
        if incremented(key, 2 * self.seconds) <= self.most:
            return None
        wait = int(self.seconds - elapsed) + 1
        sentence = (
            f"The limit is {self.most:,} requests in {self.seconds} s for each person. Nothing was changed. "
            f"Try again in {wait} s."
        )
        response = render(request, "429.html", {"sentence": sentence}, status=HTTPStatus.TOO_MANY_REQUESTS)
        response["Retry-After"] = str(wait)
        return response


class WrittenTextMiddleware:
    """Read the texts of forms as people wrote them (`core.text.written`); `core.inputs` does so for JSON."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_view: object) -> None:
        if request.method != "POST" or request.path.startswith("/api/"):
            return
        sent = {name: [*map(written, values)] for name, values in request.POST.lists()}
        if sent != dict(request.POST.lists()):
            texts = QueryDict(mutable=True)
            for name, values in sent.items():
                texts.setlist(name, values)
            texts._mutable = False
            request.POST = texts  # type: ignore[assignment]


class HttpsRequired(PortalError):
    """A program sent a request over HTTP: 403."""

    code = "https-required"
    status = HTTPStatus.FORBIDDEN


class ApiOverHttpsMiddleware:
    """
    Refuse what programs send over HTTP, where pages are redirected: a program would follow each time, and
    send its token in the clear each time.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_view: object) -> HttpResponse | None:
        is_program = request.path_info.startswith(("/api/", "/scim/"))
        if not is_program or not settings.SECURE_SSL_REDIRECT or request.is_secure():
            return None
        sentence = "Send it over HTTPS. Replace the token, if there was one: others may have read it."
        return problem(request, HttpsRequired.status, HttpsRequired.code, sentence)


class ApiSlashMiddleware:
    """
    Read `/api/v1/claims` as `/api/v1/claims/`.

    Django would redirect, and a redirected POST loses its body; clients often omit the slash.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/") and not request.path_info.endswith("/"):
            request.path_info += "/"
        return self.get_response(request)


class CachingMiddleware:
    """
    Keep responses apart in caches: those of each user, and a fragment from the page at the same address.

    Without it a browser that goes back would show a fragment of htmx as the page.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request"])
        failed = response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR  # perhaps for want of a database
        if not failed and not response.has_header("Cache-Control") and request.user.is_authenticated:
            patch_cache_control(response, private=True)
        return response
