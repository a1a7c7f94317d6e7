"""
The devices of a cluster with their selector results: everything that depends on ResourceSlices alone.

Slices change rarely and claims often, so successive snapshots share one index.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress, count, groupby

from dra.attributes import exact_value, lookup
from dra.cel import Selector, compile_selector
from dra.features import NEWEST, Features
from dra.node_pools import NodePools, PoolKey
from dra.nodes import name_of_node, slice_reaches
from dra.objects import Json
from dra.pools import CounterKey, DeviceKey, Pool, PoolDevice, gather_pools
from dra.selector_results import DeviceMask, SelectorResults, evaluate_devices, full_mask, pack, unpack

type GroupKey = Callable[[PoolDevice], Hashable]
type DeviceGroups = Sequence[tuple[PoolDevice, DeviceMask]]

MAX_CACHED = 200  # expressions and attributes per index; each takes some bytes per device
MAX_STATES = 100_000  # of remaining capacity and counters
MISSING = -1  # number of an absent value
NOTHING: Json = {}
NAMES, WHOLE = "names", "whole"  # an expression reads the names of a map, or the whole map
COMBINED = "combined"  # several attributes together


@dataclass(frozen=True)
class DeviceIndex:
    """Pools and devices. Attributes are computed on first use; threads may share the index."""

    slices: Sequence[Json] = ()
    _results: dict[tuple[str, Features], SelectorResults] = field(
        default_factory=dict, repr=False, compare=False
    )
    _values: dict[str, array[int]] = field(default_factory=dict, repr=False, compare=False)
    _read: dict[tuple[str, ...], array[int]] = field(default_factory=dict, repr=False, compare=False)
    _groups: dict[GroupKey, DeviceGroups] = field(default_factory=dict, repr=False, compare=False)
    _states: dict[Hashable, int] = field(default_factory=dict, repr=False, compare=False)
    _numbers: Iterator[int] = field(default_factory=count, repr=False, compare=False)

    @cached_property
    def pools(self) -> list[Pool]:
        return gather_pools(self.slices)

    @cached_property
    def seen_features(self) -> Features:
        """The features whose fields the slices have."""
        return Features.seen_in(self.slices)

    @cached_property
    def node_pools(self) -> NodePools:
        """The pools as each node sees them; the allocator reads these."""
        return NodePools(self.pools)

    @cached_property
    def devices(self) -> list[PoolDevice]:
        """Devices of usable pools, in allocation order."""
        return [device for pool in self.pools if pool.usable for device in pool.devices]

    @cached_property
    def index(self) -> dict[DeviceKey, int]:
        """Index of each device in `devices`, of those with equal keys the first."""
        return {device.key: index for index, device in reversed([*enumerate(self.devices)])}

    @cached_property
    def twins(self) -> dict[DeviceKey, list[int]]:
        """
        Indices of devices that several nodes publish under one driver, pool and name.

        Kubernetes takes them for one device: a claim that holds one of them holds all of them.
        """
        if len(self.index) == len(self.devices):
            return {}
        twins: dict[DeviceKey, list[int]] = {}
        for index, device in enumerate(self.devices):
            twins.setdefault(device.key, []).append(index)
        return {key: indices for key, indices in twins.items() if len(indices) > 1}

    def indices_of(self, key: DeviceKey) -> Sequence[int]:
        """Return the indices of the devices with this key; several only if nodes share the name."""
        return self.twins.get(key) or ([self.index[key]] if key in self.index else [])

    @cached_property
    def all(self) -> DeviceMask:
        return full_mask(len(self.devices))

    @cached_property
    def shareable(self) -> DeviceMask:
        """Devices that allow multiple allocations."""
        return pack(device.shareable for device in self.devices)

    @cached_property
    def counter_devices(self) -> DeviceMask:
        """Devices that consume shared counters of their pool."""
        return pack(bool(device.counters) for device in self.devices)

    @cached_property
    def capacities(self) -> Sequence[int]:
        """One number per device, equal for equal capacities with their policies and sharing."""
        raws = [device.raw for device in self.devices]
        return _numbered((repr(raw.get("capacity")), raw.get("allowMultipleAllocations")) for raw in raws)

    @cached_property
    def counter_demands(self) -> Sequence[int]:
        """One number per device, equal for equal consumption of shared counters; 0 for none."""
        return _numbered(chain([()], (device.counters for device in self.devices)))[1:]

    @cached_property
    def counters(self) -> dict[PoolKey, Mapping[CounterKey, int]]:
        """Shared counters of each pool, in nano-units."""
        return {
            (pool.driver, pool.name): {key: amount.nano for key, amount in pool.counters.items()}
            for pool in self.pools
            if pool.counters
        }

    @cached_property
    def _by_slice(self) -> list[tuple[Json, range]]:
        """Slices of usable pools with the index ranges of their devices."""
        ranges: list[tuple[Json, range]] = []
        start = 0
        for pool in self.pools:
            if pool.usable:
                for resource_slice in pool.slices:
                    devices = len((resource_slice.get("spec") or {}).get("devices") or ())
                    ranges.append((resource_slice, range(start, start + devices)))
                    start += devices
        return ranges

    @cached_property
    def _local(self) -> dict[str, list[range]]:
        """Index ranges of the slices that are local to a node, by node name."""
        local: dict[str, list[range]] = {}
        for resource_slice, indices in self._by_slice:
            if indices and (name := resource_slice["spec"].get("nodeName")):
                local.setdefault(name, []).append(indices)
        return local

    @cached_property
    def _multi_node_ranges(self) -> list[tuple[Json, range]]:
        return [
            (resource_slice, indices)
            for resource_slice, indices in self._by_slice
            if indices and not resource_slice["spec"].get("nodeName")
        ]

    @cached_property
    def has_multi_node_devices(self) -> bool:
        """Whether some devices are not local to one node through their slice."""
        return bool(self._multi_node_ranges)

    def ranges_on(self, node: Json) -> list[range]:
        """Return the device indices that `node` reaches, as ascending ranges."""
        local = self._local.get(name_of_node(node), [])
        if not self.has_multi_node_devices:
            return local
        other = [
            indices
            for resource_slice, indices in self._multi_node_ranges
            if slice_reaches(node, resource_slice)
        ]
        return sorted([*local, *other], key=lambda indices: indices.start)

    @cached_property
    def _has_binding_conditions(self) -> bool:
        return any(device.has_binding_conditions for device in self.devices)

    def indices_on(self, node: Json) -> list[int]:
        """Return the device indices that a search on `node` tries, in order."""
        indices = list(chain.from_iterable(self.ranges_on(node)))
        if not self._has_binding_conditions:
            return indices
        last_pools = {
            self.pool_numbers[index] for index in indices if self.devices[index].has_binding_conditions
        }
        return sorted(indices, key=lambda index: self.pool_numbers[index] in last_pools)

    @cached_property
    def pool_numbers(self) -> Sequence[int]:
        """The number of the pool of each device, in `pool_keys`."""
        return _numbered((device.driver, device.pool) for device in self.devices)

    def state_number(self, state: Hashable) -> int:
        """Return a number that is equal for equal states, in all snapshots that share this index."""
        if len(self._states) > MAX_STATES:
            self._states.clear()  # numbers are never reused, so old snapshots stay correct
        number = self._states.get(state)
        return self._states.setdefault(state, next(self._numbers)) if number is None else number

    def counter_device_indices(self, pool: PoolKey) -> list[int]:
        """Return the indices of a usable pool's devices that consume its counters."""
        return self._by_pool.get(pool, [])

    def pools_in(self, run: range) -> list[tuple[int, int]]:
        """Return (consecutive devices, pool number) for the devices of a slice that consume counters."""
        counted = self._counted_pools.get(run.start)
        if counted is None:
            numbers = (self.pool_numbers[index] for index in run if self.devices[index].counters)
            counted = self._counted_pools[run.start] = [
                (len(list(group)), number) for number, group in groupby(numbers)
            ]
        return counted

    @cached_property
    def _counted_pools(self) -> dict[int, list[tuple[int, int]]]:
        return {}

    @cached_property
    def _by_pool(self) -> dict[PoolKey, list[int]]:
        by_pool: dict[PoolKey, list[int]] = {}
        for index, device in enumerate(self.devices):
            if device.counters:
                by_pool.setdefault((device.driver, device.pool), []).append(index)
        return by_pool

    def pools_for(self, keys: Collection[PoolKey]) -> list[Pool]:
        """Return the pools with these keys, usable or not, in the order of `pools`."""
        positions = sorted(position for key in keys for position in self._positions.get(key, ()))
        return [self.pools[position] for position in positions]

    @cached_property
    def _positions(self) -> dict[PoolKey, list[int]]:
        positions: dict[PoolKey, list[int]] = {}
        for position, pool in enumerate(self.pools):
            positions.setdefault((pool.driver, pool.name), []).append(position)
        return positions

    def count_by_node(self, mask: DeviceMask) -> Counter[str]:
        """Return how many of the devices are on each node; "" for devices that are not local to one."""
        return Counter(compress(self._node_names, unpack(mask, len(self.devices))))

    @cached_property
    def _node_names(self) -> list[str]:
        return [device.node_name for device in self.devices]

    @cached_property
    def pool_keys(self) -> list[PoolKey]:
        return list(dict.fromkeys((device.driver, device.pool) for device in self.devices))

    def groups_by(self, group_key: GroupKey) -> DeviceGroups:
        """Return (one device, mask of all devices) per value of `group_key`; cached per function."""
        if group_key not in self._groups:
            places_by_look: dict[Hashable, bytearray] = {}
            first: dict[Hashable, PoolDevice] = {}
            for index, device in enumerate(self.devices):
                key = group_key(device)
                if key not in first:
                    first[key], places_by_look[key] = device, bytearray(len(self.devices))
                places_by_look[key][index] = 1
            self._groups[group_key] = [(first[key], pack(flags)) for key, flags in places_by_look.items()]
        return self._groups[group_key]

    def values(self, attribute: str) -> Sequence[int]:
        """
        Return one number per device, equal for equal values of a qualified attribute; MISSING if absent.
        """
        values = self._values.get(attribute)
        if values is None:
            numbers: dict[Hashable, int] = {None: MISSING}
            values = array(
                "i",
                (numbers.setdefault(exact_value(device, attribute), len(numbers)) for device in self.devices),
            )
            remember(self._values, attribute, values)
        return values

    def combined_values(self, attributes: tuple[str, ...]) -> array[int]:
        """Return one number per device, equal for equal values of all attributes, in order of appearance."""
        entry = (COMBINED, *attributes)
        column = self._read.get(entry)
        if column is None:
            column = _numbered(zip(*map(self.values, attributes), strict=True))
            remember(self._read, entry, column)
        return column

    def selector_results(self, expression: str, features: Features = NEWEST) -> SelectorResults:
        """
        Return the results of a selector for all `devices`.

        Raise `CompileError` or `NotPreviewable` for the expression.
        """
        results = self._results.get((expression, features))
        if results is None:
            selector = compile_selector(expression, features)
            results = evaluate_devices(selector, self.devices, self._shapes(selector))
            remember(self._results, (expression, features), results)
        return results

    def _shapes(self, selector: Selector) -> Sequence[int]:
        """
        Number the devices by the values that the selector reads.

        Numbers are cached per attribute, so another expression over the same attributes reads no device.
        """
        read = selector.reading
        refs = (ref for ref in read.refs if ref[0] not in read.whole)
        names = ((part, NAMES) for part in read.names - read.whole)
        whole = ((part, WHOLE) for part in read.whole)
        columns = [self._drivers, *map(self._seen, sorted((*refs, *names, *whole)))]
        return columns[0] if len(columns) == 1 else _numbered(zip(*columns, strict=True))

    @cached_property
    def _drivers(self) -> array[int]:
        return _numbered((device.driver, device.shareable) for device in self.devices)

    def _seen(self, entry: tuple[str, ...]) -> array[int]:
        """Number the devices by one entry, by the names of a map, or by the whole map."""
        column = self._read.get(entry)
        if column is None:
            part, *_ = entry
            tables = [device.raw.get(part) or NOTHING for device in self.devices]
            if entry[1:] == (WHOLE,):
                column = _numbered(map(repr, tables))
            elif entry[1:] == (NAMES,):
                column = _numbered(map(tuple, tables))
            else:
                _, domain, name = entry
                pairs = zip(tables, self.devices, strict=True)
                column = _numbered(
                    repr(lookup(table, device.driver, domain, name)) for table, device in pairs
                )
            remember(self._read, entry, column)
        return column


def _numbered(values: Iterable[Hashable]) -> array[int]:
    """Return one number per value, equal for equal values."""
    numbers: dict[Hashable, int] = {}
    return array("i", (numbers.setdefault(value, len(numbers)) for value in values))


def remember[Key, Value](table: dict[Key, Value], key: Key, value: Value, limit: int = MAX_CACHED) -> None:
    """Add an entry to a table, without the oldest ones if it has `limit` entries."""
    # People type expressions: without a bound, a thousand attempts would fill the memory.
    while len(table) >= limit:
        table.pop(next(iter(table), key), None)
    table[key] = value
