"""Rules of the engine, each switched off: a comparison that does not notice is worth nothing."""

from collections.abc import Callable, Mapping
from unittest.mock import PropertyMock

import pytest

from dra import node_pools, nodes
from dra import objects as dra_objects
from dra.allocator import capacity, node, plan, result, search
from dra.allocator import result as config
from dra.allocator.capacity import Counters
from dra.allocator.node import NodeSite
from dra.allocator.plan import Constraint
from dra.allocator.search import NodeSearch
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features
from dra.held import HeldDevices
from dra.objects import DeviceRequest
from dra.pools import PoolDevice, PoolSlice

type Patch = Callable[[pytest.MonkeyPatch], None]

_FREE = HeldDevices()


def _put(owner: object, name: str, value: object) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def _always(owner: object, name: str, value: object) -> Patch:
    """Let a function or method answer the same whatever it is asked."""
    return _put(owner, name, lambda *_, **__: value)


def _reads(owner: type, name: str, value: object) -> Patch:
    """Let a property read the same everywhere."""
    return _put(owner, name, PropertyMock(return_value=value))


def _every_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan, "MAX_RESULTS", 1000)
    patch.setattr(search, "MAX_RESULTS", 1000)


def _nothing_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterSnapshot, "held", _FREE)


def _agree(*, distinct: bool) -> Patch:
    """Let all values agree in one of the two kinds of constraint."""
    agrees = Constraint._agrees
    return _put(Constraint, "_agrees", lambda self, value: self.distinct is distinct or agrees(self, value))


def _last_alternative_first(patch: pytest.MonkeyPatch) -> None:
    alternatives = dra_objects.alternatives
    patch.setattr(plan, "alternatives", lambda request, path="": alternatives(request, path)[::-1])


def _devices_backwards(patch: pytest.MonkeyPatch) -> None:
    devices = node_pools._devices
    patch.setattr(node_pools, "_devices", lambda slices: devices(slices)[::-1])


def _slices_as_they_come(patch: pytest.MonkeyPatch) -> None:
    reached = node_pools.NodePools._reached

    def named_alike(self: node_pools.NodePools, node: dict, features: Features) -> dict:
        return {key: slices[::-1] for key, slices in reached(self, node, features).items()}

    patch.setattr(node_pools.NodePools, "_reached", named_alike)
    patch.setattr(PoolSlice, "name", "")


def _incomplete_pools_give(patch: pytest.MonkeyPatch) -> None:
    judge = node_pools.NodePools._judge

    def build(
        self: node_pools.NodePools, key: node_pools.PoolKey, slices: list, features: Features
    ) -> node_pools.NodePool:
        found = judge(self, key, slices, features)
        return node_pools._build(key, slices, [], features) if found and found.incomplete else found

    patch.setattr(node_pools.NodePools, "_judge", build)


RULES: Mapping[str, Patch] = {
    "a taint keeps a device away": _always(NodeSearch, "_tolerated", True),
    "a toleration lets it through": _always(search, "untolerated", "a taint"),
    "counters of a pool run out": _always(Counters, "take", lambda: None),
    "what others hold takes counters": _put(Counters, "_held_devices", lambda *_: iter(())),
    "a share of a device takes no counters if another share did": _always(NodeSearch, "_in_shares", False),
    "compatibility groups have to meet": _always(Counters, "_joined", {}),
    "only the newest generation counts": _put(PoolSlice, "generation", 1),
    "an incomplete pool gives nothing": _incomplete_pools_give,
    "device names are unique": _always(node_pools, "duplicate_name_problem", ""),
    "matchAttribute wants one value": _agree(distinct=False),
    "distinctAttribute wants different values": _agree(distinct=True),
    "a constraint holds for the requests that it names": _always(Constraint, "applies", True),
    "lists of values are compared as sets": _always(Constraint, "_add_set", False),
    "a constraint is told what it constrains": _always(plan, "claim_constraints", []),
    "a node selector is heeded": _always(nodes, "selects", True),
    "a device of another node is not reached": _always(NodeSite, "reached", True),
    "admin access goes beside others": _reads(DeviceRequest, "admin", False),
    "what is held is not given again": _nothing_held,
    "what is consumed is not given again": _always(NodeSearch, "_consumed", {}),
    "amounts are rounded up to a range": _put(capacity, "_in_range", lambda wanted, *_: wanted),
    "amounts are rounded up to a valid value": _put(capacity, "_among", lambda wanted, _: wanted),
    "a policy limits what can be asked": _always(capacity, "_allowed", True),
    "pools with binding conditions come last": _reads(PoolDevice, "has_binding_conditions", False),
    "a claim holds 32 devices": _every_limit,
    "selectors of a class": _always(ClusterSnapshot, "class_expressions", ()),
    "selectors of a request": _reads(DeviceRequest, "expressions", ()),
    "an attribute without a value fails every selector": _always(NodeSite, "check_readable", None),
    "alternatives are tried in their order": _last_alternative_first,
    "devices are tried in their order": _devices_backwards,
    "slices are tried by name": _slices_as_they_come,
    "configuration goes with the allocation": _always(config, "_entry", {}),
    "an allocation says on which nodes it holds": _always(node, "selects_node", True),
    "tolerations go with the allocation": _always(result, "_toleration", {}),
    "a switch that is off refuses what needs it": _always(plan, "_check_features", None),
    "mode All needs all": _always(plan, "_large_enough", False),
}
