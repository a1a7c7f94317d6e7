"""
A watch as batches of events, read by a thread of its own.

The reader waits for the cluster; the caller waits for the reader, at most so long that it can renew its lease
and hear that the worker is to stop. A burst (one driver change rewrites every slice of a pool) becomes one
batch.
"""

import queue
import threading
import time
from collections.abc import Iterator

from cluster.kinds import Kind
from cluster.protocol import Event, Gateway

BATCH = 500
LINGER = 0.05  # seconds in which a burst is gathered
PATIENCE = 1.0  # seconds after which an empty batch is yielded

# Set when the worker shuts down: every slice ends within PATIENCE and gives its lease back.
stopping = threading.Event()


class Stopping(Exception):
    """The worker shuts down: what is half done is begun again by the next holder."""


def go_on() -> None:
    """Raise `Stopping` when the worker shuts down; asked between the steps of what takes long."""
    if stopping.is_set():
        raise Stopping


class _End:
    """Last word of the reader: the error that ended the watch, or None."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


def batches(gateway: Gateway, kind: Kind, *, version: str, seconds: int) -> Iterator[list[Event]]:
    """
    Yield events in batches, empty ones while nothing happens, until the watch ends or the worker stops.

    Raise what the gateway raised, after the events that came before it.
    """
    events: queue.Queue[Event | _End] = queue.Queue(maxsize=4 * BATCH)
    reader = threading.Thread(
        target=_read, args=(events, gateway, kind, version, seconds), daemon=True, name=f"watch-{kind.plural}"
    )
    reader.start()
    # The server ends a watch on time; a connection that died without a word must not hold the slice for ever.
    deadline = time.monotonic() + seconds + 15
    while not stopping.is_set() and time.monotonic() < deadline:
        batch, end = _gather(events)
        yield batch
        if end and not stopping.is_set():  # what breaks while everything is being stopped is no failure
            if end.error:
                raise end.error
            return


def _read(
    events: "queue.Queue[Event | _End]", gateway: Gateway, kind: Kind, version: str, seconds: int
) -> None:
    try:
        for event in gateway.watch(kind, resource_version=version, seconds=seconds):
            events.put(event, timeout=60)
    except Exception as error:
        events.put(_End(error))
    else:
        events.put(_End(None))


def _gather(events: "queue.Queue[Event | _End]") -> tuple[list[Event], _End | None]:
    batch: list[Event] = []
    wait = PATIENCE
    while len(batch) < BATCH:
        try:
            item = events.get(timeout=wait)
        except queue.Empty:
            break
        if isinstance(item, _End):
            return batch, item
        batch.append(item)
        wait = LINGER
    return batch, None
