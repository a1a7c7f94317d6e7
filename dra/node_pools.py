"""
Pools as one node sees them, and the devices of all nodes.

A pool is judged per node (upstream `pools_incubating.go`, `pools_stable.go`): the slices that reach the node
decide which generation counts and whether names are unique, and slices for other nodes are looked at only if
those are fewer than the pool has. A node whose slices a driver has not renewed goes on with the old ones.

`NodeRuns` has the devices of each node as ranges of the device index. A loop over five thousand nodes takes
longer than the question about one of them, so a column with a value per device is read node by node in one
call, and devices are counted on all nodes by adding up masks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from operator import itemgetter

from dra.features import Features, Implementation
from dra.nodes import check_node_selection, name_of_node, selects_node
from dra.objects import Json
from dra.pools import (
    CounterKey,
    Pool,
    PoolDevice,
    PoolSlice,
    amounts,
    count_problem,
    different_counts_problem,
    duplicate_name_problem,
    missing_counter_problem,
)
from dra.quantity import Quantity, QuantityError
from dra.selector_results import DeviceMask, pack, unpack

type PoolKey = tuple[str, str]  # driver, pool name


@dataclass(frozen=True, slots=True)
class NodePool:
    """
    A pool as one node sees it.

    `problem` is a sentence, "" for a valid pool; nothing is allocated from an `incomplete` or `invalid` pool.
    `devices` are those of the node's slices in allocation order, `other_devices` those of other slices,
    which consume the same `counters`.
    """

    driver: str
    name: str
    problem: str = ""
    incomplete: bool = False
    invalid: bool = False
    devices: Sequence[PoolDevice] = ()
    other_devices: Sequence[PoolDevice] = ()
    counters: Mapping[CounterKey, Quantity] = field(default_factory=dict)


class NodePools:
    """All slices of a cluster by the nodes that they reach. Immutable; threads may share it."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._local: dict[str, list[PoolSlice]] = defaultdict(list)
        self._shared: list[PoolSlice] = []
        self._counting: list[PoolSlice] = []  # local slices with shared counters
        self._of_pool: dict[PoolKey, Sequence[PoolSlice]] = {}
        for pool in pools:
            if (pool.driver, pool.name) in self._of_pool:
                continue  # another part of the same pool
            self._of_pool[pool.driver, pool.name] = pool.all_slices
            for pool_slice in pool.all_slices:
                if pool_slice.node_name:
                    self._local[pool_slice.node_name].append(pool_slice)
                    if pool_slice.counter_sets:
                        self._counting.append(pool_slice)
                else:
                    self._shared.append(pool_slice)

    def pools_on(self, node: Json, features: Features, *, literal: bool = False) -> list[NodePool]:
        """
        Return the pools of `node` in allocation order.

        Of slices that disagree on their number, upstream believes the first, and it lists them in any order:
        such a pool is incomplete here, unless with `literal` the slices are in upstream's order.

        Raise `SelectorError` if the node selector of a slice is invalid.
        """
        node_pools = [
            pool
            for key, slices in self._reached(node, features).items()
            if (pool := self._judge(key, slices, features, literal=literal)) is not None
        ]
        # Pools with binding conditions come last, except in the stable allocator.
        last = {
            (pool.driver, pool.name)
            for pool in node_pools
            if not features.stable and any(device.has_binding_conditions for device in pool.devices)
        }
        node_pools.sort(key=lambda pool: ((pool.driver, pool.name) in last, pool.driver, pool.name))
        return node_pools

    def _reached(self, node: Json, features: Features) -> dict[PoolKey, list[PoolSlice]]:
        """Return the newest generation of each pool among the slices that reach the node."""
        slices = [*self._local.get(name_of_node(node), ()), *self._shared]
        if features.stable:
            # The stable allocator keeps the list order and reads slices with counters of any node.
            slices += [
                pool_slice for pool_slice in self._counting if pool_slice.node_name != name_of_node(node)
            ]
            slices.sort(key=lambda pool_slice: pool_slice.number)
        by_pool: dict[PoolKey, list[PoolSlice]] = {}
        for pool_slice in slices:
            if _ignored(pool_slice, features) or not _relevant(node, pool_slice, features):
                continue
            newest = by_pool.setdefault((pool_slice.driver, pool_slice.pool), [pool_slice])
            if pool_slice.generation > newest[0].generation:
                by_pool[pool_slice.driver, pool_slice.pool] = [pool_slice]
            elif pool_slice.generation == newest[0].generation and newest[0] is not pool_slice:
                newest.append(pool_slice)
        return by_pool

    def _judge(
        self, key: PoolKey, slices: list[PoolSlice], features: Features, *, literal: bool = False
    ) -> NodePool | None:
        """Return the pool of the node's `slices`; None if they are obsolete."""
        if not literal and (problem := different_counts_problem(*key, slices)):
            return NodePool(*key, problem=problem, incomplete=True)
        first, other_slices = slices[0], []
        if len(slices) != first.count:
            pool_slices = self._of_pool[key]
            if any(pool_slice.generation > first.generation for pool_slice in pool_slices):
                return None
            current = [pool_slice for pool_slice in pool_slices if pool_slice.generation == first.generation]
            if not features.compatibility_groups:
                current = [pool_slice for pool_slice in current if not pool_slice.grouped]
            if len(current) != first.count:
                problem = count_problem(*key, first.generation, len(current), first.count)
                return NodePool(*key, problem=problem, incomplete=True)
            names = {pool_slice.name for pool_slice in slices}
            if len(slices) < len(current):
                other_slices = [pool_slice for pool_slice in current if pool_slice.name not in names]
        try:
            return _build(key, slices, other_slices, features)
        except QuantityError as error:
            return NodePool(*key, problem=f"Pool {key[1]} of {key[0]} is invalid: {error}", invalid=True)


def is_supported(device: PoolDevice, node: Json, features: Features) -> bool:
    """Return whether the features, and those that the node declares, allow to allocate the device."""
    if device.raw.get("consumesCounters") and not features.partitionable_devices:
        return False
    if device.raw.get("bindingConditions") and not features.device_binding_and_status:
        return False
    if not device.skipped or features.implementation is not Implementation.EXPERIMENTAL:
        return True
    declared = (node.get("status") or {}).get("declaredFeatures") or ()
    return features.optional_node_operations and "DRAOptionalNodeOperations" in declared


def _ignored(pool_slice: PoolSlice, features: Features) -> bool:
    """Whether the allocator ignores the slice because a feature gate is off."""
    if not features.partitionable_devices and (
        pool_slice.spec.get("perDeviceNodeSelection") is not None or pool_slice.counter_sets
    ):
        return True
    return not features.compatibility_groups and pool_slice.grouped


def _relevant(node: Json, pool_slice: PoolSlice, features: Features) -> bool:
    spec = pool_slice.spec
    if features.stable and pool_slice.counter_sets:
        return True
    if pool_slice.node_name or spec.get("allNodes") is True or spec.get("nodeSelector") is not None:
        check_node_selection(spec)
        return selects_node(node, spec)
    if spec.get("perDeviceNodeSelection") is True:
        for raw in spec.get("devices") or ():
            check_node_selection(raw)
            if selects_node(node, raw):
                return True
    return False


def _build(
    key: PoolKey, slices: Sequence[PoolSlice], other_slices: Sequence[PoolSlice], features: Features
) -> NodePool:
    """Raise `QuantityError` if a counter has an invalid amount."""
    if not features.stable:
        slices = sorted(slices, key=lambda pool_slice: pool_slice.name)
    partitionable = features.partitionable_devices
    # A slice with shared counters must not publish devices; those are ignored.
    devices = _devices(pool_slice for pool_slice in slices if not (partitionable and pool_slice.counter_sets))
    problem = duplicate_name_problem(*key, [device.name for device in devices])
    if not partitionable or problem:
        return NodePool(*key, problem, invalid=bool(problem), devices=() if problem else devices)
    other_devices = _devices(pool_slice for pool_slice in other_slices if not pool_slice.counter_sets)
    sets = [counter_set for pool_slice in (*slices, *other_slices) for counter_set in pool_slice.counter_sets]
    names = [str(counter_set.get("name")) for counter_set in sets]
    counters = dict(amounts(sets))
    checked_devices = [*(_devices(slices) if features.stable else devices), *other_devices]
    problem = duplicate_name_problem(*key, names) or missing_counter_problem(
        key[1], checked_devices, counters, names
    )
    if problem:
        return NodePool(*key, problem, invalid=True)
    return NodePool(*key, devices=devices, other_devices=other_devices, counters=counters)


def _devices(slices: Iterable[PoolSlice]) -> list[PoolDevice]:
    return [device for pool_slice in slices for device in pool_slice.devices]


MAX_RUN = 64  # devices of a node; where one has more, they are counted in slices


@dataclass(frozen=True)
class NodeRuns:
    """Nodes, and the ascending index ranges of the devices that each of them reaches, of `length` devices."""

    nodes: Sequence[tuple[Json, Sequence[range]]]
    length: int

    @cached_property
    def names(self) -> list[str]:
        return [name_of_node(node) for node, _ in self.nodes]

    def rows(self, columns: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, ...]]:
        """Return per node what the columns say of its devices; each column has its width per device."""
        parts = [
            map(column.__getitem__, ranges) for column, width in columns for ranges in self._slices(width)
        ]
        return list(zip(*parts, strict=True)) if parts else [()] * len(self.nodes)

    def _slices(self, width: int) -> list[list[slice]]:
        """Return the first ranges of all nodes, then the second ones and so on; a node may have none."""
        if width not in self._slices_by_width:
            bounds = [[(run.start * width, run.stop * width) for run in runs] for _, runs in self.nodes]
            self._slices_by_width[width] = [
                [slice(start, stop) for start, stop in column]
                for column in zip_longest(*bounds, fillvalue=(0, 0))
            ]
        return self._slices_by_width[width]

    @cached_property
    def _slices_by_width(self) -> dict[int, list[list[slice]]]:
        return {}

    def counts(self, mask: DeviceMask) -> Sequence[int]:
        """Return the number of devices in the mask per node."""
        if self._longer is None or self._numbers is None:
            rows = self.rows([(unpack(mask, self.length), 1)])
            number_by_row = {row: sum(part.count(1) for part in row) for row in set(rows)}
            return [number_by_row[row] for row in rows]
        total = 0
        for distance, starts in enumerate(self._longer):
            total += mask >> 8 * distance & starts
        return bytes(self._numbers(unpack(total, self.length) + b"\x00"))

    @cached_property
    def _longer(self) -> list[DeviceMask] | None:
        """
        Per distance, the first devices of the ranges that are longer than it.

        The sum of the masks, each moved by its distance, is then a number per range, at its first device.
        """
        merged = [_merged(runs) for _, runs in self.nodes]
        longest = max((len(run) for runs in merged for run in runs), default=0)
        if longest > MAX_RUN or any(len(runs) > 1 for runs in merged):
            return None
        masks = []
        for distance in range(longest):
            flags = bytearray(self.length)
            for runs in merged:
                if runs and len(runs[0]) > distance:
                    flags[runs[0].start] = 1
            masks.append(pack(flags))
        return masks

    @cached_property
    def _numbers(self) -> Callable[[bytes], Iterable[int]] | None:
        """Reads the number of each node; that of a node without devices is a zero at the end."""
        starts = [runs[0].start if runs else self.length for _, runs in self.nodes]
        return itemgetter(*starts) if len(starts) > 1 else None  # of one index, it returns no tuple


def _merged(runs: Sequence[range]) -> list[range]:
    """Return the ranges with adjacent ones joined."""
    merged: list[range] = []
    for run in runs:
        if merged and merged[-1].stop == run.start:
            merged[-1] = range(merged[-1].start, run.stop)
        else:
            merged.append(run)
    return merged
