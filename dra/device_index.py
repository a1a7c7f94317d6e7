"""
The devices of a cluster and what selectors say of them: all that follows from ResourceSlices alone.

Slices change seldom and claims all the time, so this part is kept from picture to picture.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count, groupby

from dra.cel import Selector, compile_selector
from dra.facts import exact_value, lookup
from dra.features import NEWEST, Features
from dra.node_pools import NodePools
from dra.nodes import name_of, slice_reaches
from dra.objects import Json
from dra.pools import CounterKey, DeviceKey, Pool, PoolDevice, gather_pools
from dra.selector_results import DeviceMask, SelectorResults, everything, judge, pack

type PoolKey = tuple[str, str]
type Look = Callable[[PoolDevice], Hashable]
type Alike = Sequence[tuple[PoolDevice, DeviceMask]]

KEPT = 200  # expressions and attributes per stock; each takes some bytes per device
STATES = 100_000  # that are remembered, of what is left of devices and pools
MISSING = -1  # number of a value that is not there
NOTHING: Json = {}
NAMES, WHOLE = "names", "whole"  # what an expression reads of attributes or capacities beside entries


@dataclass(frozen=True)
class DeviceIndex:
    """Pools and devices. Worked out when first asked for; threads may share it."""

    slices: Sequence[Json] = ()
    _verdicts: dict[tuple[str, Features], SelectorResults] = field(
        default_factory=dict, repr=False, compare=False
    )
    _values: dict[str, array[int]] = field(default_factory=dict, repr=False, compare=False)
    _read: dict[tuple[str, ...], array[int]] = field(default_factory=dict, repr=False, compare=False)
    _alike: dict[Look, Alike] = field(default_factory=dict, repr=False, compare=False)
    _states: dict[Hashable, int] = field(default_factory=dict, repr=False, compare=False)
    _numbers: Iterator[int] = field(default_factory=count, repr=False, compare=False)

    @cached_property
    def pools(self) -> list[Pool]:
        return gather_pools(self.slices)

    @cached_property
    def node_pools(self) -> NodePools:
        """The pools as each node sees them, which is what the allocator goes by."""
        return NodePools(self.pools)

    @cached_property
    def devices(self) -> list[PoolDevice]:
        """Devices of usable pools, in the order in which they are tried."""
        return [device for pool in self.pools if pool.usable for device in pool.devices]

    @cached_property
    def index(self) -> dict[DeviceKey, int]:
        """Where each device stands in `devices`."""
        return {device.key: place for place, device in enumerate(self.devices)}

    @cached_property
    def all(self) -> DeviceMask:
        return everything(len(self.devices))

    @cached_property
    def shareable(self) -> DeviceMask:
        """Devices that are taken in shares."""
        return pack(device.shareable for device in self.devices)

    @cached_property
    def counting(self) -> DeviceMask:
        """Devices that are taken at the expense of others of their pool."""
        return pack(bool(device.counters) for device in self.devices)

    @cached_property
    def capacities(self) -> Sequence[int]:
        """A number per device that is equal where capacities and their policies are, shared or not."""
        raws = [device.raw for device in self.devices]
        return _numbered((repr(raw.get("capacity")), raw.get("allowMultipleAllocations")) for raw in raws)

    @cached_property
    def appetites(self) -> Sequence[int]:
        """A number per device that is equal where what it takes of shared counters is; 0: nothing."""
        return _numbered(chain([()], (device.counters for device in self.devices)))[1:]

    @cached_property
    def counters(self) -> dict[PoolKey, Mapping[CounterKey, int]]:
        """What the pools have of each shared counter, in nano-units."""
        return {
            (pool.driver, pool.name): {key: amount.nano for key, amount in pool.counters.items()}
            for pool in self.pools
            if pool.counters
        }

    @cached_property
    def _by_slice(self) -> list[tuple[Json, range]]:
        """Slices of usable pools with the places of their devices."""
        found: list[tuple[Json, range]] = []
        place = 0
        for pool in self.pools:
            if pool.usable:
                for one in pool.slices:
                    devices = len((one.get("spec") or {}).get("devices") or ())
                    found.append((one, range(place, place + devices)))
                    place += devices
        return found

    @cached_property
    def _local(self) -> dict[str, list[range]]:
        """Places of the devices whose slice is local to a node, by node."""
        local: dict[str, list[range]] = {}
        for one, places in self._by_slice:
            if places and (name := one["spec"].get("nodeName")):
                local.setdefault(name, []).append(places)
        return local

    @cached_property
    def _wandering(self) -> list[tuple[Json, range]]:
        return [(one, places) for one, places in self._by_slice if places and not one["spec"].get("nodeName")]

    @cached_property
    def wanders(self) -> bool:
        """Whether some devices are reachable from several nodes, or placed one by one."""
        return bool(self._wandering)

    def runs_on(self, node: Json) -> list[range]:
        """Return the places that `node` reaches, as ranges in ascending order."""
        found = self._local.get(name_of(node), [])
        if not self.wanders:
            return found
        more = [places for one, places in self._wandering if slice_reaches(node, one)]
        return sorted([*found, *more], key=lambda places: places.start)

    @cached_property
    def _binds_late(self) -> bool:
        return any(device.binds_late for device in self.devices)

    def places_on(self, node: Json) -> list[int]:
        """Return the places of the devices that a search on `node` looks at, in the order of trying."""
        places = list(chain.from_iterable(self.runs_on(node)))
        if not self._binds_late:
            return places
        late = {self.pool_numbers[place] for place in places if self.devices[place].binds_late}
        return sorted(places, key=lambda place: self.pool_numbers[place] in late)

    def unusable_pools(self, node: Json) -> list[Pool]:
        """Return pools with something for `node` that Kubernetes does not allocate from now."""
        return [
            pool
            for pool in self.pools
            if not pool.usable and any(slice_reaches(node, one) for one in pool.slices)
        ]

    @cached_property
    def pool_numbers(self) -> Sequence[int]:
        """The number of the pool of each device, in `pool_keys`."""
        return _numbered((one.driver, one.pool) for one in self.devices)

    def number_of(self, state: Hashable) -> int:
        """Return a number that equal states of devices or pools have in every picture of this stock."""
        if len(self._states) > STATES:
            self._states.clear()  # numbers are not given twice, so pictures that know old ones are not misled
        known = self._states.get(state)
        return self._states.setdefault(state, next(self._numbers)) if known is None else known

    def places_in(self, pool: PoolKey) -> list[int]:
        """Return the places of those devices of a usable pool that take of its counters."""
        return self._by_pool.get(pool, [])

    def pools_in(self, run: range) -> list[tuple[int, int]]:
        """Return the pools whose counters devices of a slice take, as (how many devices in a row, number)."""
        known = self._pools_of.get(run.start)
        if known is None:
            numbers = (self.pool_numbers[place] for place in run if self.devices[place].counters)
            known = self._pools_of[run.start] = [(len(list(of)), number) for number, of in groupby(numbers)]
        return known

    @cached_property
    def _pools_of(self) -> dict[int, list[tuple[int, int]]]:
        return {}

    @cached_property
    def _by_pool(self) -> dict[PoolKey, list[int]]:
        found: dict[PoolKey, list[int]] = {}
        for place, device in enumerate(self.devices):
            if device.counters:
                found.setdefault((device.driver, device.pool), []).append(place)
        return found

    @cached_property
    def pool_keys(self) -> list[PoolKey]:
        return list(dict.fromkeys((one.driver, one.pool) for one in self.devices))

    def alike(self, look: Look) -> Alike:
        """Return one device of each look, and all that share it; worked out once for each function."""
        if look not in self._alike:
            places_by_look: dict[Hashable, bytearray] = {}
            first: dict[Hashable, PoolDevice] = {}
            for place, device in enumerate(self.devices):
                seen = look(device)
                if seen not in first:
                    first[seen], places_by_look[seen] = device, bytearray(len(self.devices))
                places_by_look[seen][place] = 1
            self._alike[look] = [(first[seen], pack(flags)) for seen, flags in places_by_look.items()]
        return self._alike[look]

    def values(self, attribute: str) -> Sequence[int]:
        """
        Return a number per device that is equal where a fully qualified attribute is; MISSING without it.
        """
        known = self._values.get(attribute)
        if known is None:
            numbers: dict[Hashable, int] = {None: MISSING}
            known = array(
                "i",
                (numbers.setdefault(exact_value(one, attribute), len(numbers)) for one in self.devices),
            )
            _keep(self._values, attribute, known)
        return known

    def selector_results(self, expression: str, features: Features = NEWEST) -> SelectorResults:
        """
        Return what a selector says of every device, in the order of `devices`.

        Raise `CompileError` or `NotPreviewable` for the expression itself.
        """
        known = self._verdicts.get((expression, features))
        if known is None:
            selector = compile_selector(expression, features)
            known = judge(selector, self.devices, self._shapes(selector))
            _keep(self._verdicts, (expression, features), known)
        return known

    def _shapes(self, selector: Selector) -> Sequence[int]:
        """
        Number the devices by all that the selector reads of them.

        What it reads is numbered per attribute, and kept: the next expression over the same attributes looks
        at no device at all.
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

    def _seen(self, what: tuple[str, ...]) -> array[int]:
        """Number the devices by an entry, by all names of a table, or by all of it."""
        known = self._read.get(what)
        if known is None:
            part, *_ = what
            tables = [device.raw.get(part) or NOTHING for device in self.devices]
            if what[1:] == (WHOLE,):
                known = _numbered(map(repr, tables))
            elif what[1:] == (NAMES,):
                known = _numbered(map(tuple, tables))
            else:
                _, domain, name = what
                pairs = zip(tables, self.devices, strict=True)
                known = _numbered(repr(lookup(table, one.driver, domain, name)) for table, one in pairs)
            _keep(self._read, what, known)
        return known


def _numbered(found: Iterable[Hashable]) -> array[int]:
    """Number what is found, equal ones alike."""
    numbers: dict[Hashable, int] = {}
    return array("i", (numbers.setdefault(one, len(numbers)) for one in found))


def _keep[Key, Kept](table: dict[Key, Kept], key: Key, value: Kept) -> None:
    # Expressions come from people: without a bound, trying out a thousand of them would fill the memory.
    while len(table) >= KEPT:
        table.pop(next(iter(table), key), None)
    table[key] = value
