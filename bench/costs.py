"""
Where the time of a run goes, as short lines: the statements, templates and functions that cost most of it.

A timer interrupts the main thread; other threads are looked at by one more. Each sample counts for the
statement that the database executes, else for the template that is rendered, else for the innermost function
of the portal.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from psycopg.sql import Composable

ROOT = Path(__file__).parent.parent
INTERVAL = 0.0005  # seconds between two samples
THREAD_INTERVAL = 0.005  # of threads: each sample stops all of them
MAX_LINES = 3  # lines
WIDTH = 90  # characters of a statement
RUNS = 3  # of a path that misses its budget
COLUMNS = re.compile(r"^SELECT (?:DISTINCT )?.*?(?= FROM )", re.DOTALL)
CURSOR = ("django/db/backends/utils.py", "_execute")
NODE = ("django/template/base.py", "render_annotated")
OUTSIDE = (".venv", "bench")  # folders whose functions are not the portal's
MIDDLEWARE = "core/middleware.py"  # around that of Django and of packages
STATEMENT, TEMPLATE, FUNCTION = "statement", "template", "function"


class Costs:
    """Samples by what they count for, one every `interval` seconds."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.counts: Counter[tuple[str, str]] = Counter()
        self.is_over = False

    def note(self, _signal: int, frame: FrameType | None) -> None:
        if not self.is_over:
            self.counts[place_of(frame)] += 1
            self.wait()  # only now: a sample must not interrupt another

    def wait(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.interval)

    def lines(self) -> list[str]:
        """Return the share of each kind of place, then the most costly places with theirs."""
        kinds: Counter[str] = Counter()
        for (kind, _name), count in self.counts.items():
            kinds[kind] += count
        total = self.counts.total()
        shares = ", ".join(f"{kind}s {100 * count / total:.0f} %" for kind, count in kinds.most_common())
        places = [
            f"{100 * count / total:.0f} % {name if kind == FUNCTION else f'{kind} {name}'}"
            for (kind, name), count in self.counts.most_common(MAX_LINES)
        ]
        return [shares, *places] if places else []


@contextmanager
def sampled_costs(interval: float = INTERVAL) -> Iterator[Costs]:
    """Sample the main thread; elsewhere nothing is sampled."""
    costs = Costs(interval)
    if threading.current_thread() is not threading.main_thread():
        yield costs
        return
    previous = signal.signal(signal.SIGALRM, costs.note)
    costs.wait()
    try:
        yield costs
    finally:
        costs.is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def costs_of(run: Callable[[], object], runs: int = RUNS) -> list[str]:
    """Run it some more times; return its most costly places."""
    with sampled_costs() as costs:
        for _ in range(runs):
            run()
    return costs.lines()


@contextmanager
def sampled_threads(
    threads: Sequence[threading.Thread], is_idle: Callable[[FrameType], bool]
) -> Iterator[Costs]:
    """Sample started threads, which no timer interrupts, but for what waits in a frame that `is_idle`."""
    costs = Costs(THREAD_INTERVAL)
    over = threading.Event()

    def sample() -> None:
        while not over.wait(costs.interval):
            frames = sys._current_frames()
            for thread in threads:
                frame = frames.get(thread.ident or 0)
                if frame is not None and not is_idle(frame):
                    costs.counts[place_of(frame)] += 1

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield costs
    finally:
        over.set()
        sampler.join()


def place_of(frame: FrameType | None) -> tuple[str, str]:
    """Return the statement, template or function of the portal that the frame belongs to: kind and name."""
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if name == CURSOR[1] and path.endswith(CURSOR[0]):
            sql = frame.f_locals.get("sql", "")
            return STATEMENT, shortened(sql.as_string() if isinstance(sql, Composable) else str(sql))
        if name == NODE[1] and path.endswith(NODE[0]) and (template := template_of(frame.f_locals["self"])):
            return TEMPLATE, template
        if portal_file := file_of(path):
            if portal_file == MIDDLEWARE:
                return FUNCTION, "session, user and other middleware"
            return FUNCTION, f"{portal_file} {frame.f_code.co_qualname}"
        frame = frame.f_back
    return FUNCTION, "outside the portal's code"


def shortened(sql: str) -> str:
    """Return a statement without its columns, shortened."""
    text = COLUMNS.sub("SELECT …", " ".join(sql.split())).replace('"', "")
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"


def template_of(node: Any) -> str:
    origin = getattr(node, "origin", None)
    return "" if origin is None else str(origin.template_name)


@cache
def file_of(path: str) -> str:
    """Return the path of a module of the portal below its root; "" for any other."""
    if not path.startswith(str(ROOT)):
        return ""
    relative = Path(path).relative_to(ROOT)
    return "" if relative.parts[0] in OUTSIDE else str(relative)
