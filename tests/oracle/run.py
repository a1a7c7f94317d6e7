"""Cases through both sides, in batches: upstream in its process while ours runs here."""

import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import batched

from tests.oracle import ours
from tests.oracle.compare import difference
from tests.oracle.upstream import Asked

BATCH = 500


@dataclass(frozen=True)
class Verdict:
    """One case, both answers, and in words how they differ (empty: not at all)."""

    case: dict
    upstream: dict
    ours: dict
    difference: str


@dataclass
class Speed:
    """Cases, and processor seconds of each side: those of the clock would depend on what else runs."""

    cases: int = 0
    ours: float = 0.0
    upstream: float = 0.0  # with the start of its process, once per batch


def verdicts(
    cases: Iterable[dict], answer: Callable[[dict], dict] = ours.answer, speed: Speed | None = None
) -> Iterator[Verdict]:
    for batch in batched(cases, BATCH):
        before = _children()
        asked = Asked(batch)
        started = time.process_time()
        mine = [answer(case) for case in batch]
        ended = time.process_time()
        theirs = asked.answers()
        if speed:
            speed.cases += len(batch)
            speed.ours += ended - started
            speed.upstream += _children() - before
        for case, their, my in zip(batch, theirs, mine, strict=True):
            yield Verdict(case, their, my, difference(their, my))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
