"""Cases through both sides, in batches: upstream in its process while ours runs here."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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
    """Seconds that each side needed: upstream's include starting its process once per batch."""

    cases: int = 0
    ours: float = 0.0
    both: float = field(default=0.0)


def verdicts(
    cases: Iterable[dict], answer: Callable[[dict], dict] = ours.answer, speed: Speed | None = None
) -> Iterator[Verdict]:
    for batch in batched(cases, BATCH):
        started = time.perf_counter()
        asked = Asked(batch)
        mine = [answer(case) for case in batch]
        ready = time.perf_counter()
        theirs = asked.answers()
        if speed:
            speed.cases += len(batch)
            speed.ours += ready - started
            speed.both += time.perf_counter() - started
        for case, their, my in zip(batch, theirs, mine, strict=True):
            yield Verdict(case, their, my, difference(their, my))
