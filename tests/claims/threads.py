"""Several people at once: each call in a thread of its own, with a connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

from django.db import connection

from core.errors import PortalError


def at_once[T](*calls: Callable[[], T]) -> list[T | PortalError]:
    """Run the calls at the same time; return what each returned, or how it was refused."""

    def run(call: Callable[[], T]) -> T | PortalError:
        try:
            return call()
        except PortalError as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


class Meeting:
    """
    A place where two threads wait for each other. With a guard between them only one arrives, and goes on
    after a moment; without one both come, however slow the machine is.
    """

    def __init__(self, *, guarded: bool) -> None:
        self._barrier = Barrier(2, timeout=0.7 if guarded else 60)

    def wait(self) -> None:
        with suppress(BrokenBarrierError):
            self._barrier.wait()
