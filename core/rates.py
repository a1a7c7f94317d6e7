"""
Limits of requests to the API: of each person, of each token, and of each address that does not sign in.

Counted in windows of fixed length, all counts of a request in one round trip to Redis; nothing is limited
while it is away. Each response says what is left (draft-ietf-httpapi-ratelimit-headers-10).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from core.errors import PortalError
from core.origin import client_address

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """At most `quota` requests in `window` seconds of whoever `key` names; `name` is that of the policy."""

    name: str
    quota: int
    window: int
    key: str


@dataclass(frozen=True, slots=True)
class Count:
    """What a limit has left, and after how many seconds it begins again."""

    limit: RequestLimit
    used: int
    reset: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit.quota - self.used)

    @property
    def is_exceeded(self) -> bool:
        return self.used > self.limit.quota


def parse_rate(rate: str) -> tuple[int, int]:
    """Return requests and seconds of a rate such as "600/min". Raises ValueError."""
    number, _slash, period = rate.partition("/")
    return int(number), SECONDS[period[:1]]


def limit(name: str, setting: str, who: str) -> RequestLimit:
    quota, window = parse_rate(getattr(settings, setting))
    return RequestLimit(name, quota, window, who)


def count(limits: Sequence[RequestLimit]) -> list[Count]:
    """Count a request against each limit, in one round trip."""
    now = time.time()
    keys = {f"rate:{one.name}:{one.key}:{now // one.window:.0f}": 2 * one.window for one in limits}
    used = (
        cache.increment(keys)
        if hasattr(cache, "increment")
        else [incremented(*each) for each in keys.items()]
    )
    return [
        Count(one, number, max(1, ceil(one.window - now % one.window)))
        for one, number in zip(limits, used, strict=True)
    ]


class TooOften(PortalError):
    """A person does what is expensive more often than its limit: 429."""

    code = "too-often"
    status = HTTPStatus.TOO_MANY_REQUESTS
    title = "Too many requests"


def require_rate(name: str, setting: str, who: str, what: str) -> None:
    """Count one of `what`, a plural, against the limit of `setting`; raise TooOften beyond it."""
    (counted,) = count([limit(name, setting, who)])
    if counted.is_exceeded:
        refusal = TooOften(
            f"The limit is {counted.limit.quota:,} {what} in {counted.limit.window} s for each person. "
            f"Try again in {counted.reset} s."
        )
        refusal.headers = {"Retry-After": str(counted.reset)}
        raise refusal


def incremented(key: str, timeout: float) -> int:
    """Add to a count in the cache, which lasts `timeout` seconds, and return it; it may end meanwhile."""
    try:
        return cache.incr(key)
    except ValueError:  # the first of this key, or one of several at once
        return 1 if cache.add(key, 1, timeout) else incremented(key, timeout)


class RateLimit(BaseThrottle):
    """Counts a request for its person and its token; without a person, for its address."""

    def __init__(self) -> None:
        self.exceeded: Count | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        if getattr(request._request, "is_counted", False):  # a part of another request
            return True
        counts = count(self.limits(request))
        request._request.rate_counts = counts  # type: ignore[attr-defined]
        self.exceeded = max(
            (one for one in counts if one.is_exceeded), key=lambda one: one.reset, default=None
        )
        return self.exceeded is None

    def wait(self) -> float | None:
        return self.exceeded.reset if self.exceeded else None

    def limits(self, request: Request) -> list[RequestLimit]:
        if not request.user.is_authenticated:
            return [address_limit(client_address(request._request))]
        found = [limit("person", "API_RATE", str(request.user.pk))]
        token = getattr(request.auth, "pk", None)
        return [*found, limit("token", "API_TOKEN_RATE", str(token))] if token else found


def address_limit(address: str | None) -> RequestLimit:
    name = hashlib.sha256((address or "").encode()).hexdigest()[:32]  # no list of addresses in Redis
    return limit("address", "API_ANONYMOUS_RATE", name)


def count_refused_sign_in(request: Request) -> int:
    """Count a request without a sound sign-in for its address; return after how long to try again, or 0."""
    (counted,) = count([address_limit(client_address(request._request))])
    request._request.rate_counts = [counted]  # type: ignore[attr-defined]
    return counted.reset if counted.is_exceeded else 0


class RateHeadersMiddleware:
    """Says in each response of the API what the limits are, and what is left of them."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        counts: list[Count] = getattr(request, "rate_counts", [])
        if counts:
            response["RateLimit-Policy"] = ", ".join(
                f'"{one.limit.name}";q={one.limit.quota};w={one.limit.window}' for one in counts
            )
            response["RateLimit"] = ", ".join(
                f'"{one.limit.name}";r={one.remaining};t={one.reset}' for one in counts
            )
        return response
