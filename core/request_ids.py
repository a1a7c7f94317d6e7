"""
The id of each request: that of `X-Request-ID`, if a proxy or client has sent a sound one, else a new one.

It stands in every line that is logged meanwhile, in the response, and in problem documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

from django.http import HttpRequest, HttpResponse

HEADER = "X-Request-ID"
META = "HTTP_X_REQUEST_ID"  # where django-structlog reads it
SOUND = re.compile(r"[A-Za-z0-9._=+/-]{1,64}")  # nothing that a log or a header could be misread by


def request_id_of(request: object) -> str:
    """Return the id of a request of Django or DRF; "" before the middleware has seen it."""
    found = getattr(getattr(request, "_request", request), "request_id", "")
    return str(found)


class RequestIdMiddleware:
    """Goes before that of django-structlog, which binds the id to what is logged."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.META.get(META, "")
        request_id = sent if SOUND.fullmatch(sent) else uuid4().hex
        request.META[META] = request_id
        request.request_id = request_id  # type: ignore[attr-defined]
        response = self.get_response(request)
        response[HEADER] = request_id
        return response
