"""
On which nodes a spec fits now, and how many claims of it.

What one request, or one alternative of it, could take now.

What a node looks like to a claim. Nodes that look alike give one answer, so thousands of nodes need a
handful of searches.

Whether a claim fits does not depend on the order in which devices are tried, and of devices that are alike
no more matter than the claims could take. Only a selector that fails makes the order tell: then it is kept.

On how many nodes a claim fits, and how many claims fit at once.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import compress
from operator import or_

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.allocator.capacity import share
from dra.allocator.constraints import constraints_of
from dra.cluster_snapshot import ClusterSnapshot
from dra.device_index import MISSING
from dra.match.funnel import Funnel
from dra.nodes import name_of
from dra.objects import Json
from dra.pools import PoolDevice
from dra.quantity import ZERO, Quantity
from dra.selector_results import DeviceMask, pack, unpack

COUNTED = 255  # shares of a device, at most


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """
    `usable` devices can be taken as they stand, if no other request takes them before.

    `shares` says per device how often, one after another, and is None where each can be taken once. Not
    `certain` if that takes a search, as where a device publishes what stops it.
    """

    funnel: Funnel
    usable: DeviceMask
    shares: bytes | None = None
    certain: bool = True

    @property
    def plain(self) -> bool:
        """Whether it asks for a number of devices and nothing stands in the way of counting them."""
        ask = self.funnel.ask
        return not (ask.all or ask.admin or self.funnel.errors or not self.certain)


def option_of(snapshot: ClusterSnapshot, funnel: Funnel, most: int) -> DeviceOption:
    """Return what the request could take; shares are counted up to `most`."""
    ask, device_index = funnel.ask, snapshot.device_index
    if ask.admin or not (ask.capacity or device_index.shareable & funnel.free):
        return DeviceOption(funnel, funnel.free)
    if not snapshot.features.consumable_capacity:
        return DeviceOption(funnel, funnel.free, certain=False)
    length, remaining_capacity = len(snapshot.devices), snapshot.remaining_capacity
    free = unpack(funnel.free, length)
    alike = dict(compress(zip(remaining_capacity, range(length), strict=True), free))
    counts: dict[int, int] = dict.fromkeys(set(remaining_capacity), 0)
    certain = True
    for number, place in alike.items():
        try:
            counts[number] = _times(snapshot, snapshot.devices[place], funnel, min(most, COUNTED))
        except AllocationError:
            counts[number], certain = 1, False
    every = int.from_bytes(bytes(map(counts.__getitem__, remaining_capacity)), "little")
    shares = unpack(every & funnel.free * COUNTED, length)
    return DeviceOption(funnel, pack(map(bool, shares)), shares, certain)


def _times(snapshot: ClusterSnapshot, device: PoolDevice, funnel: Funnel, most: int) -> int:
    """Return how often the request could take of the device what it asks of its capacity."""
    consumed: dict[str, Quantity] = dict(snapshot.held.consumed.get(device.key, {}))
    fractional = snapshot.features.fractional_capacity_range
    for times in range(most):
        taken = share(device, funnel.ask.capacity, consumed, fractional=fractional)
        if taken is None:
            return times
        if not device.shareable:
            return 1
        for name, amount in taken.items():
            consumed[name] = consumed.get(name, ZERO) + amount.quantity
    return most


BITS = 8  # flags that a byte has room for


class MatchNodeClasses:
    """How the nodes of a picture look to claims that take at most `most` devices together."""

    def __init__(
        self, snapshot: ClusterSnapshot, options: Sequence[DeviceOption], attributes: Sequence[str], most: int
    ) -> None:
        self.snapshot, self.most = snapshot, most
        device_index = snapshot.device_index
        groups = [group for option in options for group in _groups(option)]
        failing = {place for option in options for place in option.funnel.errors}
        self.in_order = bool(failing)
        if failing:
            groups.append(pack(place in failing for place in range(len(snapshot.devices))))
        seen = reduce(or_, groups, 0)
        self.flags = _bytes(groups, len(snapshot.devices))
        self.values = [device_index.values(attribute) for attribute in attributes]
        self.marks: list[Sequence[int]] = list(self.flags)
        if device_index.shareable & seen or any(option.funnel.ask.capacity for option in options):
            asked = [option.funnel.ask.capacity for option in options]
            shares = options[0].shares
            alike = all(one == asked[0] for one in asked) and len(options) == 1
            self.marks.append(shares if shares is not None and alike else snapshot.remaining_capacity)
        self.counter_devices = bool(device_index.counter_devices & seen)
        if self.counter_devices:
            self.marks.append(device_index.counter_demands)
        self._columns = [_packed(one) for one in (*self.marks, *self.values)]
        self._known: dict[Hashable, Hashable] = {}

    def look(self, runs: Sequence[range]) -> Hashable:
        """Describe the devices at these places by what matters: nodes alike to the claims are equal."""
        parts: list[Hashable] = [
            packed[run.start * width : run.stop * width] for packed, width in self._columns for run in runs
        ]
        if self.counter_devices:
            state = self.snapshot.pool_state
            for run in runs:
                parts += [
                    (times, state(number)) for times, number in self.snapshot.device_index.pools_in(run)
                ]
        raw = tuple(parts)
        known = self._known.get(raw)
        if known is None:
            known = self._known[raw] = self._normal(runs)
        return known

    def _normal(self, runs: Sequence[range]) -> Hashable:
        indices = [place for run in runs for place in run if any(flags[place] for flags in self.flags)]
        rows = [(tuple([mark[place] for mark in self.marks]), place) for place in indices]
        ties = list(self.values)
        if self.counter_devices:
            ties.append(self.snapshot.device_index.pool_numbers)
        if self.in_order:
            return _renumbered(rows, ties)
        if not ties:
            return self._counted(mark for mark, _ in rows)
        if len(ties) > 1:
            states = [self._state_at(place) for _, place in sorted(rows)]
            return (*_renumbered(sorted(rows), ties), *states)
        groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        states_of: dict[int, int] = {}
        for mark, place in rows:
            value = ties[0][place]
            groups[value].append(mark)
            states_of[value] = self._state_at(place) if self.counter_devices else int(value == MISSING)
        return self._counted((states_of[value], self._counted(group)) for value, group in groups.items())

    def _state_at(self, place: int) -> int:
        return (
            self.snapshot.pool_state(self.snapshot.device_index.pool_numbers[place])
            if self.counter_devices
            else 0
        )

    def _counted(self, found: Iterable[Hashable]) -> Hashable:
        """Return each thing with how often it is there, as far as that matters."""
        return frozenset((one, min(times, self.most)) for one, times in Counter(found).items())


def _groups(option: DeviceOption) -> list[DeviceMask]:
    """Return what the search asks of a device: of mode All also those in the way, which stop it."""
    if option.funnel.ask.all:
        return [option.funnel.accepted, option.funnel.free]
    return [option.usable]


def _bytes(groups: Sequence[DeviceMask], length: int) -> list[bytes]:
    """Return the groups as flags, eight in a byte."""
    packs = (groups[start : start + BITS] for start in range(0, len(groups), BITS))
    return [unpack(sum(group << bit for bit, group in enumerate(pack_)), length) for pack_ in packs]


def _packed(column: Sequence[int]) -> tuple[bytes, int]:
    """Return the numbers as bytes, and how many bytes each has."""
    return (column, 1) if isinstance(column, bytes) else (array("q", column).tobytes(), 8)


def _renumbered(
    rows: Sequence[tuple[tuple[int, ...], int]], ties: Sequence[Sequence[int]]
) -> tuple[Hashable, ...]:
    """Which value it is does not matter, only which devices have the same."""
    found: list[Hashable] = [mark for mark, _ in rows]
    for of in ties:
        numbers = {MISSING: MISSING}
        found.append(tuple([numbers.setdefault(of[place], len(numbers)) for _, place in rows]))
    return tuple(found)


LOOKS = 500  # searches per preview

type Runs = Sequence[range]


@dataclass(slots=True)
class FitResult:
    """
    `nodes` that fit one claim, and how many claims all of them together could take, at most as many as asked.
    """

    nodes: list[str]
    claims: int
    gave_up: bool = False


def fit(snapshot: ClusterSnapshot, spec: Json, funnels: Sequence[Funnel], claims: int) -> FitResult:
    """
    Count nodes and claims. A cordoned node takes no pod and therefore no claim.

    Raise `AllocationError` for a constraint that names no attribute.
    """
    attributes = sorted({constraint.attribute for constraint in constraints_of(spec)})
    counting = _Counting(snapshot, spec, funnels, attributes, claims)
    found = FitResult([], 0)
    looks: Counter[Hashable] = Counter()
    for node, runs in snapshot.node_ranges:
        if counting.fits(node, runs):
            found.nodes.append(name_of(node))
            looks[counting.look] += 1
    # Devices that several nodes reach can be taken once only: add nothing up that might be the same.
    if found.nodes and not snapshot.device_index.has_multi_node_devices and len(found.nodes) >= claims:
        found.claims = claims
    elif snapshot.device_index.has_multi_node_devices:
        found.claims = max((counting.times(look) for look in looks), default=0)
    else:
        found.claims = sum(counting.times(look) * nodes for look, nodes in looks.items())
    found.claims = min(found.claims, claims)
    found.gave_up = counting.gave_up
    return found


def nodes_of(snapshot: ClusterSnapshot) -> Sequence[Json]:
    """Return the nodes of the picture; without any, bare ones of the names that devices are local to."""
    return snapshot.nodes or [node for node, _ in snapshot.node_ranges]


def needs(funnels: Sequence[Funnel]) -> dict[str, int]:
    """Return the least number of devices per request; of mode All at least one."""
    return {name: min(counts) for name, counts in _counts(funnels).items()}


def _counts(funnels: Sequence[Funnel]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in funnels:
        found.setdefault(one.ask.request, []).append(1 if one.ask.all else one.ask.count)
    return found


class _Counting:
    """How many claims fit a node, worked out once per look of a node."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        spec: Json,
        funnels: Sequence[Funnel],
        attributes: Sequence[str],
        claims: int,
    ) -> None:
        self.snapshot, self.claims = snapshot, claims
        self.claim: Json = {"metadata": {"name": "preview"}, "spec": spec}
        self.least = max(1, sum(needs(funnels).values()))
        every = any(one.ask.all for one in funnels)
        most = claims * sum(max(counts) for counts in _counts(funnels).values())
        self.most = len(snapshot.devices) if every else most
        self.options = [option_of(snapshot, one, self.most) for one in funnels]
        self.alone = None if attributes else _alone(snapshot, self.options)
        self.looks = MatchNodeClasses(snapshot, self.options, attributes, self.most)
        self.node_ranges: dict[Hashable, tuple[Json, Runs]] = {}  # one of each look that fits
        self.known: dict[Hashable, bool] = {}
        self.look: Hashable = None  # of the node that was asked about last
        self.searches = 0
        self.gave_up = False

    def fits(self, node: Json, runs: Runs) -> bool:
        """Say whether one claim fits on the node."""
        if self.alone is not None:
            rooms = [
                (sum([flags.count(1, run.start, run.stop) for run in runs]), need)
                for flags, need in self.alone.rooms
            ]
            known = any(room >= need for room, need in rooms)
            self.look = tuple([room for room, _ in rooms])
        else:
            self.look = self.looks.look(runs)
            if self.look not in self.known:
                self.known[self.look] = self._fits(node, 1)
            known = self.known[self.look]
        if known:
            self.node_ranges.setdefault(self.look, (node, runs))
        return known

    def times(self, look: Hashable) -> int:
        """Return how many claims fit on a node of a look that fits one, at most as many as asked for."""
        node, runs = self.node_ranges[look]
        bound = min(self.claims, self._room(runs) // self.least)
        if self.alone is not None and self.alone.additive:
            return bound
        times = 1
        while times < bound and self._fits(node, times + 1):
            times += 1
        return times

    def _room(self, runs: Runs) -> int:
        """Return an upper bound of the devices or shares that requests could take on a node."""
        if any(option.funnel.ask.admin for option in self.options):
            return self.claims * self.least
        length = len(self.snapshot.devices)
        tables = [option.shares or option.usable.to_bytes(length, "little") for option in self.options]
        return sum(max(table[place] for table in tables) for run in runs for place in run)

    def _fits(self, node: Json, claims: int) -> bool:
        """Try that many claims at once; they share the node, so the search sees them all."""
        # One search that took too long, or very many searches, are as much as a page may wait for.
        self.searches += 1
        self.gave_up = self.gave_up or self.searches > LOOKS
        if self.gave_up:
            return False
        try:
            return allocate(self.snapshot, node, [self.claim] * claims) is not None
        except SearchGivenUp:
            self.gave_up = True
        except AllocationError:
            pass
        return False


@dataclass(frozen=True, slots=True)
class _Alone:
    """
    For one request of devices that do not depend on each other, the number of usable ones is the answer.

    `rooms` are, per alternative, flags of what is usable and how many it needs. `additive`: twice as many are
    enough for two claims.
    """

    rooms: list[tuple[bytes, int]]
    additive: bool


def _alone(snapshot: ClusterSnapshot, options: Sequence[DeviceOption]) -> _Alone | None:
    """Return None if it takes a search."""
    if (
        len({option.funnel.ask.request for option in options}) > 1
        or snapshot.device_index.has_multi_node_devices
    ):
        return None
    entangled = snapshot.device_index.counter_devices | snapshot.device_index.shareable
    for option in options:
        if not option.plain or (entangled & option.usable and option.funnel.ask.count > 1):
            return None
    length = len(snapshot.devices)
    rooms = [(option.usable.to_bytes(length, "little"), option.funnel.ask.count) for option in options]
    return _Alone(rooms, len(options) == 1 and not entangled & options[0].usable)
