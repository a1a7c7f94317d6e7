"""
Nodes on which a claim fits, and the number of claims that fit at once.

Nodes that are equivalent for a claim share one result, so thousands of nodes need a handful of searches.
Whether a claim fits does not depend on the order of devices, and of equivalent devices no more matter than
the claims can take. The order matters only if a selector fails: then it is part of the class.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import compress, islice
from operator import or_

from dra.allocator import AllocationError, NodeFailed, SearchGivenUp, allocate
from dra.allocator.capacity import share
from dra.allocator.plan import claim_constraints
from dra.cluster_snapshot import ClusterSnapshot
from dra.device_index import MISSING
from dra.match.funnel import Funnel
from dra.node_pools import NodeRuns
from dra.nodes import SelectorError, name_of_node
from dra.objects import Json
from dra.pools import PoolDevice
from dra.quantity import ZERO, Quantity
from dra.selector_results import DeviceMask, pack, unpack

MAX_SHARES = 255  # shares of one device


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """
    The devices that a request or alternative can get if no other request takes them first.

    `shares` is the number of shares per device, None if each device can be allocated once. `certain` is False
    if only a search can tell, for example if a device publishes an invalid capacity.
    """

    funnel: Funnel
    usable: DeviceMask
    shares: bytes | None = None
    certain: bool = True

    @property
    def plain(self) -> bool:
        """Whether counting devices is enough: an exact count, and no errors."""
        request = self.funnel.request
        exact = request.raw.get("allocationMode") in (None, "", "ExactCount")
        return exact and self.certain and not (request.admin or request.derived or self.funnel.errors)


def device_option(snapshot: ClusterSnapshot, funnel: Funnel, max_count: int) -> DeviceOption:
    """Return the devices that the request can get; shares are counted up to `max_count`."""
    request, device_index = funnel.request, snapshot.device_index
    if request.admin or not (request.capacity or device_index.shareable & funnel.free):
        refused = request.raw.get("capacity") is not None and not snapshot.features.consumable_capacity
        return DeviceOption(funnel, funnel.free, certain=not refused)
    if not snapshot.features.consumable_capacity:
        return DeviceOption(funnel, funnel.free, certain=False)
    length, remaining_capacity = len(snapshot.devices), snapshot.remaining_capacity
    free = unpack(funnel.free, length)
    sample_by_state = dict(compress(zip(remaining_capacity, range(length), strict=True), free))
    counts: dict[int, int] = dict.fromkeys(set(remaining_capacity), 0)
    certain = True
    for number, index in sample_by_state.items():
        try:
            counts[number] = _times(snapshot, snapshot.devices[index], funnel, min(max_count, MAX_SHARES))
        except AllocationError:
            counts[number], certain = 1, False
    all_counts = int.from_bytes(bytes(map(counts.__getitem__, remaining_capacity)), "little")
    shares = unpack(all_counts & funnel.free * MAX_SHARES, length)
    return DeviceOption(funnel, pack(map(bool, shares)), shares, certain)


def _times(snapshot: ClusterSnapshot, device: PoolDevice, funnel: Funnel, max_count: int) -> int:
    """Return how many shares of the requested capacity the device has left."""
    consumed: dict[str, Quantity] = dict(snapshot.held.consumed.get(device.key, {}))
    fractional = snapshot.features.fractional_capacity_range
    for times in range(max_count):
        consumption = share(device, funnel.request.capacity, consumed, fractional=fractional)
        if consumption is None:
            return times
        if not device.shareable:
            return 1
        for name, amount in consumption.items():
            consumed[name] = consumed.get(name, ZERO) + amount.quantity
    return max_count


BITS = 8  # per byte


class NodeClasses:
    """Equivalence classes of nodes for claims that take at most `max_count` devices in total."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        options: Sequence[DeviceOption],
        attributes: Sequence[str],
        max_count: int,
    ) -> None:
        self.snapshot, self.max_count = snapshot, max_count
        device_index = snapshot.device_index
        groups = [group for option in options for group in _groups(option)]
        failing_devices = {index for option in options for index in option.funnel.errors}
        self.in_order = bool(failing_devices)
        if failing_devices:
            groups.append(pack(index in failing_devices for index in range(len(snapshot.devices))))
        relevant = reduce(or_, groups, 0)
        self.flags = _bytes(groups, len(snapshot.devices))
        self.values = [device_index.values(attribute) for attribute in attributes]
        self.marks: list[Sequence[int]] = list(self.flags)
        if device_index.shareable & relevant or any(option.funnel.request.capacity for option in options):
            capacities = [option.funnel.request.capacity for option in options]
            shares = options[0].shares
            single = all(capacity == capacities[0] for capacity in capacities) and len(options) == 1
            self.marks.append(shares if shares is not None and single else snapshot.remaining_capacity)
        self.counter_devices = bool(device_index.counter_devices & relevant)
        if self.counter_devices:
            self.marks.append(device_index.counter_demands)
        self._columns = [_packed(column) for column in (*self.marks, *self.values)]

    def patterns(self) -> Sequence[Hashable]:
        """Return one value per node of the snapshot; nodes with equal values have the same class."""
        patterns = self.snapshot.node_runs.rows(self._columns)
        if not self.counter_devices:
            return patterns
        pools_in, state = self.snapshot.device_index.pools_in, self.snapshot.pool_state
        states = (
            tuple([(times, state(number)) for run in runs for times, number in pools_in(run)])
            for _, runs in self.snapshot.node_ranges
        )
        return list(zip(patterns, states, strict=True))

    def node_class(self, runs: Sequence[range]) -> Hashable:
        """Return the class of a node with these device ranges: equal for equivalent nodes."""
        indices = [index for run in runs for index in run if any(flags[index] for flags in self.flags)]
        rows = [(tuple([mark[index] for mark in self.marks]), index) for index in indices]
        ties = list(self.values)
        if self.counter_devices:
            ties.append(self.snapshot.device_index.pool_numbers)
        if self.in_order:
            return _renumbered(rows, ties)
        if not ties:
            return self._counted(mark for mark, _ in rows)
        if len(ties) > 1:
            states = [self._state_at(index) for _, index in sorted(rows)]
            return (*_renumbered(sorted(rows), ties), *states)
        groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        states_of: dict[int, int] = {}
        for mark, index in rows:
            value = ties[0][index]
            groups[value].append(mark)
            states_of[value] = self._state_at(index) if self.counter_devices else int(value == MISSING)
        return self._counted((states_of[value], self._counted(group)) for value, group in groups.items())

    def _state_at(self, index: int) -> int:
        return (
            self.snapshot.pool_state(self.snapshot.device_index.pool_numbers[index])
            if self.counter_devices
            else 0
        )

    def _counted(self, items: Iterable[Hashable]) -> Hashable:
        """Return the items with their numbers, capped at `max_count`."""
        return frozenset((item, min(times, self.max_count)) for item, times in Counter(items).items())


def _groups(option: DeviceOption) -> list[DeviceMask]:
    """Return the device sets that decide a search; mode All also fails on held devices."""
    if option.funnel.request.all:
        return [option.funnel.accepted, option.funnel.free]
    return [option.usable]


def _bytes(groups: Sequence[DeviceMask], length: int) -> list[bytes]:
    """Return the groups as bit flags, eight per byte."""
    packs = (groups[start : start + BITS] for start in range(0, len(groups), BITS))
    return [unpack(sum(group << bit for bit, group in enumerate(pack_)), length) for pack_ in packs]


def _packed(column: Sequence[int]) -> tuple[bytes, int]:
    """Return the numbers as bytes, and the width of one."""
    return (column, 1) if isinstance(column, bytes) else (array("q", column).tobytes(), 8)


def _renumbered(
    rows: Sequence[tuple[tuple[int, ...], int]], ties: Sequence[Sequence[int]]
) -> tuple[Hashable, ...]:
    """Renumber values in order of appearance: only their equality matters."""
    values: list[Hashable] = [mark for mark, _ in rows]
    for column in ties:
        numbers = {MISSING: MISSING}
        values.append(tuple([numbers.setdefault(column[index], len(numbers)) for _, index in rows]))
    return tuple(values)


MAX_SEARCHES = 500  # searches per preview

type Runs = Sequence[range]


@dataclass(frozen=True, slots=True)
class FitResult:
    """
    The nodes that fit one claim, one flag per node, and how many of the requested claims fit at once.

    `refusal` is what the search on one node fails with: the scheduler then rejects the pod on all nodes.
    """

    node_runs: NodeRuns
    flags: bytes
    claims: int
    gave_up: bool = False
    refusal: AllocationError | None = None

    @property
    def node_count(self) -> int:
        return self.flags.count(1)

    def node_names(self, limit: int | None = None) -> list[str]:
        """Return the names of the nodes that fit, in the order of the snapshot."""
        return list(islice(compress(self.node_runs.names, self.flags), limit))


def fit(snapshot: ClusterSnapshot, spec: Json, funnels: Sequence[Funnel], claims: int) -> FitResult:
    """
    Return the nodes and claims that fit. Cordoned nodes take no claims.

    Raise `AllocationError` for a constraint without an attribute.
    """
    attributes = sorted({constraint.attribute for constraint in claim_constraints(spec)})
    counting = _Counting(snapshot, spec, funnels, attributes, claims)
    patterns = counting.patterns()
    fits: dict[Hashable, bool] = {}
    node_classes: Counter[Hashable] = Counter()
    for pattern, times, index in _occurrences(patterns):
        fits[pattern] = counting.fits(pattern, *snapshot.node_ranges[index])
        if fits[pattern]:
            node_classes[counting.node_class] += times
    # Devices that multiple nodes reach must not be counted twice.
    if snapshot.device_index.has_multi_node_devices or snapshot.device_index.twins:
        fitting = max((counting.times(node_class) for node_class in node_classes), default=0)
    elif node_classes and node_classes.total() >= claims:
        fitting = claims
    else:
        fitting = sum(counting.times(node_class) * nodes for node_class, nodes in node_classes.items())
    if isinstance(patterns, bytes):
        flags = patterns.translate(bytes(fits.get(number, False) for number in range(256)))
    else:
        flags = bytes(map(fits.__getitem__, patterns))
    if counting.refusal is not None:
        flags, fitting = bytes(len(flags)), 0
    return FitResult(snapshot.node_runs, flags, min(fitting, claims), counting.gave_up, counting.refusal)


def _occurrences(patterns: Sequence[Hashable]) -> list[tuple[Hashable, int, int]]:
    """Return each distinct pattern with the number of nodes that have it and the index of one of them."""
    if isinstance(patterns, bytes):
        return [(number, patterns.count(number), patterns.index(number)) for number in sorted(set(patterns))]
    times = Counter(patterns)
    indices = dict(zip(patterns, range(len(patterns)), strict=True))
    return [(pattern, times[pattern], index) for pattern, index in indices.items()]


def snapshot_nodes(snapshot: ClusterSnapshot) -> Sequence[Json]:
    """Return the nodes of the snapshot; without any, a bare node per `nodeName` of a device."""
    return snapshot.nodes or [node for node, _ in snapshot.node_ranges]


def required_devices(funnels: Sequence[Funnel]) -> dict[str, int]:
    """Return the minimum number of devices per request; 1 for mode All."""
    return {name: min(counts) for name, counts in _counts(funnels).items()}


def _counts(funnels: Sequence[Funnel]) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for request_funnel in funnels:
        counts.setdefault(request_funnel.request.request, []).append(
            1 if request_funnel.request.all else request_funnel.request.count
        )
    return counts


class _Counting:
    """Counts the claims that fit a node, once per class of nodes."""

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
        self.devices_per_claim = max(1, sum(required_devices(funnels).values()))
        has_mode_all = any(request_funnel.request.all for request_funnel in funnels)
        max_count = claims * sum(max(counts) for counts in _counts(funnels).values())
        self.max_count = len(snapshot.devices) if has_mode_all else max_count
        self.options = [device_option(snapshot, request_funnel, self.max_count) for request_funnel in funnels]
        self.independent = None if attributes else _independent_request(snapshot, self.options)
        self.attributes = attributes
        self.node_ranges: dict[Hashable, tuple[Json, Runs]] = {}  # one node of each class that fits
        self.known: dict[Hashable, bool] = {}
        self.node_class: Hashable = None  # class of the last node
        self.searches = 0
        self.gave_up = False
        self.refusal: AllocationError | None = _pool_refusal(snapshot) if has_mode_all else None

    @cached_property
    def node_classes(self) -> NodeClasses:
        return NodeClasses(self.snapshot, self.options, self.attributes, self.max_count)

    def patterns(self) -> Sequence[Hashable]:
        """Return one value per node of the snapshot; of nodes with equal values, one has to be tried."""
        if self.independent is None:
            return self.node_classes.patterns()
        numbers = [self.snapshot.node_runs.counts(mask) for mask, _ in self.independent.rooms]
        return numbers[0] if len(numbers) == 1 else list(zip(*numbers, strict=True))

    def fits(self, pattern: Hashable, node: Json, runs: Runs) -> bool:
        """Return whether one claim fits on a node with this pattern."""
        if self.independent is not None:
            numbers = pattern if isinstance(pattern, tuple) else (pattern,)
            fits_one = any(
                number >= need for number, (_, need) in zip(numbers, self.independent.rooms, strict=True)
            )
            self.node_class = numbers
        else:
            self.node_class = self.node_classes.node_class(runs)
            if self.node_class not in self.known:
                self.known[self.node_class] = self._fits(node, 1)
            fits_one = self.known[self.node_class]
        if fits_one:
            self.node_ranges.setdefault(self.node_class, (node, runs))
        return fits_one

    def times(self, node_class: Hashable) -> int:
        """Return how many of the requested claims fit on a node of a class that fits one."""
        node, runs = self.node_ranges[node_class]
        bound = min(self.claims, self._room(runs) // self.devices_per_claim)
        if self.independent is not None and self.independent.additive:
            return bound
        times = 1
        while times < bound and self._fits(node, times + 1):
            times += 1
        return times

    def _room(self, runs: Runs) -> int:
        """Return an upper bound of the devices or shares that the requests can get on a node."""
        if any(option.funnel.request.admin for option in self.options):
            return self.claims * self.devices_per_claim
        length = len(self.snapshot.devices)
        tables = [option.shares or option.usable.to_bytes(length, "little") for option in self.options]
        return sum(max(table[index] for table in tables) for run in runs for index in run)

    def _fits(self, node: Json, claims: int) -> bool:
        """Return whether the allocator fits that many claims on the node."""
        # A page waits for one search that takes too long, or for `MAX_SEARCHES`.
        self.searches += 1
        self.gave_up = self.gave_up or self.searches > MAX_SEARCHES
        if self.gave_up:
            return False
        try:
            return allocate(self.snapshot, node, [self.claim] * claims) is not None
        except SearchGivenUp:
            self.gave_up = True
        except NodeFailed:
            pass  # other nodes are tried
        except AllocationError as refusal:
            if claims == 1:
                self.refusal = self.refusal or refusal
        return False


class UnusablePool(AllocationError):
    """Mode All is refused because a node sees a pool that is incomplete or invalid, of whatever driver."""


def _pool_refusal(snapshot: ClusterSnapshot) -> UnusablePool | None:
    unusable = [pool for pool in snapshot.pools if not pool.usable]
    places = {pool_slice.node_name for pool in unusable for pool_slice in pool.all_slices}
    for node, _ in snapshot.node_ranges if unusable else ():
        if "" in places or name_of_node(node) in places:
            with suppress(SelectorError):
                pools = snapshot.device_index.node_pools.pools_on(node, snapshot.features)
                if problem := next((pool.problem for pool in pools if pool.problem), ""):
                    return UnusablePool(problem)
    return None


@dataclass(frozen=True, slots=True)
class _IndependentRequest:
    """
    One request of independent devices, for which counting replaces the search.

    `rooms` are, per alternative, the usable devices and the needed number. `additive`: two claims
    need twice the number.
    """

    rooms: list[tuple[DeviceMask, int]]
    additive: bool


def _independent_request(
    snapshot: ClusterSnapshot, options: Sequence[DeviceOption]
) -> _IndependentRequest | None:
    """Return None if a search is needed."""
    if (
        len({option.funnel.request.request for option in options}) > 1
        or snapshot.device_index.has_multi_node_devices
        or not snapshot.features.prioritized_list
    ):
        return None
    entangled = snapshot.device_index.counter_devices | snapshot.device_index.shareable
    for option in options:
        if not option.plain or (entangled & option.usable and option.funnel.request.count > 1):
            return None
    rooms = [(option.usable, option.funnel.request.count) for option in options]
    return _IndependentRequest(rooms, len(options) == 1 and not entangled & options[0].usable)
