"""
Devices, shared capacity and counters that allocated claims hold; and an interner for JSON objects.

The devices of a large cluster differ in a few attributes only: interning their equal parts takes a fraction
of the memory. Interned objects must not be changed.
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

MAX_INTERNED = 200_000  # parts; beyond it the table starts empty


class Interner:
    """Interns JSON values. `drop_singletons` forgets the values that occurred once."""

    def __init__(self) -> None:
        self._single: dict[Hashable, Any] = {}
        self._repeated: dict[Hashable, Any] = {}

    def __call__(self, value: Any) -> Any:
        """Return an equal value that shares its equal parts with earlier values."""
        if type(value) is str:
            return sys.intern(value)
        if type(value) is dict:
            interned: Any = {identity: self(part) for identity, part in value.items()}
            identity: Hashable = (*interned, *map(id, interned.values()))
        elif type(value) is list:
            interned = [self(part) for part in value]
            identity = ("", *map(id, interned))
        else:
            return value
        canonical = self._repeated.get(identity)
        if canonical is None:
            canonical = self._single.pop(identity, None)
            if canonical is None:
                self._single[identity] = interned
                return interned
            self._repeated[identity] = canonical
        return canonical

    def drop_singletons(self) -> None:
        self._single.clear()
        if len(self._repeated) > MAX_INTERNED:
            self._repeated.clear()


@dataclass(slots=True)
class HeldDevices:
    """
    Held devices and amounts. `holders` names the claim ("namespace/name") of each whole device, `sharers` the
    claims of each shared one; `consumed` uses the names of `consumedCapacity`.
    """

    holders: dict[DeviceKey, str] = field(default_factory=dict)
    sharers: dict[DeviceKey, list[str]] = field(default_factory=lambda: defaultdict(list))
    consumed: dict[DeviceKey, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))
    counters: dict[tuple[str, str], dict[CounterKey, int]] = field(default_factory=lambda: defaultdict(dict))
    double_held: set[DeviceKey] = field(default_factory=set)  # devices that multiple claims hold as a whole

    def hold(self, key: DeviceKey, holder: str, *, share: Mapping[str, Quantity] | None = None) -> None:
        """Record that `holder` holds the device, or the given share of it."""
        if share is None:
            if key in self.holders:
                self.double_held.add(key)
            self.holders[key] = holder
            return
        self.sharers[key].append(holder)
        amounts = self.consumed[key]
        for name, amount in share.items():
            amounts[name] = amounts.get(name, ZERO) + amount

    def release(self, key: DeviceKey, holder: str, *, share: Mapping[str, Quantity] | None = None) -> None:
        """Undo `hold`, for a device that is not in `double_held`."""
        if share is None:
            del self.holders[key]
            return
        self.sharers[key].remove(holder)
        if not self.sharers[key]:
            del self.sharers[key], self.consumed[key]
            return
        for name, amount in share.items():
            self.consumed[key][name] -= amount

    def copy(self, changed: Iterable[DeviceKey]) -> HeldDevices:
        """Return a copy in which the entries of `changed_devices` can be changed."""
        keys = list(changed)
        copied = HeldDevices(
            dict(self.holders),
            defaultdict(list, self.sharers),
            defaultdict(dict, self.consumed),
            defaultdict(dict, self.counters),
            set(self.double_held),
        )
        for key in keys:
            if key in copied.sharers:
                copied.sharers[key] = list(copied.sharers[key])
                copied.consumed[key] = dict(copied.consumed[key])
        for pool in {(driver, pool) for driver, pool, _ in keys}:
            if pool in copied.counters:
                copied.counters[pool] = dict(copied.counters[pool])
        return copied

    def is_held(self, key: DeviceKey) -> bool:
        """Whether a claim holds the device or a share of it."""
        return key in self.holders or key in self.sharers

    def count(self, devices: Iterable[PoolDevice], sign: int = 1) -> None:
        """
        Add to the pools' used counters what the held ones of these devices consume, a shared device once;
        with `sign` -1 subtract it.
        """
        for device in devices:
            if device.counters and self.is_held(device.key):
                used = self.counters[device.driver, device.pool]
                for counter, amount in device.counters:
                    used[counter] = used.get(counter, 0) + sign * amount.nano


def device_key(result: Mapping[str, Any]) -> DeviceKey:
    return (str(result.get("driver")), str(result.get("pool")), str(result.get("device")))


def allocation_results(claim: Json) -> list[Json]:
    """Return the devices of `status.allocation`, those of admin access included."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def claim_name(claim: Json) -> str:
    """Return "namespace/name"."""
    metadata = claim.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def held_devices(claims: Iterable[Json]) -> HeldDevices:
    """Sum up the allocations of claims. Admin access holds nothing: it uses devices that others hold."""
    held = HeldDevices()
    for claim in claims:
        for key, holder, share in holdings(claim):
            held.hold(key, holder, share=share)
    return held


def holdings(claim: Json) -> Iterator[tuple[DeviceKey, str, dict[str, Quantity] | None]]:
    """Yield (device, holder, share) per device that the claim holds; share is None for a whole device."""
    holder = claim_name(claim)
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
            continue  # the API server refuses such amounts; skipping one beats losing the whole snapshot
    return amounts
