"""
On how many nodes a claim fits, and how many claims fit at once.

Nodes that look alike to the claim give one answer, so thousands of nodes need a handful of searches.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from dra import columns
from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.allocator.constraints import constraints_of
from dra.columns import unpack
from dra.match.funnel import Funnel
from dra.nodes import name_of
from dra.objects import Json
from dra.picture import Picture
from dra.pools import PoolDevice
from dra.stock import MISSING

LOOKS = 500  # searches per preview
BITS = 8  # flags that a byte of a column has room for


@dataclass(slots=True)
class Fit:
    """
    `nodes` that fit one claim, and how many claims all of them together could take, at most as many as asked.
    """

    nodes: list[str]
    claims: int
    gave_up: bool = False


def fit(picture: Picture, spec: Json, funnels: Sequence[Funnel], claims: int) -> Fit:
    """Count nodes and claims. A cordoned node takes no pod and therefore no claim."""
    nodes = [node for node in nodes_of(picture) if not (node.get("spec") or {}).get("unschedulable")]
    counted = _Counting(picture, spec, funnels, claims)
    found = Fit([], 0)
    for node in nodes:
        times = counted.times(node)
        if times:
            found.nodes.append(name_of(node))
            # Devices that several nodes reach can be taken once only: add nothing up that might be the same.
            found.claims = max(found.claims, times) if counted.wandering else found.claims + times
    found.claims = min(found.claims, claims)
    found.gave_up = counted.gave_up
    return found


def nodes_of(picture: Picture) -> Sequence[Json]:
    """Return the nodes of the picture; without any, bare ones of the names that devices are local to."""
    if picture.nodes:
        return picture.nodes
    return [
        {"metadata": {"name": name}} for name in sorted({one.node_name for one in picture.devices} - {""})
    ]


class _Counting:
    """How many claims fit a node, worked out once per look of a node."""

    def __init__(self, picture: Picture, spec: Json, funnels: Sequence[Funnel], claims: int) -> None:
        self.picture, self.claims = picture, claims
        self.claim: Json = {"metadata": {"name": "preview"}, "spec": spec}
        attributes = sorted({constraint.attribute for constraint in constraints_of(spec)})
        self.values = [picture.stock.values(attribute) for attribute in attributes]
        self.looks: dict[Hashable, int] = {}
        self.gave_up = False
        self.least = max(1, sum(needs(funnels).values()))
        self.wandering = picture.stock.wanders
        self.simple = self._counts_alone(funnels)
        self.marks = b"" if self.simple is not None else _marks(picture, funnels)
        if self.simple is None and picture.stock.special:
            self.values.append(picture.stock.pool_numbers)  # devices of one pool compete for its counters

    def _counts_alone(self, funnels: Sequence[Funnel]) -> bytes | None:
        """
        For one request of whole devices the number of free ones on a node is the answer.

        Return which are free, or None if it takes a search.
        """
        if len(funnels) != 1 or self.values or self.wandering:
            return None
        only, devices = funnels[0], self.picture.devices
        if only.failing or only.ask.all or only.ask.admin or only.ask.alternative or only.ask.capacity:
            return None
        if self.picture.stock.special & only.accepted:
            return None
        return unpack(only.free, len(devices))

    def times(self, node: Json) -> int:
        """Return how many claims fit on the node, at most as many as asked for."""
        places = self.picture.places_on(node)
        if self.simple is not None:
            free = self.simple
            return min(sum([free[place] for place in places]) // self.least, self.claims)
        look = self._look(places)
        if look not in self.looks:
            # One search that took too long, or very many searches, are as much as a page may wait for.
            self.gave_up = self.gave_up or len(self.looks) >= LOOKS
            if self.gave_up:
                return 0
            self.looks[look] = self._try(node, len(places))
        return self.looks[look]

    def _try(self, node: Json, places: int) -> int:
        """
        Return how many claims fit by trying one more at a time; they share the node, so the search sees them
        all.
        """
        times = 0
        while times < min(self.claims, max(1, 32 * places)):
            try:
                if allocate(self.picture, node, [self.claim] * (times + 1)) is None:
                    break
            except SearchGivenUp:
                self.gave_up = True
                break
            except AllocationError:
                break
            times += 1
        return times

    def _look(self, places: Sequence[int]) -> Hashable:
        """Describe a node by what matters to the claim, so that alike nodes are equal."""
        marks, values = self.marks, self.values
        seen = sorted([(mark, place) for place in places if (mark := marks[place])])
        look: list[Hashable] = [mark for mark, _ in seen]
        for of in values:
            # Which value it is does not matter, only which devices have the same.
            numbers = {MISSING: MISSING}
            look.append(tuple([numbers.setdefault(of[place], len(numbers)) for _, place in seen]))
        return tuple(look)


def needs(funnels: Sequence[Funnel]) -> dict[str, int]:
    """Return the least number of devices per request; of mode All at least one."""
    needed: dict[str, int] = {}
    for one in funnels:
        count = 1 if one.ask.all else one.ask.count
        needed[one.ask.request] = min(needed.get(one.ask.request, count), count)
    return needed


def _marks(picture: Picture, funnels: Sequence[Funnel]) -> Sequence[int]:
    """
    Number the devices by all that matters of them to the claim, alike ones alike.

    0 is a device that no request accepts or fails on.
    """
    length = len(picture.devices)
    concerned = reduce(or_, (one.accepted for one in funnels))
    groups = [group for one in funnels for group in (one.accepted, one.open)]
    groups.append(picture.available & concerned)
    failing = {place for one in funnels for place in one.failing}
    sized = any(one.ask.capacity for one in funnels)
    if not (failing or sized or picture.stock.special & concerned) and len(groups) <= BITS:
        return unpack(sum(group << bit for bit, group in enumerate(groups)), length)
    flags = [unpack(group, length) for group in groups]
    special = unpack(picture.stock.special, length)
    numbers: dict[Hashable, int] = {None: 0}
    marks = [0] * length
    for place in {*columns.places(concerned, length), *failing}:
        device = picture.devices[place]
        mark: Hashable = (
            bytes([group[place] for group in flags]),
            place in failing,
            _rest(picture, device) if special[place] else "",
            repr(device.raw.get("capacity")) if sized else "",
        )
        marks[place] = numbers.setdefault(mark, len(numbers))
    return marks


def _rest(picture: Picture, device: PoolDevice) -> str:
    """Describe what is left of a device that is shared or made of counters."""
    pool, held = (device.driver, device.pool), picture.held
    return repr(
        (
            device.key in held.holders,
            sorted((name, amount.nano) for name, amount in held.consumed.get(device.key, {}).items()),
            device.raw.get("capacity"),
            sorted((counter, amount.nano) for counter, amount in device.counters),
            sorted(held.counters.get(pool, {}).items()) if device.counters else (),
            sorted(picture.counters.get(pool, {}).items()) if device.counters else (),
        )
    )
