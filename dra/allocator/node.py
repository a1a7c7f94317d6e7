"""One node for a search: its devices in allocation order and selector results; errors of an allocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dra.attributes import Malformed, entries
from dra.cel import CelError, CompileError
from dra.cel.selector import compile_stored
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features
from dra.node_pools import NodePool
from dra.nodes import SelectorError, check_node_selection, selects_node
from dra.objects import Json
from dra.pools import PoolDevice
from dra.taints import Taint, rule_taints


class AllocationError(Exception):
    """
    The claims cannot be allocated, whatever is free; the message is a sentence.

    Upstream, the pod is then unschedulable with an error instead of pending.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NodeFailed(AllocationError):
    """The claims do not fit this node, perhaps because of an invalid pool; other nodes can still fit."""


class TooManyDevices(AllocationError):
    """The claim needs more devices than one claim may have."""


class SearchGivenUp(AllocationError):
    """The search exceeded its limit, as upstream runs into its timeout."""


@dataclass(frozen=True, slots=True)
class _Unshared:
    """A device as the stable allocator passes it to selectors: without sharing."""

    driver: str
    raw: Json


class NodeSite:
    """
    One node of a snapshot. `devices` are those of its usable pools, in allocation order.

    Raise `AllocationError` if the node selector of a slice is invalid.
    """

    def __init__(self, snapshot: ClusterSnapshot, node: Json, *, literal: bool = False) -> None:
        self.snapshot, self.node = snapshot, node
        self.features: Features = snapshot.features
        try:
            self.pools: Sequence[NodePool] = snapshot.device_index.node_pools.pools_on(
                node, self.features, literal=literal
            )
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
    def indices_by_pool(self) -> dict[int, list[int]]:
        """Device indices of each pool, by its number."""
        by_pool: dict[int, list[int]] = {}
        for index, number in enumerate(self.pool_of):
            by_pool.setdefault(number, []).append(index)
        return by_pool

    def taints(self, index: int) -> Sequence[Taint]:
        """Return the taints of a device, from its slice and from DeviceTaintRules."""
        taints = self._taints.get(index)
        if taints is None:
            device = self.devices[index]
            ruled = rule_taints(device, self.snapshot.taint_rules) if self.snapshot.taint_rules else ()
            taints = self._taints[index] = (*device.taints, *ruled)
        return taints

    def selected(self, expression: str, index: int) -> bool:
        """Return whether a selector accepts the device. Raise `CelError` if it fails on the device."""
        device = self.devices[index]
        if self.features.stable and device.shareable:
            bare = {key: value for key, value in device.raw.items() if key != "allowMultipleAllocations"}
            return compile_stored(expression).matches(_Unshared(device.driver, bare))
        device_index = self.snapshot.device_index
        cluster_index = device_index.index.get(device.key)
        if (
            cluster_index is None or device_index.devices[cluster_index] is not device
        ):  # the device is valid on this node only
            return compile_stored(expression).matches(device)
        try:
            results = device_index.selector_results(expression, self.features)
        except CompileError:  # the scheduler compiles stored selectors regardless of gates and cost
            return compile_stored(expression).matches(device)
        if cluster_index in results.errors:
            raise results.errors[cluster_index]
        return bool(results.flags[cluster_index])

    def check_readable(self, index: int) -> None:
        """
        Raise `AllocationError` if the device publishes an attribute without a value.

        Upstream reads all attributes for any selector, so such a device fails every selector.
        """
        problem = self._readable.get(index)
        if problem is None:
            problem = ""
            try:
                entries(self.devices[index], "attributes")
            except Malformed as error:
                problem = str(error)
            self._readable[index] = problem
        if problem:
            raise AllocationError(f"No selector can be applied to {self.devices[index]}: {problem}")

    def reached(self, index: int) -> bool:
        """Return whether the node reaches a device with its own node selection."""
        device = self.devices[index]
        if not device.per_device_node_selection:
            return True
        try:
            check_node_selection(device.raw)
        except SelectorError as error:
            raise AllocationError(f"{device}: {error}") from None
        return selects_node(self.node, device.raw)


def selector_error(subject: str, index: int, site: NodeSite, error: CelError) -> AllocationError:
    return AllocationError(f"{subject} fails on {site.devices[index]}: {error.message}")
