"""`python -m bench`: measure everything that has a budget, print a table, write bench/results.json."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from rich.console import Console

from bench import allocator, document, memory, report, upstream
from bench.measure import Result
from bench.specs import FITS, FUNNEL, MATCHED
from bench.world import PER_NODE, Kind, World, world

if TYPE_CHECKING:
    from bench.portal.cluster import ListedCluster

SIZES = (500, 5_000, 40_000)
MEMORY = 300.0  # MiB that the snapshot of the largest cluster may take
FRACTIONS = (100, 10)  # the portal at 1/100 and 1/10 of its size, for the growth table
GROWING = ("pages", "writes", "sweep", "telemetry")  # sections that are measured at every size
SAMPLES = 20  # of each path
FEW = 5  # samples of each path of a small portal, and of the allocator in a whole run
SNAPSHOT_MEMORY = "memory: a cluster snapshot"
ALLOCATOR = "allocator"  # all of its lines
ALLOCATOR_PATHS = (MATCHED.name, FUNNEL.name, *(question.name for question in FITS), SNAPSHOT_MEMORY)


type Section = Callable[[], Iterator[Result]]


@dataclass(slots=True)
class Run:
    """One run: its options, what it has measured, and what it could not measure."""

    options: argparse.Namespace
    console: Console = field(default_factory=lambda: Console(stderr=True))
    results: list[Result] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # that each part of the run took
    started: float = field(default_factory=time.monotonic)

    def log(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self.started:6.0f} s  {text}", highlight=False)

    def wants(self, *prefixes: str) -> bool:
        """Return whether `--only` names one of these kinds of lines, or nothing."""
        only = self.options.only
        return any(only.startswith(prefix) or prefix.startswith(only) for prefix in prefixes)

    def measure(self, prefixes: Sequence[str], section: Section) -> None:
        """Add the lines of a section, if they are wanted; a failure costs only this section."""
        if not self.wants(*prefixes):
            return
        name = ", ".join(prefixes)
        self.log(name)
        start = time.monotonic()
        try:
            for result in section():
                self.results.append(result)
        except Exception as error:
            traceback.print_exc()
            self.skipped.append(f"{name}: {type(error).__name__}: {error}")
        self.seconds[name] = time.monotonic() - start


def main(arguments: list[str] | None = None) -> int:
    """Return 0 whatever the figures: a budget is a ratio to look at, not a test."""
    options = _parser().parse_args(arguments)
    run = Run(options)
    if options.profile or options.explain:
        return _inspect(run)
    background = None if options.only or options.fraction != 1 else _Background(run)
    if background is None and (options.only == ALLOCATOR or _names_allocator(options.only)):
        measure_allocator(run, "" if options.only == ALLOCATOR else options.only)
    if run.wants(*PORTAL_LINES):
        measure_portal(run, background)
    if options.fraction == 1:
        run.measure(("demo", "browser"), measure_demo)
    return finish(run, background)


def finish(run: Run, background: _Background | None) -> int:
    """Show and write what was measured; a run of some paths replaces only their lines."""
    if background is not None:
        run.results += background.wait()
        results = run.results
    else:
        results = report.merged(run.options.out, run.results)
    report.show(report.at_full_size(run.results), run.skipped)
    report.show_growth(report.growth(results))
    for sentence in report.slower(run.results, report.committed()):
        run.console.print(f"Slower than in the committed run: {sentence}", highlight=False)
    run.seconds["all"] = time.monotonic() - run.started
    report.write(run.options.out, results, run.skipped, run.seconds)
    if run.options.out == report.RESULTS:
        document.write_figures(report.at_full_size(results), run.seconds if background else {})
        document.write_growth(report.growth(results))
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in run.seconds.items())
    run.log(f"Written to {run.options.out}. Time: {parts}")
    return 0


# The allocator, without a database.


def _names_allocator(only: str) -> bool:
    return bool(only) and any(only in path for path in ALLOCATOR_PATHS)


def measure_allocator(run: Run, only: str) -> None:
    options = run.options
    reason = "left out by an option" if options.no_upstream else upstream.why_not()
    if reason:
        run.skipped.append(f"No comparison with Kubernetes' allocator: {reason}")
    for devices in options.devices:
        for kind in Kind:
            run.log(f"{devices:,} devices, {kind}")
            cluster = world(kind, devices // PER_NODE * PER_NODE)
            lines = list(allocator.results(kind, cluster, devices, options.repeat, only))
            if lines and not reason:
                _compare(cluster, lines)
            run.results += lines
            path = f"{SNAPSHOT_MEMORY}, {kind}"
            if only in path:
                growth = memory.added(cluster)
                run.results.append(Result(path, devices, "fresh process", [growth], "MiB", MEMORY))


def _compare(cluster: World, results: list[Result]) -> None:
    """Add the times of upstream, and a note where it finds another number of nodes."""
    questions = [question for question in FITS if question.name in {result.path for result in results}]
    answers, nodes_here = upstream.answers(cluster, questions), allocator.nodes_that_fit(cluster, questions)
    for result in results:
        if result.path in answers and result.state != "cold":
            result.upstream, nodes = answers[result.path]
            if nodes != nodes_here[result.path] and result.state == "warm":
                result.notes.append(f"{result.path}: {nodes_here[result.path]} nodes here, {nodes} upstream.")


# The portal, in a PostgreSQL of its own.

PORTAL_LINES = (
    *("pages", "writes", "exports", "sweep", "traffic", "memory: w", "steady", "recompute", "telemetry"),
    *("first sync", "memory: sync"),
)


def measure_portal(run: Run, background: _Background | None) -> None:
    """Build the portal and measure its sections; Django reads its settings when it is imported, here."""
    from bench.portal.size import Size

    options, size = run.options, Size().divided(run.options.fraction)
    whole = options.fraction == 1
    with open_portal(options.keep):
        from bench.portal import chores, first_sync, pages, steady, telemetry, traffic, writes
        from bench.portal.build import build

        def mirror(_cluster: object, listing: ListedCluster) -> None:
            run.results += first_sync.results(listing, size.devices)

        before, start = len(run.results), time.monotonic()
        build(size, run.log, *([mirror] if whole else []))
        run.seconds["build"] = time.monotonic() - start
        if whole and len(run.results) == before:
            run.skipped.append("The first sync is measured only while the portal is built.")
        sections: dict[tuple[str, ...], Section] = {
            ("pages",): lambda: pages.results(size.devices, options.repeat, options.only, profiled=whole),
            ("writes", "exports"): lambda: writes.results(size.devices, options.repeat, options.only),
            ("sweep",): lambda: chores.sweep(size.devices),
            ("traffic", "memory: w"): lambda: traffic.results(size.devices, options.only),
            ("steady",): lambda: steady.results(size.devices),
            ("recompute",): lambda: chores.recompute(size.devices, options.only),
            ("telemetry",): lambda: telemetry.results(size.devices),
        }
        for prefixes, section in sections.items():
            if not whole and prefixes[0] not in GROWING:
                continue
            if background is not None and prefixes[0] in ("traffic", "steady"):
                background.thread.join()  # it measures wall-clock time
            run.measure(prefixes, section)


def open_portal(folder: Path | None) -> AbstractContextManager[None]:
    from bench.portal.server import portal

    return portal(folder)


def measure_demo() -> Iterator[Result]:
    from bench import demo

    return demo.results()


class _Background:
    """What a whole run measures beside the build of the portal: small portals and the allocator."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.folder = Path(tempfile.mkdtemp(prefix="dragoman-bench-"))
        self.parts: list[tuple[str, list[str]]] = [
            (f"portal-{fraction}", ["--fraction", str(fraction), "--repeat", str(FEW)])
            for fraction in FRACTIONS
        ]
        allocator_options = ["--only", ALLOCATOR, "--repeat", str(min(run.options.repeat, FEW))]
        allocator_options += ["--no-upstream"] if run.options.no_upstream else []
        self.parts.append(("allocator", allocator_options))
        self.thread = Thread(target=self._measure)
        self.thread.start()

    def _measure(self) -> None:
        for name, options in self.parts:
            out = str(self.folder / f"{name}.json")
            command = [sys.executable, "-m", "bench", *options, "--out", out]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                self.run.skipped.append(f"{name} was not measured: {done.stderr.strip().splitlines()[-1]}")
            self.run.log(f"{name} measured")

    def wait(self) -> Sequence[Result]:
        """Return their lines once every part has ended."""
        self.thread.join()
        paths = [self.folder / f"{name}.json" for name, _options in self.parts]
        return [result for path in paths if path.exists() for result in report.read(path)]


def _inspect(run: Run) -> int:
    """Print where the time of one path goes, or write the plans of frequent queries to the docs."""
    from bench.portal.size import Size

    with open_portal(run.options.keep):
        from bench.portal import explain, profile
        from bench.portal.build import build

        build(Size().divided(run.options.fraction), run.log)
        if run.options.profile:
            profile.show(run.options.profile)
        else:
            document.write_queries(explain.frequent_queries())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=main.__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="lines whose name starts with it: pages")
    parser.add_argument("--profile", default="", metavar="PATH", help="show where the time of a path goes")
    parser.add_argument("--explain", action="store_true", help="write the plans of frequent queries")
    parser.add_argument("--devices", type=int, nargs="+", default=SIZES, help="sizes of the clusters")
    parser.add_argument(
        "--fraction", type=int, default=1, help="measure the portal at 1/FRACTION of its size"
    )
    parser.add_argument("--repeat", type=int, default=SAMPLES, help="samples of each path")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the portal's database stays")
    parser.add_argument("--no-upstream", action="store_true", help="leave Kubernetes' allocator out")
    parser.add_argument("--out", type=Path, default=report.RESULTS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
