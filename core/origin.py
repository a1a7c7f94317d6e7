"""
From where the running code was asked to do something: a page, an API token, or nobody.

The middleware and the authentication of tokens say it once per request; what is recorded meanwhile reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog
from celery import current_task
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from core.limits import limit_to_team


class Source(models.TextChoices):
    WEB = "web", "Web"
    TOKEN = "token", "API token"
    CLUSTER = "cluster", "Cluster"
    SYSTEM = "system", "System"


def client_address(request: HttpRequest) -> str | None:
    """
    Return the address of the client, behind as many proxies as `TRUSTED_PROXY_COUNT` says; None where a proxy
    does not say it. A link-local IPv6 address comes without its zone, which the database does not take.
    """
    try:
        found = import_string(settings.ACCOUNT_ADAPTER)(request).get_client_ip(request)
    except (ImproperlyConfigured, PermissionDenied):
        return None
    return str(found).partition("%")[0]


@dataclass(frozen=True, slots=True)
class Origin:
    """
    `via` is the title of an API token and `token` its first characters, both "" for all else; `provider` is
    the slug of the identity provider that writes with its token.
    """

    source: Source
    via: str = ""
    token: str = ""
    provider: str = ""
    request: HttpRequest | None = field(default=None, compare=False, repr=False)

    @property
    def address(self) -> str | None:
        """The address of the client; None outside a request too."""
        return None if self.request is None else client_address(self.request)

    @property
    def place(self) -> str:
        """
        The name of the address ("POST claims:approval"), the task ("claims.tasks.expire") or the command
        ("manage.py config"). An address itself may have a secret, such as the link of an invitation.
        """
        if self.request is not None:
            match = self.request.resolver_match
            return f"{self.request.method} {match.view_name if match else ''}".strip()
        if current_task:
            return str(current_task.name)
        return f"{Path(sys.argv[0]).name} {' '.join(sys.argv[1:2])}".strip()

    @property
    def request_id(self) -> str:
        """The id of this request, or of the one that queued this task; "" without one."""
        return current_request_id()


def current_request_id() -> str:
    """Return the id that every line of the log has now, "" if no request is behind it."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


SYSTEM = Origin(Source.SYSTEM)
_origin: ContextVar[Origin] = ContextVar("origin", default=SYSTEM)


def current_origin(*, by: object) -> Origin:
    """Return from where `by` acts now; what nobody did comes from the system, in a request too."""
    origin = _origin.get()
    return replace(SYSTEM, request=origin.request) if by is None and not origin.provider else origin


def current_person() -> Any:
    """Return who sent this request, signed in or not; None outside one."""
    return getattr(_origin.get().request, "user", None)


def came_from(source: Source, via: str = "", token: str = "", provider: str = "") -> None:
    """Say from where this request, or this program, acts: until the request ends."""
    _origin.set(replace(_origin.get(), source=source, via=via, token=token, provider=provider))


class OriginMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = _origin.set(Origin(Source.WEB, request=request))
        limit_to_team(None)
        try:
            return self.get_response(request)
        finally:
            _origin.reset(before)
            limit_to_team(None)
