"""Samples of one path, their median and 95th percentile, and how they compare with the budget."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Result:
    """
    One line of the table. `samples` are in `unit`; `budget` is the limit of their 95th percentile, or the
    least median if `at_least`; `upstream` is the median of Kubernetes' own allocator for the same question.

    `processor` is CPU time in milliseconds. Where it is measured, budgets apply to it, because other work on
    the machine lengthens it less. `size` and `rows` are the numbers of bytes and of rows of the response.
    `profile` is where the time of a line goes that misses its budget, measured in the same run. `steps` and
    `visits` are counted (`bench.portal.work`).
    """

    path: str
    devices: int
    state: str
    samples: Sequence[float]
    unit: str = "ms"
    budget: float | None = None
    median_budget: float | None = None
    max_queries: int | None = None
    at_least: bool = False
    upstream: float | None = None
    processor: Sequence[float] = ()
    queries: int | None = None
    size: int | None = None
    rows: int | None = None
    notes: list[str] = field(default_factory=list)
    profile: list[str] = field(default_factory=list)
    steps: int | None = None
    visits: int | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        return percentile(self.samples)

    @property
    def budgeted(self) -> Sequence[float]:
        """Return the samples that the budget limits."""
        return self.processor or self.samples

    @property
    def cost(self) -> float:
        """Return the figure with which two runs are compared."""
        return statistics.median(self.budgeted)

    @property
    def of_budget(self) -> float | None:
        """Return the largest ratio to a limit; above 1 the budget is missed."""
        return max((ratio for ratio, _sentence in self._limits()), default=None)

    @property
    def misses(self) -> list[str]:
        """Return a sentence for each limit that is missed."""
        return [sentence for ratio, sentence in self._limits() if ratio > 1]

    def _limits(self) -> Iterator[tuple[float, str]]:
        clock = " of CPU time" if self.processor and self.unit == "ms" else ""
        if self.budget is not None and self.at_least:
            ratio = self.budget / self.cost if self.cost else math.inf
            yield ratio, f"{self.cost:,.1f} {self.unit}, at least {self.budget:,.0f} wanted"
        elif self.budget is not None:
            p95 = percentile(self.budgeted)
            ratio = p95 / self.budget if self.budget else 1 + p95 if p95 else 0.0
            label = "p95 " if len(self.budgeted) > 1 else ""
            yield ratio, f"{label}{p95:,.1f} {self.unit}{clock}, budget {self.budget:,g} ({ratio:.1f} ×)"
        if self.median_budget is not None:
            ratio = self.cost / self.median_budget
            yield (
                ratio,
                f"median {self.cost:,.1f} {self.unit}{clock}, budget {self.median_budget:,g} ({ratio:.1f} ×)",
            )
        if self.max_queries is not None and self.queries is not None:
            yield self.queries / self.max_queries, f"{self.queries} queries, at most {self.max_queries}"

    @property
    def of_upstream(self) -> float | None:
        return None if not self.upstream else self.median / self.upstream

    def as_dict(self) -> dict[str, Any]:
        """Return what results.json keeps; the CPU times come last."""
        return {
            "path": self.path,
            "devices": self.devices,
            "state": self.state,
            "unit": self.unit,
            "median": round(self.median, 3),
            "p95": round(self.p95, 3),
            "cpu_median": round(self.cost, 3) if self.processor else None,
            "cpu_p95": round(percentile(self.processor), 3) if self.processor else None,
            "budget": self.budget,
            "median_budget": self.median_budget,
            "max_queries": self.max_queries,
            "at_least": self.at_least,
            "of_budget": _rounded(self.of_budget),
            "upstream": _rounded(self.upstream),
            "of_upstream": _rounded(self.of_upstream),
            "queries": self.queries,
            "size": self.size,
            "rows": self.rows,
            "notes": self.notes,
            "profile": self.profile,
            "steps": self.steps,
            "visits": self.visits,
            "samples": [round(sample, 3) for sample in self.samples],
            "processor": [round(sample, 3) for sample in self.processor],
        }

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Self:
        """Return the result of a line of results.json."""
        return cls(**{name: row[name] for name in cls.__slots__ if name in row})


def percentile(samples: Sequence[float]) -> float:
    """Return the smallest sample that 95 % of them do not exceed."""
    return sorted(samples)[math.ceil(0.95 * len(samples)) - 1]


def timed(runs: Iterable[Callable[[], object]]) -> tuple[list[float], list[float]]:
    """Call each function once; return milliseconds of wall-clock time and of CPU time of this thread."""
    walls, threads = [], []
    for run in runs:
        wall_start, thread_start = time.perf_counter(), time.thread_time()
        run()
        walls.append(1000 * (time.perf_counter() - wall_start))
        threads.append(1000 * (time.thread_time() - thread_start))
    return walls, threads


def nanoseconds_run(pid: int) -> int:
    """Return how long a process ran (Documentation/scheduler/sched-stats.rst); 0 if that is unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:
        return 0


def seconds_run(pids: Iterable[int]) -> float:
    """Return the CPU seconds of these processes, of all their threads and of the children that have ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime: proc_pid_stat(5)
    return total / CLOCK_TICKS


def memory(pids: Iterable[int]) -> float:
    """Return the MiB of memory of these processes; what they share counts once (Linux)."""
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def family(pid: int) -> list[int]:
    """Return the process and its children (Linux)."""
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += task.read_text().split()
    return [pid, *(process for child in children for process in family(int(child)))]


def parent(pid: int) -> int:
    """Return the process that started this one (Linux)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
