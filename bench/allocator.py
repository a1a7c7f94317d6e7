"""The questions to the allocator that have a budget, over one cluster, cold and warm."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count

from bench.costs import costs_of
from bench.measure import Result, timed
from bench.specs import FITS, FUNNEL, MATCHED, Question
from bench.world import Kind, World
from dra.cluster_snapshot import ClusterSnapshot
from dra.match import preview
from dra.match.funnel import funnel
from dra.objects import Manifest, device_requests

MATCH, FIT = 50.0, 150.0  # ms: which devices match; whether, where and why not a claim fits
COLD = 3  # samples that compute everything anew

type Answer = Callable[[ClusterSnapshot, Manifest], object]
type Run = Callable[[int], object]  # with the number of the sample


def snapshot_of(cluster: World) -> ClusterSnapshot:
    return ClusterSnapshot(
        cluster.classes, cluster.slices, cluster.claims, cluster.taint_rules, cluster.nodes
    )


def matched(snapshot: ClusterSnapshot, spec: Manifest) -> object:
    return [funnel(snapshot, request).free.bit_count() for request in device_requests(spec)]


def results(kind: Kind, cluster: World, devices: int, repeat: int, only: str) -> Iterator[Result]:
    """Yield a line per question and state."""
    paths: list[tuple[Question, Answer, float]] = [(MATCHED, matched, MATCH), (FUNNEL, preview, FIT)]
    paths += [(question, preview, FIT) for question in FITS]
    snapshot = snapshot_of(cluster)
    for question, answer, budget in paths:
        if question.kind is not kind or only not in question.name:
            continue
        for state, run, times in _states(snapshot, cluster, question.spec, answer, repeat):
            limit = None if state == "cold" else budget
            walls, threads = timed(partial(run, time) for time in range(times))
            result = Result(question.name, devices, state, walls, budget=limit, processor=threads)
            if result.misses:
                more = count(times)
                result.profile = costs_of(partial(_next, run, more))
            yield result


def _next(run: Run, numbers: Iterator[int]) -> object:
    return run(next(numbers))


def nodes_that_fit(cluster: World, questions: Iterable[Question]) -> dict[str, int | None]:
    """Return the answers themselves, by question."""
    snapshot = snapshot_of(cluster)
    return {question.name: preview(snapshot, question.spec).nodes_that_fit for question in questions}


def _states(
    snapshot: ClusterSnapshot, cluster: World, spec: Manifest, answer: Answer, repeat: int
) -> Iterator[tuple[str, Run, int]]:
    """
    Yield each state with what runs in it, and how often it is measured.

    Cold: the snapshot has only the objects. New selector: expressions that were never evaluated. Claim moved:
    a claim has released its devices since the last question.
    """
    yield "cold", lambda _time: answer(snapshot_of(cluster), spec), COLD
    answer(snapshot, spec)
    gc.collect()
    gc.freeze()  # as the portal does with a snapshot: a full collection would visit a million objects
    try:
        yield "warm", lambda _time: answer(snapshot, spec), repeat
        yield "new selector", lambda time: answer(snapshot, _renamed(spec, time)), repeat
        yield "claim moved", lambda time: _moved(snapshot, cluster, spec, answer, time), repeat
    finally:
        gc.unfreeze()


def _moved(snapshot: ClusterSnapshot, cluster: World, spec: Manifest, answer: Answer, time: int) -> object:
    gone = cluster.claims[time % len(cluster.claims)]
    rest = [claim for claim in cluster.claims if claim is not gone]
    return answer(snapshot.after(claims=rest, changed_claims=[(gone, None)]), spec)


def _renamed(spec: Manifest, time: int) -> Manifest:
    """Return the spec with selectors that mean the same and are in no table of known selectors."""
    requests = []
    for request in spec["devices"]["requests"]:
        if "exactly" in request:
            requests.append(request | {"exactly": _with_comment(request["exactly"], time)})
        else:
            parts = [_with_comment(part, time) for part in request["firstAvailable"]]
            requests.append(request | {"firstAvailable": parts})
    return {"devices": spec["devices"] | {"requests": requests}}


def _with_comment(request: Manifest, time: int) -> Manifest:
    expressions = [row["cel"]["expression"] for row in request.get("selectors", ())] or ["true"]
    selectors = [{"cel": {"expression": f"{text} && {time} == {time}"}} for text in expressions]
    return request | {"selectors": selectors}
