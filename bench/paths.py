"""The paths that have a budget, over one cluster, cold and warm told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from bench.measure import Result, timed
from bench.specs import FITS, FUNNEL, MATCHED, Question
from bench.world import Kind, World
from dra.cluster_snapshot import ClusterSnapshot
from dra.match import preview
from dra.match.funnel import funnel
from dra.objects import Manifest, device_requests

MATCH, FIT = 50.0, 150.0  # ms: which devices match; whether, where and why not a claim fits
COLD = 3  # times that everything is worked out from nothing

type Answer = Callable[[ClusterSnapshot, Manifest], object]


def snapshot_of(made: World) -> ClusterSnapshot:
    return ClusterSnapshot(made.classes, made.slices, made.claims, made.taint_rules, made.nodes)


def matched(snapshot: ClusterSnapshot, spec: Manifest) -> object:
    return [funnel(snapshot, ask).free.bit_count() for ask in device_requests(spec)]


def results(kind: Kind, made: World, devices: int, repeat: int, only: str) -> Iterator[Result]:
    """Yield a line per question and state."""
    paths: list[tuple[Question, Answer, float]] = [(MATCHED, matched, MATCH), (FUNNEL, preview, FIT)]
    paths += [(question, preview, FIT) for question in FITS]
    snapshot = snapshot_of(made)
    for question, answer, budget in paths:
        if question.kind is not kind or only not in question.name:
            continue
        for state, runs in _states(snapshot, made, question.spec, answer, repeat):
            limit = None if state == "cold" else budget
            walls, threads = timed(runs)
            yield Result(question.name, devices, state, walls, budget=limit, processor=threads)


def nodes_that_fit(made: World, questions: Iterable[Question]) -> dict[str, int | None]:
    """Return the answers themselves, by question."""
    snapshot = snapshot_of(made)
    return {question.name: preview(snapshot, question.spec).nodes_that_fit for question in questions}


def _states(
    snapshot: ClusterSnapshot, made: World, spec: Manifest, answer: Answer, repeat: int
) -> Iterator[tuple[str, Iterator[Callable[[], object]]]]:
    """
    Yield what is asked in each state of the process, and how it is run.

    Cold knows the objects alone. A new selector is one that nobody has asked for; a claim that has moved is
    one that gave its devices back since the last question.
    """
    yield "cold", (lambda: answer(snapshot_of(made), spec) for _ in range(COLD))
    answer(snapshot, spec)
    yield "warm", (partial(answer, snapshot, spec) for _ in range(repeat))
    yield "new selector", (partial(answer, snapshot, _renamed(spec, time)) for time in range(repeat))
    yield "claim moved", (partial(_moved, snapshot, made, spec, answer, time) for time in range(repeat))


def _moved(snapshot: ClusterSnapshot, made: World, spec: Manifest, answer: Answer, time: int) -> object:
    gone = made.claims[time % len(made.claims)]
    rest = [one for one in made.claims if one is not gone]
    return answer(snapshot.after(claims=rest, changed_claims=[(gone, None)]), spec)


def _renamed(spec: Manifest, time: int) -> Manifest:
    """Return the spec with selectors that mean the same and that no table of known ones has."""
    requests = []
    for request in spec["devices"]["requests"]:
        if "exactly" in request:
            requests.append(request | {"exactly": _with_comment(request["exactly"], time)})
        else:
            parts = [_with_comment(one, time) for one in request["firstAvailable"]]
            requests.append(request | {"firstAvailable": parts})
    return {"devices": spec["devices"] | {"requests": requests}}


def _with_comment(ask: Manifest, time: int) -> Manifest:
    expressions = [one["cel"]["expression"] for one in ask.get("selectors", ())] or ["true"]
    return ask | {"selectors": [{"cel": {"expression": f"{one} && {time} == {time}"}} for one in expressions]}
