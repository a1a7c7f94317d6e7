"""The table, `results.json`, and what became slower since the committed run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import Result, percentile

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
WIDTH = 170  # of what goes to a file
PACKAGES = ("django", "psycopg")
SLOWER = 1.2  # a path that takes so many times as long as in the committed run is named …
NOISE = 1.0  # … if the difference exceeds so many milliseconds
FASTER_THAN_RESULT = 1.5  # a path may grow by so much more than its result
SIZES = 3  # of the portal: 1/100, 1/10 and full
# About 4 ms each: a smaller difference is not growth.
MANY_STEPS, MANY_VISITS = 10_000, 30_000
LEFT = ("path", "state")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def write(
    path: Path, results: Sequence[Result], skipped: Sequence[str], seconds: Mapping[str, float] | None = None
) -> None:
    """Write everything that was measured, one line per path, why something was not, and how long it took."""
    head = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "seconds": {part: round(number, 1) for part, number in (seconds or {}).items()},
        "skipped": list(skipped),
    }
    parts = {
        "results": [result.as_dict() for result in results],
        "growth": [row.as_dict() for row in growth(results)],
    }
    text = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
    for name, rows in parts.items():
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in rows)
        text += f',\n  "{name}": [\n{lines}\n  ]' if rows else f',\n  "{name}": []'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n}\n")


def merged(path: Path, results: Sequence[Result]) -> list[Result]:
    """Return the lines of an earlier run, those that were measured again replaced, and the new lines."""
    if not path.exists():
        return list(results)
    again = {(result.path, result.state, result.devices) for result in results}
    others = [result for result in read(path) if (result.path, result.state, result.devices) not in again]
    return [*others, *results]


def read(path: Path) -> list[Result]:
    return [Result.from_dict(row) for row in json.loads(path.read_text())["results"]]


def committed() -> list[dict[str, Any]]:
    """Return the lines of results.json in the last commit; none without git or before the first one."""
    command = ["git", "-C", str(FOLDER), "show", f"HEAD:./{RESULTS.name}"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return list(json.loads(shown)["results"])
    except (OSError, subprocess.CalledProcessError, ValueError):
        return []


def slower(results: Sequence[Result], previous: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each path that became slower than in the previous run."""
    before = {(row["path"], row["state"], row["devices"]): row for row in previous}
    for result in results:
        row = before.get((result.path, result.state, result.devices))
        if row is None or result.at_least:
            continue
        old = row["cpu_median"] or row["median"]
        if result.cost > SLOWER * old and result.cost - old > NOISE:
            yield (
                f"{result.path} ({result.state}): {old:,.1f} → {result.cost:,.1f} {result.unit}, "
                f"{result.cost / old:.1f} × as long."
            )


class Growth:
    """
    How the work of one path grows with the size of the portal, from 1/100 over 1/10 to the full one.

    Its work is counted (`bench.portal.work`): steps of Python, visits of PostgreSQL. Its result grows by rows
    or by bytes, whichever grows more.
    """

    def __init__(self, path: str, state: str, lines: Sequence[Result]) -> None:
        self.path, self.state = path, state
        self.steps = [line.steps or 0 for line in lines]
        self.visits = [line.visits or 0 for line in lines]
        self.rows = [line.rows or 0 for line in lines]
        self.sizes = [line.size or 0 for line in lines]

    @property
    def result_factor(self) -> float:
        return self._result_growth(0, -1)

    @property
    def too_fast(self) -> bool:
        """Return whether steps or visits grow faster than the result, over all sizes or in the last step."""
        return any(
            self._grows_faster(work, small, many)
            for work, many in ((self.steps, MANY_STEPS), (self.visits, MANY_VISITS))
            for small in (0, -2)
        )

    def _grows_faster(self, work: Sequence[int], small: int, many: int) -> bool:
        expected = work[small] * self._result_growth(small, -1)
        return work[-1] - expected > many and work[-1] > FASTER_THAN_RESULT * expected

    def _result_growth(self, small: int, large: int) -> float:
        ratios = [part[large] / part[small] for part in (self.rows, self.sizes) if part[small]]
        return max([1.0, *ratios])

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "state": self.state,
            "rows": self.rows,
            "size": self.sizes,
            "steps": self.steps,
            "visits": self.visits,
            "result_factor": round(self.result_factor, 2),
            "grows_faster_than_result": self.too_fast,
        }


def growth(results: Sequence[Result]) -> list[Growth]:
    """Compare the lines of each path at several sizes of the portal, from the smallest to the largest."""
    by_path: dict[tuple[str, str], list[Result]] = {}
    for result in sorted(results, key=lambda result: result.devices):
        if result.steps is not None:
            by_path.setdefault((result.path, result.state), []).append(result)
    return [Growth(path, state, lines) for (path, state), lines in by_path.items() if len(lines) == SIZES]


def at_full_size(results: Sequence[Result]) -> list[Result]:
    """Leave out the lines of smaller portals."""
    largest = max((result.devices for result in results if result.rows is not None), default=0)
    return [result for result in results if result.rows is None or result.devices == largest]


def show(results: Sequence[Result], skipped: Sequence[str], console: Console | None = None) -> None:
    """Print the table, ratios first, and below it why budgets are missed."""
    table = _table(
        "Worst ratio to a limit of the budget, and median ÷ Kubernetes' allocator over all nodes",
        *("÷ budget", "÷ upstream", "path", "devices", "state", "median", "p95", "CPU median", "CPU p95"),
        *("budget", "upstream", "queries"),
    )
    for result in results:
        over = result.of_budget is not None and result.of_budget > 1
        table.add_row(
            _ratio(result.of_budget),
            _ratio(result.of_upstream),
            result.path,
            f"{result.devices:,}",
            result.state,
            f"{result.median:,.1f} {result.unit}",
            f"{result.p95:,.1f} {result.unit}",
            f"{result.cost:,.1f} ms" if result.processor else "",
            f"{percentile(result.processor):,.1f} ms" if result.processor else "",
            "" if result.budget is None else f"{result.budget:,g} {result.unit}",
            "" if result.upstream is None else f"{result.upstream:,.1f} {result.unit}",
            "" if result.queries is None else str(result.queries),
            style="red" if over else "",
        )
    console = console or terminal()
    console.print(table)
    for note in [note for result in results for note in result.notes] + list(skipped):
        console.print(note)
    missed = [result for result in results if result.misses]
    limited = sum(result.of_budget is not None for result in results)
    console.print(f"{limited - len(missed)} of {limited} lines meet their budget.")
    for result in missed:
        reason = "; ".join(result.profile) or "no profile was measured"
        console.print(
            f"{result.path} ({result.state}): {'; '.join(result.misses)}. Most time: {reason}",
            highlight=False,
        )


def show_growth(rows: Sequence[Growth], console: Console | None = None) -> None:
    """Print the growth of every path, those that grow faster than their result first."""
    if not rows:
        return
    title = "Growth of results and of the work for them, from 1/100 of the portal to all of it"
    sizes = ("1/10", "full")
    columns = (
        "path",
        "state",
        "rows 1/100",
        *sizes,
        "result ×",
        "steps 1/100",
        *sizes,
        "visits 1/100",
        *sizes,
    )
    table = _table(title, *columns, "")
    for row in sorted(rows, key=lambda row: not row.too_fast):
        table.add_row(
            row.path,
            row.state,
            *(f"{number:,}" for number in row.rows),
            f"{row.result_factor:.1f}",
            *(f"{number:,}" for number in (*row.steps, *row.visits)),
            "grows faster than its result" if row.too_fast else "",
            style="red" if row.too_fast else "",
        )
    console = console or terminal()
    console.print(table)
    faster = sum(row.too_fast for row in rows)
    console.print(f"{len(rows) - faster} of {len(rows)} paths grow no faster than their result.")


def terminal() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    return console


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    return table


def _ratio(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
