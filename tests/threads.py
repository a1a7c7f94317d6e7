"""Several people at once: each call in a thread of its own, with a connection of its own."""

import inspect
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pkgutil import resolve_name
from threading import Event, get_ident
from time import monotonic
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from core.errors import PortalError
from tests import patience

PATIENCE = patience.LOCK  # only a test that fails waits so long


def at_once[T](*calls: Callable[[], T]) -> list[T | PortalError]:
    """Run the calls at the same time; return what each returned, or how it was refused."""

    def run(call: Callable[[], T]) -> T | PortalError:
        try:
            with connection.cursor() as cursor:  # a loaded machine is slower than the limits of the portal
                cursor.execute(f"SET lock_timeout = '{PATIENCE}s'; SET statement_timeout = '{PATIENCE}s'")
            return call()
        except PortalError as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


class Race:
    """
    The second of two calls runs while the first is held up at a point, which the test names.

    The first goes on as soon as the second has returned, or waits for a lock that the first holds: the
    database is asked for that, so no machine is too slow and nothing is waited for in vain. `waited` tells
    which of the two it was. A test asserts it in both of its cases: with the lock the second was seen to
    wait, without it the second went through.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited = False
        self._monkeypatch = monkeypatch
        self._first = 0
        self._held, self._through = Event(), Event()

    def hold_before(self, where: Any, name: str) -> None:
        """Hold the first up where it is about to call this function."""
        call = getattr(where, name)

        def hold_and_call(*args: Any, **kwargs: Any) -> Any:
            self.hold()
            return call(*args, **kwargs)

        self._monkeypatch.setattr(where, name, hold_and_call)

    def hold_after(self, where: Any, name: str) -> None:
        """Hold the first up where it has called this function."""
        call = getattr(where, name)

        def call_and_hold(*args: Any, **kwargs: Any) -> Any:
            returned = call(*args, **kwargs)
            self.hold()
            return returned

        self._monkeypatch.setattr(where, name, call_and_hold)

    def hold(self) -> None:
        """Hold the first up here, once; the second passes."""
        if get_ident() != self._first or self._held.is_set():
            return
        self._held.set()
        ends = monotonic() + PATIENCE
        while not self._through.wait(0.005):
            if _somebody_waits_for_us():
                self.waited = True
                return
            assert monotonic() < ends, "The second neither returned nor waits for a lock of the first."

    def run(self, first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
        """Return what both returned, or how they were refused."""
        over = Event()

        def start() -> Any:
            self._first = get_ident()
            try:
                return first()
            finally:
                over.set()
                self._held.set()

        def overtake() -> Any:
            assert self._held.wait(PATIENCE)
            assert not over.is_set(), "The first never came to the point at which it is held up."
            try:
                return second()
            finally:
                self._through.set()

        return at_once(start, overtake)


def without_lock(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """
    Let the function `name` ("claims.reconcile.settle") read the rows that it locks without locking them.

    That includes the rows that a function which it calls itself locks for it. All other locks stay. Of a
    function that only locks a table, or a number, nothing is left.
    """
    if any(lock in inspect.getsource(resolve_name(name)) for lock in ("LOCK TABLE", "pg_advisory")):
        monkeypatch.setattr(name, lambda **_options: None)
        return
    lock = QuerySet.select_for_update

    def lock_unless(self: QuerySet[Any], *args: Any, **kwargs: Any) -> QuerySet[Any]:
        callers = _callers()
        if name in (next(callers), next(callers)):
            return self
        return lock(self, *args, **kwargs)

    monkeypatch.setattr(QuerySet, "select_for_update", lock_unless)


def _callers() -> Iterator[str]:
    """Yield the functions of the portal that are being called, the innermost first."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = frame.f_globals["__name__"]
        if module.split(".")[0] not in ("django", "tests", "contextlib"):
            yield f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back


def _somebody_waits_for_us() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS(SELECT FROM pg_locks WHERE NOT granted"
            " AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])
