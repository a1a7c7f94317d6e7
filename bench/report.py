"""The table and `results.json`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import Result, percentile

WIDTH = 160  # of what goes to a file
PACKAGES = ("django", "psycopg")


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


def write(path: Path, results: Sequence[Result], skipped: Sequence[str]) -> None:
    """Write everything that was measured, and why something was not."""
    rows = [
        {
            "path": one.path,
            "devices": one.devices,
            "state": one.state,
            "unit": one.unit,
            "samples": [round(sample, 3) for sample in one.samples],
            "median": round(one.median, 3),
            "p95": round(one.p95, 3),
            "processor": [round(sample, 3) for sample in one.processor],
            "budget": one.budget,
            "of_budget": _rounded(one.of_budget),
            "upstream": _rounded(one.upstream),
            "of_upstream": _rounded(one.of_upstream),
            "queries": one.queries,
            "notes": one.notes,
        }
        for one in results
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"machine": machine(), "skipped": list(skipped), "results": rows}
    path.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")


def show(results: Sequence[Result], skipped: Sequence[str], console: Console | None = None) -> None:
    """Print the table, ratios first."""
    table = Table(title="p95 ÷ budget, and median ÷ Kubernetes' allocator over all nodes")
    for name in (
        "÷ budget",
        "÷ upstream",
        "path",
        "devices",
        "state",
        "median",
        "p95",
        "CPU p95",
        "budget",
        "upstream",
        "queries",
    ):
        table.add_column(name, justify="left" if name in ("path", "state") else "right", no_wrap=True)
    for one in results:
        over = one.of_budget is not None and one.of_budget > 1
        table.add_row(
            _ratio(one.of_budget),
            _ratio(one.of_upstream),
            one.path,
            f"{one.devices:,}",
            one.state,
            f"{one.median:,.1f} {one.unit}",
            f"{one.p95:,.1f} {one.unit}",
            f"{percentile(one.processor):,.1f} ms" if one.processor else "",
            "" if one.budget is None else f"{one.budget:,.0f} {one.unit}",
            "" if one.upstream is None else f"{one.upstream:,.1f} {one.unit}",
            "" if one.queries is None else str(one.queries),
            style="red" if over else "",
        )
    console = console or Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)
    for note in [note for one in results for note in one.notes] + list(skipped):
        console.print(note)


def _ratio(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
