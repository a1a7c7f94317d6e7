"""
What is held of each device, by whom; equal parts of many objects are kept once.

Equal parts of many JSON objects as one and the same object.

The devices of a large cluster differ in a few attributes and agree in the rest: kept once, they take a
fraction of the memory. What is shared must not be changed.

What allocated claims have taken: whole devices, capacity of shared ones, and counters of their pools.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra.objects import Json
from dra.pools import CounterKey, DeviceKey, PoolDevice
from dra.quantity import ZERO, Quantity, QuantityError

MOST = 200_000  # parts that are remembered; beyond it they are learnt anew


class Interner:
    """Parts that have been seen. `drop_singletons` drops those that turned out to be seen once."""

    def __init__(self) -> None:
        self._single: dict[Hashable, Any] = {}
        self._several: dict[Hashable, Any] = {}

    def __call__(self, value: Any) -> Any:
        """Return an equal value whose parts are those of earlier values where they are equal."""
        if type(value) is str:
            return sys.intern(value)
        if type(value) is dict:
            made: Any = {key: self(part) for key, part in value.items()}
            look: Hashable = (*made, *map(id, made.values()))
        elif type(value) is list:
            made = [self(part) for part in value]
            look = ("", *map(id, made))
        else:
            return value
        known = self._several.get(look)
        if known is None:
            known = self._single.pop(look, None)
            if known is None:
                self._single[look] = made
                return made
            self._several[look] = known
        return known

    def drop_singletons(self) -> None:
        self._single.clear()
        if len(self._several) > MOST:
            self._several.clear()


@dataclass(slots=True)
class HeldDevices:
    """
    Devices and amounts that are gone. `holders` names a claim ("namespace/name") per whole device, `sharers`
    those per shared one; `consumed` is in the names that `consumedCapacity` uses.
    """

    holders: dict[DeviceKey, str] = field(default_factory=dict)
    sharers: dict[DeviceKey, list[str]] = field(default_factory=lambda: defaultdict(list))
    consumed: dict[DeviceKey, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))
    counters: dict[tuple[str, str], dict[CounterKey, int]] = field(default_factory=lambda: defaultdict(dict))
    doubly: set[DeviceKey] = field(default_factory=set)  # devices that several claims have as a whole

    def take(self, key: DeviceKey, holder: str, *, share: Mapping[str, Quantity] | None = None) -> None:
        """Note that `holder` has the device, or the given share of it."""
        if share is None:
            if key in self.holders:
                self.doubly.add(key)
            self.holders[key] = holder
            return
        self.sharers[key].append(holder)
        amounts = self.consumed[key]
        for name, amount in share.items():
            amounts[name] = amounts.get(name, ZERO) + amount

    def give_back(self, key: DeviceKey, holder: str, *, share: Mapping[str, Quantity] | None = None) -> None:
        """Undo `take`, of a device that is not held doubly."""
        if share is None:
            del self.holders[key]
            return
        self.sharers[key].remove(holder)
        if not self.sharers[key]:
            del self.sharers[key], self.consumed[key]
            return
        for name, amount in share.items():
            self.consumed[key][name] -= amount

    def copy(self, touched: Iterable[DeviceKey]) -> HeldDevices:
        """Return a copy in which what is said of the `touched` devices can be changed."""
        keys = list(touched)
        made = HeldDevices(
            dict(self.holders),
            defaultdict(list, self.sharers),
            defaultdict(dict, self.consumed),
            defaultdict(dict, self.counters),
            set(self.doubly),
        )
        for key in keys:
            if key in made.sharers:
                made.sharers[key] = list(made.sharers[key])
                made.consumed[key] = dict(made.consumed[key])
        for pool in {(driver, pool) for driver, pool, _ in keys}:
            if pool in made.counters:
                made.counters[pool] = dict(made.counters[pool])
        return made

    def taken(self, key: DeviceKey) -> bool:
        """Whether somebody has the device or a share of it."""
        return key in self.holders or key in self.sharers

    def count(self, devices: Iterable[PoolDevice], sign: int = 1) -> None:
        """
        Take from the pools' counters what the taken ones of these devices consume, a shared one once; with
        `sign` -1 give it back.
        """
        for device in devices:
            if device.counters and self.taken(device.key):
                used = self.counters[device.driver, device.pool]
                for counter, amount in device.counters:
                    used[counter] = used.get(counter, 0) + sign * amount.nano


def device_key(result: Mapping[str, Any]) -> DeviceKey:
    return (str(result.get("driver")), str(result.get("pool")), str(result.get("device")))


def allocation_results(claim: Json) -> list[Json]:
    """Return the devices of `status.allocation`, those of admin access included."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def held_devices(claims: Iterable[Json]) -> HeldDevices:
    """Sum up the allocations of claims. Admin access holds nothing: it looks at devices that others have."""
    held = HeldDevices()
    for claim in claims:
        for key, holder, share in holdings(claim):
            held.take(key, holder, share=share)
    return held


def holdings(claim: Json) -> Iterator[tuple[DeviceKey, str, dict[str, Quantity] | None]]:
    """Yield what `Held.take` takes for a claim; the share is None for a whole device."""
    metadata = claim.get("metadata") or {}
    holder = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    for result in allocation_results(claim):
        if result.get("adminAccess") is not True:
            share = _share(result.get("consumedCapacity") or {}) if result.get("shareID") else None
            yield device_key(result), holder, share


def _share(consumed: Json) -> dict[str, Quantity]:
    amounts: dict[str, Quantity] = {}
    for name, amount in consumed.items():
        try:
            amounts[name] = Quantity.parse(amount)
        except QuantityError:
            continue  # the API server lets no such amount through; losing it beats losing the whole picture
    return amounts
