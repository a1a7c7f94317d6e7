"""Queueing tasks once what they are about is committed."""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog
from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)


def after_commit(task: Task[Any, Any], *args: object) -> None:
    """
    Queue `task` with `args`, which have to be plain JSON values, when the transaction has been committed.

    What is committed stands, whatever becomes of the message: a broker that is away for a moment must not
    turn an approval that is written into an error page. The sweep of the task does what was not queued.
    """
    transaction.on_commit(partial(_queue, task, args))


def _queue(task: Task[Any, Any], args: tuple[object, ...]) -> None:
    try:
        task.delay(*args)
    except OperationalError as error:
        log.warning("not_queued", task=task.name, error=str(error))
