"""The transaction of services, locks in it (docs/locking.md), tasks queued after it (docs/tasks.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import structlog
from celery import Task
from django.db import DEFAULT_DB_ALIAS, IntegrityError, transaction
from django.db.models import Model, QuerySet
from kombu.exceptions import OperationalError

from core.errors import PortalError

log = structlog.get_logger(__name__)
# What is known of the writes of this request: "" nothing was saved, "was" or "may have been".
saved: ContextVar[str] = ContextVar("saved", default="")


class ServiceTransaction(transaction.Atomic):
    """
    The transaction of a service, or that of the service that calls it: what is refused leaves nothing.

    A request calls one service that writes (tests/api/test_schemathesis.py).
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = transaction.get_connection(self.using)
        commits = kind is None and not connection.needs_rollback and len(connection.atomic_blocks) == 1
        if commits and not saved.get():
            saved.set("may have been")
        super().__exit__(kind, error, trace)
        if commits:
            saved.set("was")


service = ServiceTransaction(DEFAULT_DB_ALIAS, savepoint=True, durable=False)


@contextmanager
def unless_taken(refusal: PortalError) -> Iterator[None]:
    """Write as a service; raise `refusal` instead if a constraint refuses what somebody else has."""
    try:
        with service:
            yield
    except IntegrityError:
        raise refusal from None


def lock_row[M: Model](rows: QuerySet[M], pk: Any) -> M:
    """
    Lock a row and return it as `rows` reads it, with its joins. Raises DoesNotExist.

    Two statements: one that waits for the lock continues with the current row, but with the related rows
    that it joined before. If a reference has changed meanwhile it returns None for it, or no row at all.
    """
    rows.model._default_manager.select_for_update(no_key=True).only("pk").get(pk=pk)
    return rows.get(pk=pk)


def after_commit(task: Task[Any, Any], *args: object) -> None:
    """
    Queue `task` with `args`, plain JSON values, after the transaction has been committed.

    A broker that is down must not turn a committed approval into an error page. The task's sweep does what
    was not queued.
    """
    transaction.on_commit(partial(queue, task, *args))


@dataclass(slots=True)
class Pause:
    """Until when, by the monotonic clock, nothing is sent to a broker that did not answer."""

    until: float = 0.0


PAUSE_SECONDS = 5.0
pause = Pause()


def queue(task: Task[Any, Any], *args: object) -> None:
    """
    Queue `task` now; a broker that is down is logged, and not tried again for 5 seconds: a request that
    queues several tasks waits for it once.
    """
    if time.monotonic() < pause.until:
        return
    try:
        task.delay(*args)
    except OperationalError as error:
        pause.until = time.monotonic() + PAUSE_SECONDS
        log.warning("not_queued", task=task.name, error=str(error))
