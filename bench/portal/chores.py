"""The periodic work of the worker, and the command that compares stored rows with a new computation."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from io import StringIO

from django.core.management import CommandError, call_command

from bench.costs import costs_of
from bench.measure import Result
from bench.portal.pages import portal_process, sampled
from bench.portal.work import counted
from claims.catalogue import waits
from claims.delivery import changes, tasks
from claims.models import Claim, SweepRound
from claims.states import DELIVERED
from portal.management.commands.recompute import SUBJECTS

ROUND = 5_000.0  # ms of CPU time for all live claims
SHARE = 1.0  # percent of a core on average
SWEEPS = 8  # samples
UNTIL_SETTLED = 3  # sweeps: the first one stores what it observes


def recompute(devices: int, only: str) -> Iterator[Result]:
    """Yield a line per kind of stored rows, after the task that stores the waits of the approvals before."""
    waits.refresh()
    for name in SUBJECTS:
        path = f"recompute: {name}"
        if only in path:
            yield _recompute(path, name, devices)


def sweep(devices: int) -> Iterator[Result]:
    """
    Measure sweeps of claims that were looked at before and have not changed.

    Each looks at a slice of the live claims, so a full round takes many.
    """

    def sweep_first_slice() -> None:
        SweepRound.objects.update(after="")
        tasks.sweep()

    with portal_process(is_worker=True):
        for _ in range(UNTIL_SETTLED):
            sweep_first_slice()
        walls, processor = sampled(sweep_first_slice, SWEEPS)
        work = counted(sweep_first_slice)
    live = Claim.objects.filter(state__in=DELIVERED).count()
    in_round = max(1.0, live / changes.SLICE)  # the last slice is a part of one
    full = [in_round * milliseconds for milliseconds in processor]
    once = statistics.median(processor)
    note = f"sweep: {math.ceil(in_round)} sweeps look at every claim once, one takes {once:,.0f} ms."
    path = "sweep: every claim once"
    every_claim = Result(
        path,
        devices,
        "worker",
        [in_round * wall for wall in walls],
        budget=ROUND,
        processor=full,
        rows=live,
        notes=[note],
        steps=round(in_round * work.steps),
        visits=round(in_round * work.visits),
    )
    share = [100 * milliseconds / 1000 / tasks.SWEEP_SECONDS for milliseconds in processor]
    of_core = Result("sweep: share of a core", devices, "worker", share, "%", SHARE, rows=live)
    if every_claim.misses or of_core.misses:
        every_claim.profile = of_core.profile = costs_of(sweep_first_slice)
    yield from (every_claim, of_core)


def _recompute(path: str, name: str, devices: int) -> Result:
    """Return 0 if every stored row is as it would be computed now, else 1."""
    output, started, difference = StringIO(), time.perf_counter(), 0.0
    try:
        call_command("recompute", name, check=True, stdout=output)
    except CommandError:
        difference = 1.0
    seconds = time.perf_counter() - started
    note = f"recompute: {output.getvalue().strip()} ({seconds:.1f} s)"
    return Result(path, devices, "check", [difference], "differences", 0.0, notes=[note])
