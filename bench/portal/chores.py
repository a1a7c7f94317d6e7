"""The periodic work of the worker, and the commands that compare stored rows with a new computation."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from django.apps import apps
from django.core.management import CommandError, call_command

from bench.measure import Result
from bench.portal.pages import sampled
from claims.delivery import changes, tasks
from claims.models import Claim
from claims.states import DELIVERED

ROUND = 5_000.0  # ms of CPU time for all live claims
SHARE = 1.0  # percent of a core on average
SWEEPS = 8  # samples
REPAIRS = ("recount_*.py", "recompute_*.py")  # each has the option --check
CHECKED_APPS = ("claims", "inventory", "usage", "teams", "notify")


def recompute(devices: int, only: str) -> Iterator[Result]:
    """Yield a line per command."""
    for name in sorted(commands()):
        path = f"recompute: {name}"
        if only in path:
            yield _recompute(path, name, devices)


def sweep(devices: int) -> Iterator[Result]:
    """Measure sweeps; each looks at a slice of the live claims, so a full round takes many."""
    tasks.sweep()
    walls, processor = sampled(tasks.sweep, SWEEPS)
    in_round = math.ceil(Claim.objects.filter(state__in=DELIVERED).count() / changes.SLICE)
    full = [in_round * milliseconds for milliseconds in processor]
    once = statistics.median(processor)
    note = f"sweep: {in_round} sweeps look at every claim once, one takes {once:,.0f} ms."
    path = "sweep: every claim once"
    yield Result(
        path,
        devices,
        "worker",
        [in_round * wall for wall in walls],
        budget=ROUND,
        processor=full,
        notes=[note],
    )
    share = [100 * milliseconds / 1000 / tasks.SWEEP_SECONDS for milliseconds in processor]
    yield Result("sweep: share of a core", devices, "worker", share, "%", SHARE)


def commands() -> Iterator[str]:
    """Yield the portal's commands that compare stored rows with a new computation."""
    for label in CHECKED_APPS:
        folder = Path(apps.get_app_config(label).path) / "management" / "commands"
        for pattern in REPAIRS:
            yield from (file.stem for file in folder.glob(pattern))


def _recompute(path: str, name: str, devices: int) -> Result:
    """Return 0 if every stored row is as it would be computed now, else 1."""
    output, started, difference = StringIO(), time.perf_counter(), 0.0
    try:
        call_command(name, check=True, stdout=output)
        sentence = output.getvalue().strip()
    except CommandError as error:
        difference, sentence = 1.0, str(error)
    seconds = time.perf_counter() - started
    note = f"{path}: {sentence} ({seconds:.1f} s)"
    return Result(path, devices, "check", [difference], "differences", 0.0, notes=[note])
