"""
What all tests of a process share, and a test must leave as it found it: a module that changes it is named,
and what it changed is put back, so that no test depends on which ran before it.
"""

from __future__ import annotations

import locale
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ReferenceType

import celery.signals
import django.core.signals
import django.db.models.signals
import django.test.signals
import structlog
from celery import current_app
from celery._state import set_default_app
from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

# Set for the process by what several modules use, until it ends.
OF_THE_RUN = {"PYTEST_CURRENT_TEST", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "COLUMNS", "LINES"}
MODULES = (django.core.signals, django.db.models.signals, celery.signals)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OF_THE_RUN}


def configured() -> dict[str, str]:
    """Return each setting as text; but those of the database, whose name is that of the process."""
    return {
        name: repr(getattr(settings, name))
        for name in dir(settings)
        if name.isupper() and name != "DATABASES"
    }


def receivers() -> dict[str, set[str]]:
    """
    Return which functions of tests listen to each signal of Django and Celery. Others come with the modules
    that tests import, and with the handlers of test clients.
    """
    signals = {f"{m.__name__}.{name}": sent for m in MODULES for name, sent in vars(m).items()}
    return {
        name: {who for who in map(_listener, sent.receivers or ()) if who.startswith("tests.")}
        for name, sent in signals.items()
        if hasattr(sent, "receivers")
    }


def _listener(entry: tuple[Any, ...]) -> str:
    receiver = entry[1]() if isinstance(entry[1], ReferenceType) else entry[1]
    return f"{getattr(receiver, '__module__', '')}.{getattr(receiver, '__qualname__', receiver)}"


def logged() -> tuple[object, ...]:
    return logging.getLogger().level, logging.root.manager.disable


def handlers() -> tuple[object, ...]:
    return tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM))


READ: dict[str, Callable[[], Any]] = {
    "the environment": environment,
    "the working directory": os.getcwd,
    "the settings": configured,
    "the receivers of signals": receivers,
    "the current Celery app": lambda: current_app._get_current_object(),
    "the level of the log": logged,
    "the handlers of SIGINT, SIGTERM and SIGALRM": handlers,
    "the path of imports": lambda: sorted(set(sys.path)),
    "the time zone": timezone.get_current_timezone_name,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the context of the log": structlog.contextvars.get_contextvars,
}


def difference(before: Any, after: Any) -> str:
    """Say what differs: in dictionaries by key."""
    if not isinstance(before, dict):
        return f"{before!r} → {after!r}"
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return "; ".join(f"{key}: {before.get(key)!r} → {after.get(key)!r}" for key in keys)


def put_back(before: dict[str, Any]) -> None:
    """Undo what later tests would otherwise suffer from; the rest has no way back."""
    os.chdir(before["the working directory"])
    for name in set(environment()) - set(before["the environment"]):
        del os.environ[name]
    os.environ.update(before["the environment"])
    before["the current Celery app"].set_current()
    set_default_app(before["the current Celery app"])
    structlog.contextvars.clear_contextvars()
    timezone.deactivate()


@contextmanager
def left_as_found() -> Iterator[None]:
    """Raise AssertionError with each shared thing that the block has changed."""
    cache.clear()  # the only thing that tests may leave behind
    before = {name: read() for name, read in READ.items()}
    yield
    after = {name: read() for name, read in READ.items()}
    changed = [
        f"{name}: {difference(before[name], after[name])}" for name in READ if before[name] != after[name]
    ]
    if changed:
        put_back(before)
        raise AssertionError("Left to the tests that come after this module:\n" + "\n".join(changed))
