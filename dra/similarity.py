"""
Whether two specs ask for the same, and in what they differ.

Whether two claim specs ask for the same, whatever they call it, and how they differ if they do not.

What a request is called says nothing about devices, nor does the order of its selectors, all of which have
to hold. The order of requests does: devices are given first fit, in that order.

The other way round from `together`: of which known specs a claim is made that takes several.

Requests of one part stand one behind the other, as `together` writes them, whatever they are called; the
names that `together` would give come before others. Each known spec is taken at most once.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from dra.canonical import canonical
from dra.fallback import CannotCombineError, request_names, together
from dra.manifests import with_count
from dra.objects import Json, Manifest, alternatives, requests


@dataclass(frozen=True, slots=True)
class SpecSimilarity:
    """
    A spec beside another one. `count` makes the first as like the second as it gets, 1 where it has none to
    set; `spec` is the first with it. `differences` are sentences on what the second has otherwise, none where
    both ask for the same.
    """

    count: int
    spec: Json
    differences: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return not self.differences


def compare_specs(spec: Json, scalable: str, other: Json, most: int | None = None) -> SpecSimilarity:
    """
    Compare `spec`, whose request `scalable` takes a count of up to `most`, with `other`; both well-formed.
    """
    count, sized = 1, spec
    place = next((at for at, one in enumerate(requests(spec)) if one.get("name") == scalable), None)
    if scalable and place is not None and place < len(requests(other)):
        exactly = requests(other)[place].get("exactly") or {}
        if exactly.get("allocationMode") != "All":
            count = max(int(exactly.get("count") or 1), 1)
            count = count if most is None else min(count, most)
            sized = with_count(spec, scalable, count)
    own, others = same_names(sized), same_names(other)
    found = tuple(_differences(own, others))
    if not found and own != others:
        found = ("The file says something else that the API has no words for.",)
    return SpecSimilarity(count, sized, found)


def same_names(spec: Json) -> Manifest:
    """
    Return the canonical spec with its requests, and the alternatives of each, called by their places; what
    stands for all requests names them, and what has no order is sorted.
    """
    made = canonical(spec)
    devices = made["devices"]
    names: dict[str, str] = {}
    for at, request in enumerate(devices.get("requests") or ()):
        own, new = str(request.get("name")), f"request-{at + 1}"
        names[own] = request["name"] = new
        for place, way in enumerate(request.get("firstAvailable") or ()):
            names[f"{own}/{way.get('name')}"] = f"{new}/way-{place + 1}"
            way["name"] = f"way-{place + 1}"
        for ask in [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or ():
            _sort(ask)
    every = [request["name"] for request in devices.get("requests") or ()]
    for kind in ("constraints", "config"):
        for one in devices.get(kind) or ():
            one["requests"] = sorted(names.get(name, name) for name in one.get("requests") or ()) or every
    if "constraints" in devices:
        devices["constraints"].sort(key=_text)
    return made


def _sort(ask: Manifest) -> None:
    for selector in ask.get("selectors") or ():
        expression = (selector.get("cel") or {}).get("expression")
        if isinstance(expression, str):
            selector["cel"]["expression"] = expression.strip()
    for kind in ("selectors", "tolerations"):
        if kind in ask:
            ask[kind] = sorted(ask[kind], key=_text)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _differences(own: Json, other: Json) -> Iterator[str]:
    here, there = requests(own), requests(other)
    if len(here) != len(there):
        yield f"The file makes {_number(len(there), 'request')}, the profile {_number(len(here), 'request')}."
    for at, (mine, theirs) in enumerate(zip(here, there, strict=False)):
        alone = len(here) == len(there) == 1
        for sentence in _of_request(mine, theirs):
            yield f"{sentence[:1].upper()}{sentence[1:]}" if alone else f"Request {at + 1}: {sentence}"
    parts = (own.get("devices") or {}, other.get("devices") or {})
    for kind, what in (("constraints", "constraint"), ("config", "driver setting")):
        lists = [Counter(_text(_unnamed(one)) for one in part.get(kind) or ()) for part in parts]
        for text in _only(lists[0], lists[1], what):
            yield f"{text[:1].upper()}{text[1:]}"
        if lists[0] == lists[1] and parts[0].get(kind) != parts[1].get(kind):
            yield f"A {what} is for other requests, or they stand in another order."


def _of_request(mine: Json, theirs: Json) -> Iterator[str]:
    ways = (alternatives(mine), alternatives(theirs))
    if bool(mine.get("firstAvailable")) != bool(theirs.get("firstAvailable")) or len(ways[0]) != len(ways[1]):
        there, here = _number(len(ways[1]), "way"), _number(len(ways[0]), "way")
        yield f"the file has {there} to meet it, the profile {here}."
        return
    for own, other in zip(*ways, strict=True):
        yield from _of_ask(own.raw, other.raw)


def _of_ask(mine: Json, theirs: Json) -> Iterator[str]:
    words = {
        "deviceClassName": "device class",
        "allocationMode": "mode",
        "count": "number of devices",
        "adminAccess": "admin access",
    }
    for key, what in words.items():
        if mine.get(key) != theirs.get(key):
            yield f"the file has {what} {_said(theirs.get(key))}, the profile {_said(mine.get(key))}."
    texts = [
        Counter(str((one.get("cel") or {}).get("expression")) for one in ask.get("selectors") or ())
        for ask in (mine, theirs)
    ]
    yield from _only(texts[0], texts[1], "selector")
    for key, what in (("tolerations", "toleration"), ("derivedAttributes", "derived attribute")):
        rows = [Counter(_text(one) for one in ask.get(key) or ()) for ask in (mine, theirs)]
        yield from _only(rows[0], rows[1], what)
    amounts = [(ask.get("capacity") or {}).get("requests") or {} for ask in (mine, theirs)]
    for name in sorted({*amounts[0], *amounts[1]}):
        if amounts[0].get(name) != amounts[1].get(name):
            yield (
                f"the file asks for {_said(amounts[1].get(name))} of {name}, "
                f"the profile for {_said(amounts[0].get(name))}."
            )


def _only(mine: Counter[str], theirs: Counter[str], what: str) -> Iterator[str]:
    for text in (theirs - mine).elements():
        yield f"only the file has the {what} {text}"
    for text in (mine - theirs).elements():
        yield f"only the profile has the {what} {text}"


def _unnamed(one: Json) -> Manifest:
    return {key: value for key, value in one.items() if key != "requests"}


def _said(value: object) -> str:
    return "none" if value in (None, "", False) else "yes" if value is True else str(value)


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


MOST_STEPS = 2000  # beginnings that are looked at


@dataclass(frozen=True, slots=True)
class KnownProfile:
    """A spec that may be a part: `scalable` names the request that takes a count, of up to `most`."""

    name: str
    spec: Json
    scalable: str = ""
    most: int | None = None


@dataclass(frozen=True, slots=True)
class ComparedRequest:
    """`known[at]` beside the requests of the spec that it covers."""

    at: int
    known: KnownProfile
    similarity: SpecSimilarity


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The parts in their order, and the whole that `together` makes of them beside what was given."""

    parts: tuple[ComparedRequest, ...]
    whole: SpecSimilarity

    @property
    def exact(self) -> bool:
        return self.whole.exact


@dataclass(frozen=True, slots=True)
class _Option:
    """What may stand at a place, how many of its requests are called otherwise, and the place behind it."""

    part: ComparedRequest
    otherwise: int
    behind: int


def decompose(spec: Json, known: Sequence[KnownProfile]) -> Decomposition | None:
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


def _options(spec: Json, place: int, known: Sequence[KnownProfile]) -> Iterator[_Option]:
    """Yield what the requests from `place` on may be."""
    asked = requests(spec)
    for at, one in enumerate(known):
        own = requests(one.spec)
        here = asked[place : place + len(own)]
        if not own or [*map(_classes, here)] != [*map(_classes, own)]:
            continue
        names = zip(request_names(one.name, one.spec).values(), here, strict=True)
        yield _Option(
            ComparedRequest(
                at, one, compare_specs(one.spec, one.scalable, cut_out(spec, here), most=one.most)
            ),
            sum(name != request.get("name") for name, request in names),
            place + len(own),
        )


def _found(spec: Json, options: Sequence[Sequence[_Option]]) -> Decomposition | None:
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
                more = differences + len(one.part.similarity.differences)
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


def _whole(spec: Json, parts: Sequence[ComparedRequest]) -> Decomposition | None:
    try:
        made = together([(part.known.name, part.similarity.spec) for part in parts])
    except CannotCombineError:
        return None
    return Decomposition(tuple(parts), compare_specs(made, "", spec))


def _classes(request: Json) -> Counter[str]:
    return Counter(ask.class_name for ask in alternatives(request))
