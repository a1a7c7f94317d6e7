"""
The other way round from `together`: of which known specs a claim is made that takes several.

Requests of one part stand one behind the other, as `together` writes them, whatever they are called; the
names that `together` would give come before others. Each known spec is taken at most once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from dra.help.fallback import CannotCombineError
from dra.help.together import request_names, together
from dra.likeness import Likeness, likeness
from dra.objects import Json, Manifest, alternatives, requests

MOST_STEPS = 2000  # beginnings that are looked at


@dataclass(frozen=True, slots=True)
class Known:
    """A spec that may be a part: `scalable` names the request that takes a count, of up to `most`."""

    name: str
    spec: Json
    scalable: str = ""
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """`known` is `at` this place of the list that was given; `likeness` holds it beside its own requests."""

    at: int
    known: Known
    likeness: Likeness


@dataclass(frozen=True, slots=True)
class Apart:
    """The parts in their order, and the whole that `together` makes of them beside what was given."""

    parts: tuple[Part, ...]
    whole: Likeness

    @property
    def exact(self) -> bool:
        return self.whole.exact


@dataclass(frozen=True, slots=True)
class _Option:
    """What may stand at a place, how many of its requests are called otherwise, and the place behind it."""

    part: Part
    otherwise: int
    behind: int


def taken_apart(spec: Json, known: Sequence[Known]) -> Apart | None:
    """
    Return of which two or more of `known` the spec is made; with differences where it is not made of any, but
    each of its requests is for the same device classes. None where there is nothing of the kind.
    """
    size = len(requests(spec))
    if size < 2:
        return None
    options = [list(_options(spec, place, known)) for place in range(size)]
    as_named = [[one for one in here if not one.otherwise] for here in options]
    by_name = _found(spec, as_named)
    return by_name if by_name is not None and by_name.exact else _found(spec, options) or by_name


def _options(spec: Json, place: int, known: Sequence[Known]) -> Iterator[_Option]:
    """Yield what the requests from `place` on may be."""
    asked = requests(spec)
    for at, one in enumerate(known):
        own = requests(one.spec)
        here = asked[place : place + len(own)]
        if not own or [*map(_classes, here)] != [*map(_classes, own)]:
            continue
        names = zip(request_names(one.name, one.spec).values(), here, strict=True)
        yield _Option(
            Part(at, one, likeness(one.spec, one.scalable, cut_out(spec, here), most=one.most)),
            sum(name != request.get("name") for name, request in names),
            place + len(own),
        )


def _found(spec: Json, options: Sequence[Sequence[_Option]]) -> Apart | None:
    """
    Go on from the beginning with the fewest differences; of several from the longest, then the best named.
    """
    order = count()
    heap: list[tuple[int, int, int, int, tuple[_Option, ...]]] = [(0, 0, 0, next(order), ())]
    for _step in range(MOST_STEPS):
        if not heap:
            return None
        differences, minus, otherwise, _tie, chosen = heapq.heappop(heap)
        if -minus == len(options):
            if len(chosen) > 1 and (whole := _whole(spec, [one.part for one in chosen])):
                return whole
            continue
        taken = {one.part.at for one in chosen}
        for one in options[-minus]:
            if one.part.at not in taken:
                more = differences + len(one.part.likeness.differences)
                row = (more, -one.behind, otherwise + one.otherwise, next(order), (*chosen, one))
                heapq.heappush(heap, row)
    return None


def cut_out(spec: Json, here: Sequence[Json]) -> Manifest:
    """Return the spec of these requests with the constraints and configuration that are for them alone."""
    names = {str(request.get("name")) for request in here}
    devices = spec.get("devices") or {}
    made: Manifest = {"requests": list(here)}
    for kind in ("constraints", "config"):
        own = [
            one
            for one in devices.get(kind) or ()
            if one.get("requests") and {str(name).partition("/")[0] for name in one["requests"]} <= names
        ]
        if own:
            made[kind] = own
    return {"devices": made}


def _whole(spec: Json, parts: Sequence[Part]) -> Apart | None:
    try:
        made = together([(part.known.name, part.likeness.spec) for part in parts])
    except CannotCombineError:
        return None
    return Apart(tuple(parts), likeness(made, "", spec))


def _classes(request: Json) -> Counter[str]:
    return Counter(ask.class_name for ask in alternatives(request))
