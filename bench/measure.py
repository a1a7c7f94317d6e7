"""How long something takes: samples, median and 95th percentile."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Result:
    """
    One line of the table. `samples` are in `unit`, `budget` is for their 95th percentile, `upstream` the
    median of Kubernetes' own allocator doing the same. `processor` is the time that the thread ran, which
    other work on the machine lengthens less. `queries` are those to the database.
    """

    path: str
    devices: int
    state: str
    samples: Sequence[float]
    unit: str = "ms"
    budget: float | None = None
    upstream: float | None = None
    processor: Sequence[float] = ()
    queries: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        return percentile(self.samples)

    @property
    def of_budget(self) -> float | None:
        return None if self.budget is None else self.p95 / self.budget

    @property
    def of_upstream(self) -> float | None:
        return None if not self.upstream else self.median / self.upstream


def percentile(samples: Sequence[float]) -> float:
    """Return the smallest sample that 95 % of them do not exceed."""
    return sorted(samples)[math.ceil(0.95 * len(samples)) - 1]


def timed(runs: Iterable[Callable[[], object]]) -> tuple[list[float], list[float]]:
    """Run each once and return how many milliseconds it took, on the clock of the wall and of the thread."""
    walls, threads = [], []
    for run in runs:
        began, ran = time.perf_counter(), time.thread_time()
        run()
        walls.append(1000 * (time.perf_counter() - began))
        threads.append(1000 * (time.thread_time() - ran))
    return walls, threads
