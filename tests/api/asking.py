"""
The API in this process: each request meets the same state, and what it changes is rolled back.

A write that is refused leaves every row of every table as it was: `Portal` compares them.
"""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connection, transaction
from django.test import TestCase
from rest_framework.response import Response

from core.errors import Conflict

AROUND = (signals.request_started, signals.request_finished)
WRITE = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+\"?(\w+)", re.I)
# What a refused request leaves on purpose: why.
LEFT = {
    "teams_auditentry": "refused sign-ins are recorded",
    "teams_apitoken": "when a token was last used",
}
WRITTEN = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables"


class Portal:
    """
    A WSGI application that works within the transaction of a test.

    Tasks that a request queues run as if it had been committed. Then it is rolled back, unless `keeping`.
    With `fail_at` that statement of the request that writes, counted from 1, is refused instead; `writes` are
    the tables of the statements of the last request. With `answers` False an answer that is no refusal fails
    while it is made, after what was done is committed as far as the request knows; `left` are the tables that
    have changed.
    """

    def __init__(self) -> None:
        self.keeping = False
        self.fail_at = 0
        self.answers = True
        self.writes: list[str] = []
        self.left: list[str] = []
        self._portal = get_wsgi_application()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        status, self.writes = "", []

        def started(line: str, *more: Any) -> Any:
            nonlocal status
            status = line
            return start(line, *more)

        before, changed = written(), {}
        with transaction.atomic():
            with TestCase.captureOnCommitCallbacks(execute=True):
                with connection.execute_wrapper(self._count), self._outermost():
                    answer = self._portal(environ, started)
                    body = b"".join(answer)
                answer.close()
            connection.needs_rollback = False  # an error in Python, of which the database knows nothing
            if status >= "4" and environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
                touched = {table for table, rows in written().items() if rows != before.get(table, 0)}
                changed = {table: digest(table) for table in touched - set(LEFT)}
            transaction.set_rollback(not self.keeping or bool(changed))
        self.left = [table for table, rows in changed.items() if rows != digest(table)]
        told = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}: {status}, but changed {self.left}"
        assert not self.left or not self.answers, told
        return [body]

    @contextmanager
    def _outermost(self) -> Iterator[None]:
        """Let the transactions of the request be the outermost ones, and an answer fail if it has to."""
        around, make = len(connection.atomic_blocks), Response.__init__

        def seen(using: str) -> SimpleNamespace:
            blocks = connection.atomic_blocks[around:]
            return SimpleNamespace(needs_rollback=connection.needs_rollback, atomic_blocks=blocks)

        def made(response: Response, data: Any = None, status: int | None = None, **more: Any) -> None:
            if not self.answers and (status or 200) < 400:
                raise RuntimeError("The test breaks this answer.")
            make(response, data, status, **more)

        names = SimpleNamespace(get_connection=seen, on_commit=transaction.on_commit)
        with (
            mock.patch("core.transactions.transaction", names),
            mock.patch.object(Response, "__init__", made),
        ):
            yield

    def _count(self, execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if (found := WRITE.match(sql)) and found[1] not in LEFT.keys() - {"teams_auditentry"}:
            self.writes.append(found[1])
            if len(self.writes) == self.fail_at:
                raise Conflict("The test refuses this.")
        return execute(sql, *more)


def written() -> dict[str, int]:
    """Return how many rows of each table this transaction has written, rolled back or not."""
    with connection.cursor() as cursor:
        cursor.execute(WRITTEN)
        return dict(cursor.fetchall())


def digest(table: str) -> str:
    """Return a digest of all rows of a table."""
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT md5(string_agg(row::text, chr(10) ORDER BY row::text)) FROM "{table}" AS row')
        return str(cursor.fetchone()[0])


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
