"""
What asking for less would bring: fewer devices, weaker conditions, one by one and each tried.

What one way of asking for less would bring.

Specs that ask for one thing less, in the order of the spec.

What would help a claim that does not fit: one thing less asked for at a time, each tried on the picture.

Nothing is guessed: every way is a spec, and what is said of it is what `dra.match.preview` says of that
spec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from operator import or_

from dra.cel.idioms import conjuncts, joined, quoted
from dra.cluster_snapshot import ClusterSnapshot
from dra.facts import Malformed, value
from dra.match import NoFitReason, Preview, preview
from dra.match.conditions import SelectorCondition, condition, in_words
from dra.match.funnel import NodeOffer, funnel
from dra.objects import MAX_RESULTS, DeviceRequest, Json, Manifest, constraints, device_requests, requests
from dra.quantity import Quantity, QuantityError
from dra.selector_results import Column, places
from dra.semver import Version, VersionError
from dra.taints import Taint, tolerates


class Relaxation(StrEnum):
    """What is asked for less; stable, for programs."""

    CONDITION = "condition"
    THRESHOLD = "threshold"
    COUNT = "count"
    CONSTRAINT = "constraint"
    TOLERATION = "toleration"


@dataclass(frozen=True, slots=True)
class Relief:
    """
    One thing less asked for, and what that brings: `more` free devices that match, `more_nodes` with room.

    Which thing is told by `condition`, `taint`, or `constraint` (the attribute that constrains); `was` and
    `instead` are a bound of a condition, or a count. `fits` says that all claims would fit now, which they do
    not as asked; `spec` is the spec so changed.
    """

    way: Relaxation
    request: str = ""  # "" where it is about all of them
    condition: SelectorCondition | None = None
    taint: Taint | None = None
    constraint: str = ""
    together: NodeOffer | None = None
    was: str = ""
    instead: str = ""
    fits: bool = False
    more: int = 0
    more_nodes: int = 0
    spec: Json = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Say in English what would be asked for instead."""
        match self.way:
            case Relaxation.CONDITION if self.condition:
                return f"without {self.condition.words or self.condition.text}"
            case Relaxation.THRESHOLD if self.condition:
                instead, was = in_words(self.instead), in_words(self.was)
                if instead == was:  # too close for words
                    instead, was = self.instead, self.was
                return f"{self.condition.name} {instead} instead of {was}"
            case Relaxation.COUNT:
                return f"{self.instead} instead of {self.was}"
            case Relaxation.CONSTRAINT:
                return f"without the constraint on {self.constraint}"
            case Relaxation.TOLERATION if self.taint:
                key = f"{self.taint.key}={self.taint.value}" if self.taint.value else self.taint.key
                return f"tolerating {key}:{self.taint.effect}"
        return ""

    @property
    def sentence(self) -> str:
        if self.fits:
            return f"{self.what}: fits now"
        if self.more:
            return f"{self.what}: {self.more} more free"
        nodes = "node" if self.more_nodes == 1 else "nodes"
        return f"{self.what}: {self.more_nodes} more {nodes} with room"


TAINTS = 5  # that keep the most devices away

type Bound = Quantity | Version | int


@dataclass(frozen=True, slots=True)
class TriedRelaxation:
    """A way to try: one spec, or of a count one spec for each smaller count from 1 on."""

    relief: Relief
    specs: Sequence[Json]


def ways(snapshot: ClusterSnapshot, spec: Json, free: Column) -> Iterator[TriedRelaxation]:
    """Yield the ways; `free` are the devices that the spec could take now."""
    for ask in device_requests(spec):
        yield from _counts(spec, ask)
    for number, raw in enumerate(constraints(spec)):
        attribute = str(raw.get("matchAttribute") or raw.get("distinctAttribute") or "")
        less = deepcopy(dict(spec))
        del less["devices"]["constraints"][number]
        yield TriedRelaxation(Relief(Relaxation.CONSTRAINT, constraint=attribute), [less])
    for ask in device_requests(spec):
        yield from _conditions(snapshot, spec, ask, free)
        yield from _tolerations(snapshot, spec, ask)


def _changed(spec: Json, ask: DeviceRequest, **fields: object) -> Manifest:
    """Return a copy of the spec with other fields at the place of the ask."""
    made = deepcopy(dict(spec))
    for request in requests(made):
        if request.get("name") != ask.request:
            continue
        options = request.get("firstAvailable") if ask.alternative else [request["exactly"]]
        for option in options or ():
            if not ask.alternative or option.get("name") == ask.alternative:
                option |= fields
    return made


def _counts(spec: Json, ask: DeviceRequest) -> Iterator[TriedRelaxation]:
    if ask.all or ask.count < 2:
        return
    most = min(ask.count - 1, MAX_RESULTS)
    specs = [_changed(spec, ask, count=count) for count in range(1, most + 1)]
    if len(specs) == 1:
        yield TriedRelaxation(
            Relief(Relaxation.COUNT, ask.result_name, was=str(ask.count), instead="1"), specs
        )
    else:
        yield TriedRelaxation(Relief(Relaxation.COUNT, ask.result_name, was=str(ask.count)), specs)


def _conditions(
    snapshot: ClusterSnapshot, spec: Json, ask: DeviceRequest, free: Column
) -> Iterator[TriedRelaxation]:
    for number, expression in enumerate(ask.expressions):
        parts = conjuncts(expression)
        for place, part in enumerate(parts):
            read = condition(part)
            less = _with_selector(spec, ask, number, [*parts[:place], *parts[place + 1 :]])
            if bound := _next_bound(snapshot, less, read, free):
                lower = read.with_wanted(str(bound) if isinstance(bound, int) else quoted(str(bound)))
                with_bound = _with_selector(spec, ask, number, [*parts[:place], lower, *parts[place + 1 :]])
                relief = Relief(
                    Relaxation.THRESHOLD, ask.result_name, condition=read, was=read.wanted, instead=str(bound)
                )
                yield TriedRelaxation(relief, [with_bound])
            yield TriedRelaxation(Relief(Relaxation.CONDITION, ask.result_name, condition=read), [less])


def _with_selector(spec: Json, ask: DeviceRequest, number: int, parts: Sequence[str]) -> Manifest:
    """Return a copy of the spec in which one selector asks for these parts alone."""
    texts = ask.expressions
    texts[number] = joined(parts)
    selectors = [{"cel": {"expression": text}} for text in texts if text]
    return _changed(spec, ask, selectors=selectors)


def _next_bound(snapshot: ClusterSnapshot, less: Json, read: SelectorCondition, free: Column) -> Bound | None:
    """
    Return what to compare with so that the next devices match; None if the condition has no such bound.

    `less` is the spec without the condition: what it frees has the values to choose from.
    """
    if read.sign not in (">=", "<=") or not read.refs:
        return None
    gained: Column = 0
    for ask in device_requests(less):
        gained |= funnel(snapshot, ask).free
    seen: dict[str, Bound] = {}
    for place in places(gained ^ (gained & free), len(snapshot.devices)):
        try:
            found = value(snapshot.devices[place], read.refs[0])
        except Malformed:
            continue
        if isinstance(found, Quantity | Version | int) and not isinstance(found, bool):
            seen[str(found)] = found
    return _nearest(read, list(seen.values()))


def _nearest(read: SelectorCondition, found: Sequence[Bound]) -> Bound | None:
    try:
        if quantities := [one for one in found if isinstance(one, Quantity)]:
            amount = Quantity.parse(read.wanted)
            below = [one for one in quantities if (one < amount) == (read.sign == ">=") and one != amount]
            return (max if read.sign == ">=" else min)(below, default=None)
        if versions := [one for one in found if isinstance(one, Version)]:
            version = Version.parse(read.wanted)
            older = [one for one in versions if (one < version) == (read.sign == ">=") and one != version]
            return (max if read.sign == ">=" else min)(older, default=None)
        number = int(read.wanted)
    except (QuantityError, VersionError, ValueError):
        return None
    numbers = [one for one in found if isinstance(one, int)]
    less = [one for one in numbers if (one < number) == (read.sign == ">=") and one != number]
    return (max if read.sign == ">=" else min)(less, default=None)


def _tolerations(snapshot: ClusterSnapshot, spec: Json, ask: DeviceRequest) -> Iterator[TriedRelaxation]:
    made = funnel(snapshot, ask)
    away: Counter[tuple[str, str, str]] = Counter()
    for place in places(made.accepted ^ made.open, len(snapshot.devices)):
        for taint in snapshot.taints[place]:
            if taint.blocks and not tolerates(ask.tolerations, taint):
                away[taint.key, taint.value, taint.effect] += 1
    for (key, said, effect), _ in away.most_common(TAINTS):
        toleration = {"key": key, "operator": "Equal", "value": said, "effect": effect}
        tolerations = [*ask.tolerations, toleration if said else toleration | {"operator": "Exists"}]
        tolerations[-1] = {name: text for name, text in tolerations[-1].items() if text}
        relief = Relief(Relaxation.TOLERATION, ask.result_name, taint=Taint(key, effect, said))
        yield TriedRelaxation(relief, [_changed(spec, ask, tolerations=tolerations)])


__all__ = ["Relaxation", "Relief", "what_would_help"]

TRIES = 24  # previews, which bounds the time that a page waits
# Where these stand in the way, asking for less does not change what can be told.
HOPELESS = frozenset(
    (NoFitReason.NO_REQUEST, NoFitReason.NO_CLASS, NoFitReason.INVALID, NoFitReason.NOT_PREVIEWABLE)
)


def what_would_help(
    snapshot: ClusterSnapshot, spec: Json, claims: int = 1, now: Preview | None = None
) -> list[Relief]:
    """
    Return what makes `claims` claims of `spec` fit now, then what only brings more devices, most first.

    Where all of them fit as they are, it says what brings more devices or nodes.
    `now` is the preview of the spec, if it is known already. At most `TRIES` previews are made; a search that
    takes too long ends them.
    """
    now = preview(snapshot, spec, claims) if now is None else now
    if now.reason in HOPELESS:
        return []
    trying = _Trying(snapshot, claims, now)
    free = reduce(or_, (funnel(snapshot, ask).free for ask in device_requests(spec)), 0)
    found = [relief for way in ways(snapshot, spec, free) if (relief := trying.relief(way))]
    helpful = [one for one in found if one.fits or one.more or one.more_nodes]
    return sorted(_without_lesser(helpful), key=lambda one: (not one.fits, -one.more, -one.more_nodes))


class _Trying:
    """Previews of other specs, as many as are left."""

    def __init__(self, snapshot: ClusterSnapshot, claims: int, now: Preview) -> None:
        self.snapshot, self.claims, self.now = snapshot, claims, now
        self.left = TRIES

    def relief(self, way: TriedRelaxation) -> Relief | None:
        """Try a way; of several counts the largest that fits. None if nothing could be told."""
        if len(way.specs) == 1:
            seen = self._see(way.specs[0])
            return None if seen is None else self._made(way.relief, way.specs[0], seen)
        # What fits fits with one device less as well, so halving finds the largest count.
        low, high, best = 0, len(way.specs), None
        while low < high:
            middle = (low + high) // 2
            seen = self._see(way.specs[middle])
            if seen is None:
                return None
            if seen.fits:
                best = self._made(way.relief, way.specs[middle], seen, instead=str(middle + 1))
                low = middle + 1
            else:
                high = middle
        return best

    def _see(self, spec: Json) -> Preview | None:
        if not self.left:
            return None
        self.left -= 1
        seen = preview(self.snapshot, spec, self.claims)
        if seen.reason == NoFitReason.TOO_LONG:
            self.left = 0
        return None if seen.free is None or seen.nodes_that_fit is None else seen

    def _made(self, relief: Relief, spec: Json, seen: Preview, *, instead: str = "") -> Relief:
        return replace(
            relief,
            spec=spec,
            instead=instead or relief.instead,
            fits=seen.fits and not self.now.fits,
            more=max((seen.free or 0) - (self.now.free or 0), 0),
            more_nodes=max((seen.nodes_that_fit or 0) - (self.now.nodes_that_fit or 0), 0),
        )


def _without_lesser(found: list[Relief]) -> list[Relief]:
    """Leave out dropping a condition where a lower bound brings as much."""
    lowered = {
        (one.request, one.condition): (one.fits, one.more) for one in found if one.way == Relaxation.THRESHOLD
    }
    return [
        one
        for one in found
        if one.way != Relaxation.CONDITION
        or lowered.get((one.request, one.condition)) != (one.fits, one.more)
    ]
