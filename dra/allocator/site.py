"""What a search looks at on one node: devices in the order of trying, and whether requests accept them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dra.cel import CelError, CompileError
from dra.cel.selector import compile_stored
from dra.cluster_snapshot import ClusterSnapshot
from dra.facts import Malformed, entries
from dra.features import Features
from dra.node_pools import NodePool
from dra.nodes import SelectorError, check_node_selection, selects_node
from dra.objects import Json
from dra.pools import PoolDevice
from dra.taints import Taint, rule_taints


class AllocationError(Exception):
    """
    The claims cannot be tried at all, whatever is free.

    Upstream, the pod is unschedulable with an error then, and not merely waiting.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NodeFailed(AllocationError):
    """The claims do not fit this node, of which an invalid pool may be the reason; others may still do."""


class SearchGivenUp(AllocationError):
    """There may be a way, but finding it takes longer than a search may: upstream times out likewise."""


@dataclass(frozen=True, slots=True)
class _Unshared:
    """A device as the stable allocator shows it to selectors: it does not know of sharing."""

    driver: str
    raw: Json


class NodeSite:
    """
    One node of a picture. `devices` are those of its usable pools; a spot is an index into them.

    Raise `AllocationError` if the pools of the node cannot be told.
    """

    def __init__(self, snapshot: ClusterSnapshot, node: Json) -> None:
        self.snapshot, self.node = snapshot, node
        self.features: Features = snapshot.features
        try:
            self.pools: Sequence[NodePool] = snapshot.device_index.node_pools.pools_on(node, self.features)
        except SelectorError as error:
            raise AllocationError(str(error)) from None
        self.devices: list[PoolDevice] = []
        self.pool_of: list[int] = []
        for number, pool in enumerate(self.pools):
            self.devices += pool.devices
            self.pool_of += [number] * len(pool.devices)
        self._taints: dict[int, Sequence[Taint]] = {}
        self._readable: dict[int, str] = {}

    @cached_property
    def spots(self) -> dict[int, list[int]]:
        """The spots of each pool, by its number."""
        found: dict[int, list[int]] = {}
        for spot, number in enumerate(self.pool_of):
            found.setdefault(number, []).append(spot)
        return found

    def taints(self, spot: int) -> Sequence[Taint]:
        """Return the taints of a device, of its slice and of DeviceTaintRules."""
        known = self._taints.get(spot)
        if known is None:
            device = self.devices[spot]
            ruled = rule_taints(device, self.snapshot.taint_rules) if self.snapshot.taint_rules else ()
            known = self._taints[spot] = (*device.taints, *ruled)
        return known

    def selected(self, expression: str, spot: int) -> bool:
        """Say whether a selector accepts the device. Raise `CelError` if it fails on it."""
        device = self.devices[spot]
        if self.features.stable and device.shareable:
            bare = {key: value for key, value in device.raw.items() if key != "allowMultipleAllocations"}
            return compile_stored(expression).matches(_Unshared(device.driver, bare))
        device_index = self.snapshot.device_index
        place = device_index.index.get(device.key)
        if place is None or device_index.devices[place] is not device:  # only this node sees the device
            return compile_stored(expression).matches(device)
        try:
            selector_results = device_index.selector_results(expression, self.features)
        except CompileError:  # it may use what is off, or cost too much: what is stored is taken all the same
            return compile_stored(expression).matches(device)
        if place in selector_results.errors:
            raise selector_results.errors[place]
        return bool(selector_results.flags[place])

    def check_readable(self, spot: int) -> None:
        """
        Raise `AllocationError` if the device publishes an attribute that has no value.

        Upstream reads all attributes for any selector, so that one that looks at others fails, too.
        """
        known = self._readable.get(spot)
        if known is None:
            known = ""
            try:
                entries(self.devices[spot], "attributes")
            except Malformed as error:
                known = str(error)
            self._readable[spot] = known
        if known:
            raise AllocationError(f"No selector can be applied to {self.devices[spot]}: {known}")

    def reached(self, spot: int) -> bool:
        """Say whether the node reaches a device that is placed by itself."""
        device = self.devices[spot]
        if not device.per_device_node_selection:
            return True
        try:
            check_node_selection(device.raw)
        except SelectorError as error:
            raise AllocationError(f"{device}: {error}") from None
        return selects_node(self.node, device.raw)


def failed(what: str, spot: int, site: NodeSite, error: CelError) -> AllocationError:
    return AllocationError(f"{what} fails on {site.devices[spot]}: {error.message}")
