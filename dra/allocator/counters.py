"""Shared counters during a search (KEP 4815) and compatibility groups of counter sets (KEP 5963)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dra.allocator.site import NodeSite
from dra.held import HeldDevices
from dra.objects import Json
from dra.pools import CounterKey, PoolDevice

type Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CompatibilityGroups:
    """
    The compatibility groups that the devices of one counter set have in common.

    Devices without groups are compatible only with each other; `any_named` distinguishes them from devices
    whose groups have nothing in common, which admit no further device.
    """

    groups: frozenset[str]
    any_named: bool

    @classmethod
    def named_by(cls, groups: frozenset[str]) -> CompatibilityGroups:
        """Return the state after the first device, with these `groups`."""
        return cls(groups, bool(groups))

    def admits(self, groups: frozenset[str]) -> bool:
        return bool(self.groups & groups) if groups else not self.any_named

    def with_(self, groups: frozenset[str]) -> CompatibilityGroups:
        if not groups or not self.any_named:
            return self
        return CompatibilityGroups(self.groups & groups, self.any_named)


class Counters:
    """The counters left in the pools of a node while a search allocates and backtracks."""

    def __init__(self, site: NodeSite, held: HeldDevices) -> None:
        self.site, self.held = site, held
        self._counters_left: dict[int, dict[CounterKey, int]] = {}
        self._together: dict[int, dict[str, CompatibilityGroups]] = {}

    def take(self, index: int) -> Undo | None:
        """Consume the device's counters and return the undo function; None if the pool has too few."""
        number, device = self.site.pool_of[index], self.site.devices[index]
        left, together = self._left_of(number), self._together_of(number)
        joined = self._joined(device, together)
        if joined is None:
            return None
        before = {name: together.get(name) for name in joined}
        together.update(joined)
        for counter, need in device.counters:
            left[counter] -= need.nano

        def undo() -> None:
            for counter, need in device.counters:
                left[counter] += need.nano
            for name, groups_before in before.items():
                if groups_before is None:
                    del together[name]
                else:
                    together[name] = groups_before

        # One overdrawn counter blocks every device of the pool that consumes counters.
        if min(left.values(), default=0) < 0:
            undo()
            return None
        return undo

    def _joined(
        self, device: PoolDevice, together: dict[str, CompatibilityGroups]
    ) -> dict[str, CompatibilityGroups] | None:
        """Return the groups of the device's counter sets with it; None if it is incompatible with one."""
        joined: dict[str, CompatibilityGroups] = {}
        if not self.site.features.compatibility_groups:
            return joined
        for name, groups in _groups(device):
            current = joined.get(name) or together.get(name)
            if current is not None and not current.admits(groups):
                return None
            joined[name] = CompatibilityGroups.named_by(groups) if current is None else current.with_(groups)
        return joined

    def _left_of(self, number: int) -> dict[CounterKey, int]:
        left = self._counters_left.get(number)
        if left is None:
            pool = self.site.pools[number]
            left = self._counters_left[number] = {key: amount.nano for key, amount in pool.counters.items()}
            for device in self._held_devices(number):
                for counter, amount in device.counters:
                    left[counter] -= amount.nano
        return left

    def _together_of(self, number: int) -> dict[str, CompatibilityGroups]:
        together = self._together.get(number)
        if together is None:
            together = self._together[number] = {}
            for device in self._held_devices(number):
                for name, groups in _groups(device):
                    current = together.get(name)
                    together[name] = (
                        CompatibilityGroups.named_by(groups) if current is None else current.with_(groups)
                    )
        return together

    def _held_devices(self, number: int) -> Iterator[PoolDevice]:
        """Yield devices of the pool that claims hold; the stable allocator knows whole devices only."""
        pool, held, stable = self.site.pools[number], self.held, self.site.features.stable
        for device in (*pool.devices, *pool.other_devices):
            consumes = device.raw.get("consumesCounters")  # groups count even without counters
            if consumes and (device.key in held.holders if stable else held.is_held(device.key)):
                yield device


def _groups(device: PoolDevice) -> Iterator[tuple[str, frozenset[str]]]:
    consumed: list[Json] = device.raw.get("consumesCounters") or []
    for consumption in consumed:
        yield (
            str(consumption.get("counterSet") or ""),
            frozenset(consumption.get("compatibilityGroups") or ()),
        )
