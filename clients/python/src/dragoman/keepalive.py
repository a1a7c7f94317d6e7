"""
The holder of a claim: it renews the claim while the program lives, and ends blocks on SIGTERM.

A claim with `keep_alive` ends when it was not renewed for that long: after a killed process, or a machine
that slept for too long.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dragoman._async.transport import AsyncTransport
from dragoman._sync.transport import Transport
from dragoman.errors import Conflict, DragomanError, Forbidden, NotFound
from dragoman.text import span

RENEWALS = 3  # within the time that a claim may be silent
TICK = 15.0  # seconds; after a sleep of the machine a renewal is late by this at most
CLOSE = 2.0  # seconds for a renewal that is on its way at the end
RETRY = 20.0  # seconds after a renewal that failed


def tell(sentence: str) -> None:
    """Say something that no exception can say, also from a thread: in a notebook it is shown by the cell."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201


def note(error: BaseException, sentence: str) -> None:
    """Say it beside the exception of a block, which goes on."""
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(sentence)
    tell(sentence)


def nothing() -> None: ...


def renewal(transport: AsyncTransport | Transport, path: str) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return what sends a renewal from a thread, also while an event loop is busy, and what closes it."""
    if isinstance(transport, Transport):
        return lambda: transport.put(path), nothing
    if transport.is_own:  # its connections belong to its event loop
        own = Transport(transport.settings, timeout=transport.timeout, ca=transport.ca)
        return lambda: own.put(path), own.close
    loop = asyncio.get_running_loop()
    return lambda: asyncio.run_coroutine_threadsafe(transport.put(path), loop).result(), nothing


class KeepAlive:
    """
    Renews a claim from a thread of its own until `stop`, `RENEWALS` times within `seconds`.

    `ended` says why the claim has ended under its holder, "" while it lives. `beat` is called at least each
    15 s.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        *,
        renew: Callable[[], Mapping[str, Any]],
        close: Callable[[], None] = nothing,
        beat: Callable[[], None] = nothing,
    ) -> None:
        self.name, self.seconds, self.ended = name, seconds, ""
        self._renew, self._close, self._beat = renew, close, beat
        self._is_late = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"keep alive {name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE)  # a renewal may be on its way

    def _run(self) -> None:
        next_at, longest = 0.0, self.seconds / RENEWALS
        while not self._stopped.is_set():
            self._beat()
            if not 0 < next_at - time.time() <= longest:  # the clock of the wall: monotonic ones sleep too
                next_at = time.time() + min(longest, self._renewed() or longest)
            self._stopped.wait(min(TICK, max(0.1, next_at - time.time())))
        self._close()

    def _renewed(self) -> float | None:
        """Renew it once; return the seconds to the next try if it failed."""
        try:
            if self._renew().get("keep_alive") is None:
                self.stop()  # somebody keeps it
        except (Conflict, Forbidden, NotFound) as refusal:
            if not self._stopped.is_set():
                self.ended = f"{self.name} is no longer yours to use: {refusal}"
                tell(self.ended)
            self.stop()
        except (DragomanError, RuntimeError) as error:  # RuntimeError: the client or the loop is closed
            if not (self._is_late or self._stopped.is_set()):
                late = span(self.seconds)
                tell(f"{self.name} is not renewed: {error} Trying again; after {late} it ends.")
            self._is_late = True
            return RETRY
        else:
            self._is_late = False
        return None


_terminable = 0


def end_on_sigterm() -> Callable[[], None]:
    """
    Let SIGTERM leave the blocks of the main thread as an exception; return what undoes it.

    A program that handles SIGTERM itself goes on to do so.
    """
    global _terminable
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, _terminate):
        return lambda: None
    _terminable += 1
    signal.signal(signal.SIGTERM, _terminate)

    def undo() -> None:
        global _terminable
        _terminable -= 1
        if not _terminable and signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    return undo


def _terminate(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
