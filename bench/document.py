"""The generated parts of docs/performance.md: the table of figures, and the most frequent queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Result, percentile
from bench.report import Growth, machine

if TYPE_CHECKING:
    from bench.portal.explain import FrequentQuery

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
SQL = 300  # characters of a query that are shown
WORST = 15  # lines that are named
SHOWN = {  # of the paths that do not grow too fast
    ("pages: home", "engineer"),
    ("pages: home", "admin"),
    ("pages: frame alone", "admin"),
    ("pages: claims", "admin"),
    ("pages: claims, last page", "admin"),
    ("pages: claims, searched", "admin"),
    ("pages: approvals, all", "admin"),
    ("pages: request form", "engineer"),
    ("pages: request panel", "engineer"),
    ("pages: fleet", "admin"),
    ("pages: devices, last page", "admin"),
    ("pages: month of a team", "lead"),
    ("pages: API match", "engineer"),
    ("writes: submit", "engineer"),
    ("writes: approve", "lead"),
    ("exports: claims, every row", "admin"),
    ("exports: devices, every row", "admin"),
    ("sweep: every claim once", "worker"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table of budgets: the results whose path it covers."""

    label: str
    budget: str
    covers: Callable[[Result], bool]


def _starts(*prefixes: str) -> Callable[[Result], bool]:
    return lambda result: result.path.startswith(prefixes)


ROWS = (
    Row(
        "every page and list of the API, as engineer, lead and admin",
        "p95 50 ms, median 25 ms, 15 queries",
        lambda result: (
            result.path.startswith("pages: ") and result.median_budget == 25 and result.budget == 50
        ),
    ),
    Row("frame alone", "8 ms", _starts("pages: frame alone")),
    Row("unchanged poll", "5 ms, 2 queries", lambda result: result.path.endswith(", unchanged")),
    Row(
        "claims by person, team, state or text; inbox of 200 and of 2,000",
        "25 ms",
        lambda result: result.path.startswith("pages: ") and result.budget == 25,
    ),
    Row("request form and its panel; match preview", "50 ms", _starts("pages: request", "pages: API match")),
    Row("submit", "25 ms", _starts("writes: submit")),
    Row("approve", "25 ms", _starts("writes: approve")),
    Row(
        "month of a team, fleet, profile list",
        "50 ms",
        lambda result: result.path in ("pages: month of a team", "pages: fleet", "pages: profiles to edit"),
    ),
    Row("first byte of a CSV file", "100 ms", lambda result: result.path.endswith("CSV begins")),
    Row("100,000 claims as CSV", "5,000 ms", lambda result: result.path == "exports: claims, every row"),
    Row("memory that an export adds", "20 MiB", lambda result: result.path.endswith("every row, memory")),
    Row("32 people browse and poll: response (wall-clock)", "p95 400 ms", _starts("traffic: response")),
    Row("32 people browse and poll: throughput", "at least 60 /s", _starts("traffic: throughput")),
    Row("memory of the web process", "300 MiB", _starts("memory: web")),
    Row("memory of the worker", "200 MiB", _starts("memory: worker")),
    Row("memory of the sync", "250 MiB", _starts("memory: sync")),
    Row("first sync ÷ LIST and JSON decode", "1.5", _starts("first sync")),
    Row(
        "change in the cluster, at 500 + 500 per second, until the row is committed",
        "p99 1,000 ms",
        _starts("steady: change"),
    ),
    Row("approval until the object exists, at that rate", "p99 1,000 ms", _starts("steady: approv")),
    Row("sweep of every live claim", "5,000 ms", _starts("sweep: every claim")),
    Row("sweep on average", "1 % of a core", _starts("sweep: share")),
    Row("stored rows that differ from a new computation", "0", _starts("recompute: ")),
    Row("second start of the demo", "12 s", _starts("demo: second start")),
    Row("idle demo with Home open", "2 % of a core", _starts("demo: idle")),
    Row("CSS and JavaScript of a first visit", "120 KiB", _starts("browser: CSS")),
    Row("layout shift", "0", _starts("browser: layout")),
    Row("first paint", "200 ms", _starts("browser: first paint")),
    Row("interactive", "400 ms", _starts("browser: interactive")),
)


def write_figures(results: Sequence[Result], seconds: Mapping[str, float]) -> None:
    """Replace the table of figures of docs/performance.md; `seconds` is how long parts of a run took."""
    facts = machine()
    lasted = f"; the run took {seconds['all'] / 60:.1f} min" if "all" in seconds else ""
    built = f", building the data {seconds['build'] / 60:.1f}" if "build" in seconds else ""
    lines = [
        f"{datetime.now(UTC):%d %B %Y}; {facts['cores']} cores of {facts['processor']}, load at the end "
        f"{facts['load'][0]}; 40,000 devices, 100,000 claims{lasted}{built}.",
        "",
        "| path | budget | median | worst p95 | lines within budget |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        covered = [result for result in results if row.covers(result)]
        if covered:
            lines.append(f"| {row.label} | {row.budget} | {_figures(covered)} |")
    missed = sorted(
        (result for result in results if result.misses), key=lambda result: -(result.of_budget or 0)
    )
    if missed:
        lines += ["", f"Lines furthest above their budget, {min(WORST, len(missed))} of {len(missed)}:", ""]
        lines += [
            "| line | state | by how much | where its time goes, in the same run |",
            "|---|---|---|---|",
        ]
        lines += [
            _line(result.path, result.state, "; ".join(result.misses), "; ".join(result.profile))
            for result in missed[:WORST]
        ]
    _replace("figures", lines)


def write_growth(rows: Sequence[Growth]) -> None:
    """Replace the growth table of docs/performance.md: paths that grow too fast, and some of the others."""
    faster = [row for row in rows if row.too_fast]
    others = [row for row in rows if not row.too_fast and (row.path, row.state) in SHOWN]
    lines = [
        f"{len(rows) - len(faster)} of {len(rows)} paths grow no faster than their result.",
        "",
        "| path | reader | rows at 1/100, 1/10, full | result × | steps of Python | visits of PostgreSQL | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (*faster, *others):
        rows_at, steps, visits = (
            " · ".join(f"{number:,}" for number in numbers) for numbers in (row.rows, row.steps, row.visits)
        )
        verdict = "faster than its result" if row.too_fast else ""
        lines.append(_line(row.path, row.state, rows_at, f"{row.result_factor:.1f}", steps, visits, verdict))
    _replace("growth", lines)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _figures(results: Sequence[Result]) -> str:
    medians = sorted(result.cost for result in results)
    worst = max(percentile(result.budgeted) for result in results)
    unit = results[0].unit
    within = sum((result.of_budget or 0) <= 1 for result in results)
    median = medians[len(medians) // 2]
    return f"{median:,.1f} {unit} | {worst:,.1f} {unit} | {within} of {len(results)}"


def write_queries(queries: Iterable[FrequentQuery]) -> None:
    """Replace the list of frequent queries of docs/performance.md."""
    from bench.portal.explain import shortened

    lines = ["| query | per 100 requests | served by |", "|---|---|---|"]
    plans = []
    for number, query in enumerate(queries, 1):
        served_by = ", ".join(f"`{name}`" for name in query.indexes) or "no table"
        lines.append(f"| {number} | {query.per_100:.0f} | {served_by} |")
        text = shortened(query.sql)
        plans += ["", f"{number}.", "", "```sql", text[:SQL] + ("…" if len(text) > SQL else ""), "```"]
        plans += ["", "```text", query.plan, "```"]
    _replace("queries", lines + plans)


def _replace(name: str, lines: Sequence[str]) -> None:
    text = PAGE.read_text()
    start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
    block = "\n".join([start, "", *lines, "", end])
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _match: block, text))
