"""Specs that ask for one thing less, in the order of the spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from dra.cel.idioms import conjuncts, joined, quoted
from dra.columns import Column, places
from dra.facts import Malformed, value
from dra.help.report import Relief, Way
from dra.match.conditions import Condition, condition
from dra.match.funnel import funnel
from dra.objects import MAX_RESULTS, Ask, Json, Manifest, asks, constraints, requests
from dra.picture import Picture
from dra.quantity import Quantity, QuantityError
from dra.semver import Version, VersionError
from dra.taints import Taint, tolerates

TAINTS = 5  # that keep the most devices away

type Bound = Quantity | Version | int


@dataclass(frozen=True, slots=True)
class Found:
    """A way to try: one spec, or of a count one spec for each smaller count from 1 on."""

    relief: Relief
    specs: Sequence[Json]


def ways(picture: Picture, spec: Json, free: Column) -> Iterator[Found]:
    """Yield the ways; `free` are the devices that the spec could take now."""
    for ask in asks(spec):
        yield from _counts(spec, ask)
    for number, raw in enumerate(constraints(spec)):
        attribute = str(raw.get("matchAttribute") or raw.get("distinctAttribute") or "")
        less = deepcopy(dict(spec))
        del less["devices"]["constraints"][number]
        yield Found(Relief(Way.CONSTRAINT, constraint=attribute), [less])
    for ask in asks(spec):
        yield from _conditions(picture, spec, ask, free)
        yield from _tolerations(picture, spec, ask)


def _changed(spec: Json, ask: Ask, **fields: object) -> Manifest:
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


def _counts(spec: Json, ask: Ask) -> Iterator[Found]:
    if ask.all or ask.count < 2:
        return
    most = min(ask.count - 1, MAX_RESULTS)
    specs = [_changed(spec, ask, count=count) for count in range(1, most + 1)]
    if len(specs) == 1:
        yield Found(Relief(Way.COUNT, ask.result_name, was=str(ask.count), instead="1"), specs)
    else:
        yield Found(Relief(Way.COUNT, ask.result_name, was=str(ask.count)), specs)


def _conditions(picture: Picture, spec: Json, ask: Ask, free: Column) -> Iterator[Found]:
    for number, expression in enumerate(ask.expressions):
        parts = conjuncts(expression)
        for place, part in enumerate(parts):
            read = condition(part)
            less = _with_selector(spec, ask, number, [*parts[:place], *parts[place + 1 :]])
            if bound := _next_bound(picture, less, read, free):
                lower = read.with_wanted(str(bound) if isinstance(bound, int) else quoted(str(bound)))
                with_bound = _with_selector(spec, ask, number, [*parts[:place], lower, *parts[place + 1 :]])
                relief = Relief(
                    Way.THRESHOLD, ask.result_name, condition=read, was=read.wanted, instead=str(bound)
                )
                yield Found(relief, [with_bound])
            yield Found(Relief(Way.CONDITION, ask.result_name, condition=read), [less])


def _with_selector(spec: Json, ask: Ask, number: int, parts: Sequence[str]) -> Manifest:
    """Return a copy of the spec in which one selector asks for these parts alone."""
    texts = ask.expressions
    texts[number] = joined(parts)
    selectors = [{"cel": {"expression": text}} for text in texts if text]
    return _changed(spec, ask, selectors=selectors)


def _next_bound(picture: Picture, less: Json, read: Condition, free: Column) -> Bound | None:
    """
    Return what to compare with so that the next devices match; None if the condition has no such bound.

    `less` is the spec without the condition: what it frees has the values to choose from.
    """
    if read.sign not in (">=", "<=") or not read.refs:
        return None
    gained: Column = 0
    for ask in asks(less):
        gained |= funnel(picture, ask).free
    seen: dict[str, Bound] = {}
    for place in places(gained ^ (gained & free), len(picture.devices)):
        try:
            found = value(picture.devices[place], read.refs[0])
        except Malformed:
            continue
        if isinstance(found, Quantity | Version | int) and not isinstance(found, bool):
            seen[str(found)] = found
    return _nearest(read, list(seen.values()))


def _nearest(read: Condition, found: Sequence[Bound]) -> Bound | None:
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


def _tolerations(picture: Picture, spec: Json, ask: Ask) -> Iterator[Found]:
    made = funnel(picture, ask)
    away: Counter[tuple[str, str, str]] = Counter()
    for place in places(made.accepted ^ made.open, len(picture.devices)):
        for taint in picture.taints[place]:
            if taint.blocks and not tolerates(ask.tolerations, taint):
                away[taint.key, taint.value, taint.effect] += 1
    for (key, said, effect), _ in away.most_common(TAINTS):
        toleration = {"key": key, "operator": "Equal", "value": said, "effect": effect}
        tolerations = [*ask.tolerations, toleration if said else toleration | {"operator": "Exists"}]
        tolerations[-1] = {name: text for name, text in tolerations[-1].items() if text}
        relief = Relief(Way.TOLERATION, ask.result_name, taint=Taint(key, effect, said))
        yield Found(relief, [_changed(spec, ask, tolerations=tolerations)])
