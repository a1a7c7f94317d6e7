"""
The devices of a cluster and what selectors say of them: all that follows from ResourceSlices alone.

Slices change seldom and claims all the time, so this part is kept from picture to picture.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from dra.cel import CelError, compile_selector
from dra.columns import Column, everything, pack
from dra.facts import exact_value
from dra.nodes import name_of, slice_reaches
from dra.objects import Json
from dra.pools import CounterKey, DeviceKey, Pool, PoolDevice, pools_of

type PoolKey = tuple[str, str]

KEPT = 200  # expressions and attributes per stock; each takes some bytes per device
MISSING = -1  # number of a value that is not there


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What one expression says of every device; `failing` are those on which it fails instead."""

    column: Column
    flags: bytes
    failing: Mapping[int, CelError]


@dataclass(frozen=True)
class Stock:
    """Pools and devices. Worked out when first asked for; threads may share it."""

    slices: Sequence[Json] = ()
    _verdicts: dict[str, Verdicts] = field(default_factory=dict, repr=False, compare=False)
    _values: dict[str, list[int]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def pools(self) -> list[Pool]:
        return pools_of(self.slices)

    @cached_property
    def devices(self) -> list[PoolDevice]:
        """Devices of usable pools, in the order in which they are tried."""
        return [device for pool in self.pools if pool.usable for device in pool.devices]

    @cached_property
    def index(self) -> dict[DeviceKey, int]:
        """Where each device stands in `devices`."""
        return {device.key: place for place, device in enumerate(self.devices)}

    @cached_property
    def all(self) -> Column:
        return everything(len(self.devices))

    @cached_property
    def special(self) -> Column:
        """
        Devices that are taken in shares or at the expense of others, so that counting free ones misleads.
        """
        return pack(device.shareable or bool(device.counters) for device in self.devices)

    @cached_property
    def counters(self) -> dict[PoolKey, Mapping[CounterKey, int]]:
        """What the pools have of each shared counter, in nano-units."""
        return {
            (pool.driver, pool.name): {key: amount.nano for key, amount in pool.counters.items()}
            for pool in self.pools
            if pool.counters
        }

    @cached_property
    def _by_slice(self) -> list[tuple[Json, list[int]]]:
        """Slices of usable pools with the places of their devices."""
        found: list[tuple[Json, list[int]]] = []
        place = 0
        for pool in self.pools:
            if pool.usable:
                for one in pool.slices:
                    count = len((one.get("spec") or {}).get("devices") or ())
                    found.append((one, list(range(place, place + count))))
                    place += count
        return found

    @cached_property
    def _local(self) -> dict[str, list[int]]:
        """Places of the devices whose slice is local to a node, by node."""
        local: dict[str, list[int]] = {}
        for one, places in self._by_slice:
            if name := one["spec"].get("nodeName"):
                local.setdefault(name, []).extend(places)
        return local

    @cached_property
    def _wandering(self) -> list[tuple[Json, list[int]]]:
        return [(one, places) for one, places in self._by_slice if not one["spec"].get("nodeName")]

    @cached_property
    def wanders(self) -> bool:
        """Whether some devices are reachable from several nodes, or placed one by one."""
        return any(places for _, places in self._wandering)

    @cached_property
    def _binds_late(self) -> bool:
        return any(device.binds_late for device in self.devices)

    def places_on(self, node: Json) -> list[int]:
        """Return the places of the devices that a search on `node` looks at, in the order of trying."""
        places = self._local.get(name_of(node), [])
        if self.wanders:
            found = [more for one, more in self._wandering if more and slice_reaches(node, one)]
            places = sorted([*places, *chain.from_iterable(found)])
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
    def pool_numbers(self) -> list[int]:
        """The number of the pool of each device."""
        numbers: dict[PoolKey, int] = {}
        return [numbers.setdefault((device.driver, device.pool), len(numbers)) for device in self.devices]

    def values(self, attribute: str) -> list[int]:
        """
        Return a number per device that is equal where a fully qualified attribute is; MISSING without it.
        """
        known = self._values.get(attribute)
        if known is None:
            numbers: dict[Hashable, int] = {None: MISSING}
            known = [
                numbers.setdefault(exact_value(device, attribute), len(numbers)) for device in self.devices
            ]
            _keep(self._values, attribute, known)
        return known

    def verdicts(self, expression: str) -> Verdicts:
        """
        Return what a selector says of every device, in the order of `devices`.

        Raise `CompileError` or `NotPreviewable` for the expression itself.
        """
        known = self._verdicts.get(expression)
        if known is None:
            known = _judge(expression, self.devices)
            _keep(self._verdicts, expression, known)
        return known


def _keep[Kept](table: dict[str, Kept], key: str, value: Kept) -> None:
    # Expressions come from people: without a bound, trying out a thousand of them would fill the memory.
    while len(table) >= KEPT:
        table.pop(next(iter(table), ""), None)
    table[key] = value


def _judge(expression: str, devices: Sequence[PoolDevice]) -> Verdicts:
    """Evaluate once per distinct shape of device."""
    selector = compile_selector(expression)
    by_shape: dict[object, bool | CelError] = {}
    failing: dict[int, CelError] = {}
    flags = bytearray(len(devices))
    for place, (device, shape) in enumerate(zip(devices, selector.shapes(devices), strict=True)):
        verdict = by_shape.get(shape)
        if verdict is None:
            try:
                verdict = selector.matches(device)
            except CelError as error:
                verdict = error
            by_shape[shape] = verdict
        if verdict is True:
            flags[place] = 1
        elif verdict is not False:
            failing[place] = verdict
    return Verdicts(pack(flags), bytes(flags), failing)
