"""
The cache: Redis that may be away.

It holds counts of rate limits, marks of queued messages and when a web process lived, nothing that a page
needs. So while Redis is down or hangs, reads find nothing and writes are dropped, and one request in five
seconds finds out whether it is back, instead of each waiting for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from django.core.cache import cache
from django.core.cache.backends import redis
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

TRY_AGAIN_AFTER = 5.0  # seconds
TIMEOUT = 1.0  # seconds, for a connection and for an answer


WEB_LIVES, WEB_AWAY_AFTER = "web-lives", 60.0  # seconds; each web process says so every 15


def say_that_web_lives() -> None:
    cache.set(WEB_LIVES, time.time(), None)


def is_web_away(now: datetime) -> bool:
    """Return whether every web process is silent for a minute; False where none has ever said anything."""
    last: float | None = cache.get(WEB_LIVES)
    return last is not None and now.timestamp() - last > WEB_AWAY_AFTER


class RedisCache(redis.RedisCache):
    """Django's, with answers of an empty cache while Redis does not respond."""

    unavailable_until = 0.0  # time.monotonic(); of the class: each thread has a cache of its own

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT}
        super().__init__(server, params | {"OPTIONS": options | params.get("OPTIONS", {})})

    def _ask[T](self, operation: Callable[[], T], *, default: T) -> T:
        if time.monotonic() < RedisCache.unavailable_until:
            return default
        try:
            return operation()
        except RedisError as error:
            RedisCache.unavailable_until = time.monotonic() + TRY_AGAIN_AFTER
            log.warning("cache_unavailable", error=str(error))
            return default

    def add(self, *args: Any, **kwargs: Any) -> bool:
        return self._ask(lambda: super(RedisCache, self).add(*args, **kwargs), default=True)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._ask(lambda: super(RedisCache, self).get(key, default, version), default=default)

    def set(self, *args: Any, **kwargs: Any) -> None:
        self._ask(lambda: super(RedisCache, self).set(*args, **kwargs), default=None)

    def touch(self, *args: Any, **kwargs: Any) -> bool:
        return self._ask(lambda: super(RedisCache, self).touch(*args, **kwargs), default=False)

    def delete(self, *args: Any, **kwargs: Any) -> bool:
        return self._ask(lambda: super(RedisCache, self).delete(*args, **kwargs), default=False)

    def get_many(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return self._ask(lambda: super(RedisCache, self).get_many(*args, **kwargs), default={})

    def has_key(self, *args: Any, **kwargs: Any) -> bool:
        return self._ask(lambda: super(RedisCache, self).has_key(*args, **kwargs), default=False)

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self._ask(lambda: super(RedisCache, self).incr(key, delta, version), default=delta)

    def increment(self, keys: Mapping[str, int]) -> list[int]:
        """Add 1 to each key, which lasts so many seconds, in one round trip; return the sums, 1 if away."""

        def counted() -> list[int]:
            with self._cache.get_client(write=True).pipeline(transaction=False) as pipeline:
                for key, timeout in keys.items():
                    name = self.make_and_validate_key(key)
                    pipeline.incr(name)
                    pipeline.expire(name, timeout)
                return [int(number) for number in pipeline.execute()[::2]]

        return self._ask(counted, default=[1] * len(keys))

    def set_many(self, data: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return self._ask(lambda: super(RedisCache, self).set_many(data, *args, **kwargs), default=list(data))

    def delete_many(self, *args: Any, **kwargs: Any) -> None:
        self._ask(lambda: super(RedisCache, self).delete_many(*args, **kwargs), default=None)
