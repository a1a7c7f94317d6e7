"""
From where the running code was asked to do something: a page, an API token, or nobody.

The middleware and the authentication of tokens say it once per request; what is recorded meanwhile reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from django.db import models
from django.http import HttpRequest, HttpResponse

from core.limits import limit_to_team


class Source(models.TextChoices):
    WEB = "web", "Web"
    TOKEN = "token", "API token"
    CLUSTER = "cluster", "Cluster"
    SYSTEM = "system", "System"


@dataclass(frozen=True, slots=True)
class Origin:
    """`via` is the title of an API token, "" for all else."""

    source: Source
    via: str = ""


SYSTEM = Origin(Source.SYSTEM)
_origin: ContextVar[Origin] = ContextVar("origin", default=SYSTEM)


def current_origin(*, by: object) -> Origin:
    """Return from where `by` acts now; what nobody did comes from the system, in a request too."""
    return SYSTEM if by is None else _origin.get()


def came_from(source: Source, via: str = "") -> None:
    """Say from where this request, or this program, acts: until the request ends."""
    _origin.set(Origin(source, via))


class OriginMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = _origin.set(Origin(Source.WEB))
        limit_to_team(None)
        try:
            return self.get_response(request)
        finally:
            _origin.reset(before)
            limit_to_team(None)
