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
    A place where threads wait for each other, but not for ever: with a lock between them only one arrives.
    """

    def __init__(self, people: int = 2) -> None:
        self._barrier = Barrier(people, timeout=0.7)

    def wait(self) -> None:
        with suppress(BrokenBarrierError):
            self._barrier.wait()
