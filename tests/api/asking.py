"""The API in this process: each request meets the same state, and what it changes is rolled back."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import TestCase

AROUND = (signals.request_started, signals.request_finished)


class Portal:
    """
    A WSGI application that works within the transaction of a test.

    Tasks that a request queues run as if it had been committed. Then it is rolled back, unless `keeping`.
    """

    def __init__(self) -> None:
        self.keeping = False
        self._portal = get_wsgi_application()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        block = transaction.atomic()
        block._from_testcase = True  # services may say `durable=True` within it
        with block:
            with TestCase.captureOnCommitCallbacks(execute=True):
                answer = self._portal(environ, start)
                body = b"".join(answer)
                answer.close()
            transaction.set_rollback(not self.keeping)
        return [body]


@contextmanager
def in_process() -> Iterator[Portal]:
    """Yield the portal. What breaks in it is printed, since the answer with 500 does not say."""

    def tell(**_more: Any) -> None:
        traceback.print_exc()

    for signal in AROUND:
        signal.disconnect(close_old_connections)
    signals.got_request_exception.connect(tell)
    try:
        yield Portal()
    finally:
        signals.got_request_exception.disconnect(tell)
        for signal in AROUND:
            signal.connect(close_old_connections)
