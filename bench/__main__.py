"""`python -m bench`: measure the paths that have a budget, print a table, write bench/results.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import memory, paths, report, upstream
from bench.measure import Result
from bench.specs import FITS
from bench.world import PER_NODE, Kind, World, world

SIZES = (500, 5_000, 40_000)
MEMORY = 300.0  # MiB that the snapshot of the largest cluster may take


def main(arguments: list[str] | None = None) -> int:
    """Return 0 whatever the figures: a budget is a ratio to look at, not a test."""
    asked = _parser().parse_args(arguments)
    if asked.only.startswith("pages"):
        return _portal(asked)
    results: list[Result] = []
    skipped = []
    reason = "asked not to" if asked.no_upstream else upstream.why_not()
    if reason:
        skipped.append(f"Kubernetes' allocator was not asked: {reason}")
    say = Console(stderr=True)
    for devices in asked.devices:
        for kind in Kind:
            say.print(f"{devices:,} devices, {kind}")
            made = world(kind, devices // PER_NODE * PER_NODE)
            found = list(paths.results(kind, made, devices, asked.repeat, asked.only))
            if found and not reason:
                _compare(made, found)
            results += found
            if not asked.only or asked.only in "memory":
                results.append(_memory(kind, made, devices))
    report.show(results, skipped)
    report.write(asked.out, results, skipped)
    return 0


def _portal(asked: argparse.Namespace) -> int:
    """Measure what needs a database; Django reads its settings when it is imported, so that is done here."""
    from bench.portal.server import portal

    say = Console(stderr=True)
    with portal(asked.keep):
        from bench.portal import pages
        from bench.portal.build import build
        from bench.portal.size import Size

        build(Size(), say.print)
        results = list(pages.results(Size().devices, asked.repeat, asked.only))
    report.show(results, [])
    report.write(asked.out, results, [])
    return 0


def _compare(made: World, results: list[Result]) -> None:
    """Add what upstream takes for the same, and a note where it answers otherwise."""
    questions = [one for one in FITS if one.name in {result.path for result in results}]
    told, ours = upstream.asked(made, questions), paths.nodes_that_fit(made, questions)
    for one in results:
        if one.path in told and one.state != "cold":
            one.upstream, nodes = told[one.path]
            if nodes != ours[one.path] and one.state == "warm":
                one.notes.append(f"{one.path}: {ours[one.path]} nodes here, {nodes} upstream.")


def _memory(kind: Kind, made: World, devices: int) -> Result:
    growth = memory.added(made)
    return Result(f"memory: a cluster snapshot, {kind}", devices, "fresh process", [growth], "MiB", MEMORY)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=main.__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="paths whose name has this in it")
    parser.add_argument("--devices", type=int, nargs="+", default=SIZES, help="sizes of the clusters")
    parser.add_argument("--repeat", type=int, default=40, help="samples of each warm path")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the portal's database stays")
    parser.add_argument("--no-upstream", action="store_true", help="leave Kubernetes' allocator out")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
