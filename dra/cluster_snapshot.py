"""
ClusterSnapshot: one cluster at one time, as the allocator reads it.

A snapshot comes from lists of API objects, or from a dump such as `kubectl get … -o json` writes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, cast

from dra.attributes import exact_capacity
from dra.device_index import DeviceIndex, remember
from dra.features import NEWEST, Features
from dra.held import HeldDevices, claim_name, held_devices, holdings
from dra.node_pools import NodeRuns, PoolKey, is_supported
from dra.nodes import SelectorError, name_of_node
from dra.objects import Json, expressions
from dra.pools import CounterKey, Pool, PoolDevice
from dra.selector_results import DeviceMask, SelectorResults, pack, unpack
from dra.taints import Taint, rule_taints, tolerates

MAX_INCREMENTAL_DEVICES = 1000  # with more changed devices, a full sum is as fast

MAX_TOLERATIONS = 20  # lists of tolerations; each takes a byte per device
MAX_DERIVED = 500  # results

# Cached properties, and the list that each depends on besides the devices.
SOURCES = {
    "held": "claims",
    "_takeable": "claims",
    "reachable": "nodes",
    "remaining_capacity": "claims",
    "_counters_left": "claims",
    "_pool_states": "claims",
    "taints": "taint_rules",
    "_tainted": "taint_rules",
    "_untainted": "taint_rules",
    "node_ranges": "nodes",
    "node_runs": "nodes",
    "_nodes_by": "nodes",
    "node_by_name": "nodes",
    "claim_by_name": "claims",
    "class_by_name": "classes",
}


@dataclass(frozen=True)
class ClusterSnapshot:
    """
    API objects as listed. All other attributes derive from them, on first use.

    A snapshot is immutable. `after` returns the next one and keeps the cached values that are still valid.
    """

    classes: Sequence[Json] = ()
    slices: Sequence[Json] = ()
    claims: Sequence[Json] = ()
    taint_rules: Sequence[Json] = ()
    nodes: Sequence[Json] = ()
    features: Features = NEWEST
    _shared_index: DeviceIndex | None = field(default=None, repr=False, compare=False)

    def after(
        self,
        *,
        classes: Sequence[Json] | None = None,
        claims: Sequence[Json] | None = None,
        changed_claims: Sequence[tuple[Json | None, Json | None]] | None = None,
        taint_rules: Sequence[Json] | None = None,
        nodes: Sequence[Json] | None = None,
    ) -> ClusterSnapshot:
        """
        Return a snapshot with some lists replaced.

        `changed_claims` has (before, after) of each claim that differs in `claims`, None where it does not
        exist: holdings are then updated instead of summed up again.

        Devices, selector results and all values that depend on unchanged lists are kept.
        """
        snapshot = ClusterSnapshot(
            slices=self.slices,
            features=self.features,
            _shared_index=self.device_index,
            classes=self.classes if classes is None else classes,
            claims=self.claims if claims is None else claims,
            taint_rules=self.taint_rules if taint_rules is None else taint_rules,
            nodes=self.nodes if nodes is None else nodes,
        )
        unchanged = (
            name for name, source in SOURCES.items() if getattr(snapshot, source) is getattr(self, source)
        )
        vars(snapshot).update({name: vars(self)[name] for name in unchanged if name in vars(self)})
        if "unallocated" in vars(self) and all(
            getattr(snapshot, name) is getattr(self, name) for name in ("classes", "taint_rules", "nodes")
        ):
            vars(snapshot)["unallocated"] = self.unallocated
        if changed_claims is not None and "held" in vars(self):
            self._update_holdings(snapshot, changed_claims)
        if changed_claims is not None and "claim_by_name" in vars(self):
            claim_by_name = vars(snapshot)["claim_by_name"] = dict(self.claim_by_name)
            for before, _ in changed_claims:  # first: a deleted claim can have a successor of its name
                if before is not None:
                    claim_by_name.pop(claim_name(before), None)
            claim_by_name |= {claim_name(after): after for _, after in changed_claims if after is not None}
        return snapshot

    def _update_holdings(
        self, snapshot: ClusterSnapshot, changed_claims: Sequence[tuple[Json | None, Json | None]]
    ) -> None:
        released = [
            holding for before, _ in changed_claims if before is not None for holding in holdings(before)
        ]
        added = [holding for _, after in changed_claims if after is not None for holding in holdings(after)]
        touched = {key for key, _, _ in (*released, *added)}
        if len(touched) > MAX_INCREMENTAL_DEVICES or touched & self.held.double_held:
            return
        held = self.held.copy(touched)
        touched_indices = [index for key in touched for index in self.device_index.indices_of(key)]
        devices = [self.devices[index] for index in touched_indices]
        held.count(devices, -1)
        for key, holder, share in released:
            held.release(key, holder, share=share)
        for key, holder, share in added:
            held.hold(key, holder, share=share)
        held.count(devices)
        vars(snapshot)["held"] = held
        pools = {self.device_index.pool_numbers[index] for index in touched_indices}
        keys = {self.device_index.pool_keys[number] for number in pools}
        vars(snapshot)["_counters_left"] = {
            pool: left for pool, left in self._counters_left.items() if pool not in keys
        }
        vars(snapshot)["_pool_states"] = {
            number: state for number, state in self._pool_states.items() if number not in pools
        }
        if "remaining_capacity" in vars(self):
            remaining_capacity = vars(snapshot)["remaining_capacity"] = array("q", self.remaining_capacity)
            for index in touched_indices:
                remaining_capacity[index] = snapshot._remaining(index)
        if "_takeable" in vars(self):
            flags = bytearray(unpack(self._takeable, len(self.devices)))
            same_pools = chain.from_iterable(map(self.device_index.counter_device_indices, keys))
            for index in {*touched_indices, *same_pools}:
                flags[index] = snapshot.can_take(snapshot.devices[index])
            vars(snapshot)["_takeable"] = pack(flags)

    def derived[T](self, key: Hashable, compute: Callable[[], T]) -> T:
        """
        Return what `compute` makes of this snapshot alone; for an equal key the first result again.

        The result must be small and must not be changed. The next snapshot starts without results.
        """
        if key not in self._derived:
            remember(self._derived, key, result := compute(), MAX_DERIVED)
            return result
        return cast(T, self._derived[key])

    @cached_property
    def _derived(self) -> dict[Hashable, object]:
        return {}

    @cached_property
    def device_index(self) -> DeviceIndex:
        return self._shared_index or DeviceIndex(self.slices)

    @property
    def pools(self) -> list[Pool]:
        return self.device_index.pools

    @property
    def devices(self) -> list[PoolDevice]:
        """
        Devices of usable pools in allocation order. A device index is an index into this list.
        """
        return self.device_index.devices

    @property
    def counters(self) -> Mapping[PoolKey, Mapping[CounterKey, int]]:
        return self.device_index.counters

    def indices_on(self, node: Json) -> list[int]:
        return self.device_index.indices_on(node)

    def selector_results(self, expression: str) -> SelectorResults:
        return self.device_index.selector_results(expression, self.features)

    @cached_property
    def unallocated(self) -> ClusterSnapshot:
        """The same cluster as if no claim held a device; later snapshots keep it while only claims change."""
        return self.after(claims=())

    @cached_property
    def held(self) -> HeldDevices:
        held = held_devices(self.claims)
        held.count(self.devices)
        return held

    @cached_property
    def taints(self) -> list[tuple[Taint, ...]]:
        """Taints per device, of slices and rules, in the order of `devices`."""
        taints = [device.taints for device in self.devices]
        pools = {
            ((rule.get("spec") or {}).get("deviceSelector") or {}).get("pool") for rule in self.taint_rules
        }
        for index, device in enumerate(self.devices) if pools else ():
            if None in pools or device.pool in pools:
                taints[index] = (*taints[index], *rule_taints(device, self.taint_rules))
        return taints

    @cached_property
    def _tainted(self) -> list[tuple[tuple[Taint, ...], list[int]]]:
        """Distinct combinations of blocking taints, with the indices of the devices that have them."""
        combinations: dict[Hashable, tuple[tuple[Taint, ...], list[int]]] = {}
        for index, taints in enumerate(self.taints):
            if taints and (blocking := tuple(taint for taint in taints if taint.blocks)):
                combination = tuple((taint.key, taint.value, taint.effect) for taint in blocking)
                combinations.setdefault(combination, (blocking, []))[1].append(index)
        return list(combinations.values())

    def untainted(self, tolerations: Sequence[Json]) -> DeviceMask:
        """Return the devices whose taints these tolerations cover."""
        if not self.features.device_taints:
            return self.device_index.all
        key = repr(tolerations)
        mask = self._untainted.get(key)
        if mask is None:
            flags = bytearray(b"\x01") * len(self.devices)
            for taints, indices in self._tainted:
                if not all(tolerates(tolerations, taint) for taint in taints):
                    for index in indices:
                        flags[index] = 0
            mask = int.from_bytes(flags, "little")
            remember(self._untainted, key, mask, MAX_TOLERATIONS)
        return mask

    @cached_property
    def _untainted(self) -> dict[str, DeviceMask]:
        return {}

    @cached_property
    def node_ranges(self) -> list[tuple[Json, list[range]]]:
        """
        Schedulable nodes (not cordoned) with the index ranges of the devices that they reach.

        A snapshot without nodes gets one bare node per `nodeName` of a device.
        """
        names = () if self.nodes else sorted({device.node_name for device in self.devices} - {""})
        nodes = self.nodes or [{"metadata": {"name": name}} for name in names]
        schedulable = (node for node in nodes if not (node.get("spec") or {}).get("unschedulable"))
        return [(node, self.device_index.ranges_on(node)) for node in schedulable]

    def nodes_by[Group: Hashable](self, group: Callable[[Json], Group]) -> tuple[Sequence[int], list[Group]]:
        """Return the group number of each node of `node_ranges`, and the groups; cached per function."""
        if group not in self._nodes_by:
            groups: dict[Group, int] = {}
            numbers = array(
                "i", (groups.setdefault(group(node), len(groups)) for node, _ in self.node_ranges)
            )
            self._nodes_by[group] = numbers, list(groups)
        return self._nodes_by[group]

    @cached_property
    def _nodes_by(self) -> dict[Callable[[Json], Any], tuple[Sequence[int], list[Any]]]:
        return {}

    @cached_property
    def node_by_name(self) -> dict[str, Json]:
        """All nodes, cordoned ones as well."""
        return {name_of_node(node): node for node in self.nodes}

    @cached_property
    def claim_by_name(self) -> dict[str, Json]:
        """The claims by "namespace/name"."""
        return {claim_name(claim): claim for claim in self.claims}

    @cached_property
    def node_runs(self) -> NodeRuns:
        """The nodes of `node_ranges`, for questions about all of them."""
        return NodeRuns(self.node_ranges, len(self.devices))

    @cached_property
    def remaining_capacity(self) -> Sequence[int]:
        """
        One number per device, equal for devices with equal capacities and equal consumption of them.
        """
        remaining_capacity = array("q", self.device_index.capacities)
        for key in self.held.consumed:
            for index in self.device_index.indices_of(key):
                remaining_capacity[index] = self._remaining(index)
        return remaining_capacity

    def _remaining(self, index: int) -> int:
        capacities, key = self.device_index.capacities[index], self.devices[index].key
        consumed = self.held.consumed[key].items() if key in self.held.consumed else ()
        used = tuple(sorted((name, amount.nano) for name, amount in consumed if amount))
        return -1 - self.device_index.state_number((capacities, used)) if used else capacities

    @cached_property
    def class_by_name(self) -> dict[str, Json]:
        return {
            str((device_class.get("metadata") or {}).get("name")): device_class
            for device_class in self.classes
        }

    @property
    def available(self) -> DeviceMask:
        """Devices that can be allocated now, ignoring taints."""
        everything = self.reachable == self.device_index.all
        return self._takeable if everything else self._takeable & self.reachable

    @cached_property
    def _takeable(self) -> DeviceMask:
        return pack(map(self.can_take, self.devices))

    @cached_property
    def reachable(self) -> DeviceMask:
        """
        Devices that pods of a node can get if they are free: none of a node that is gone, and none that the
        scheduler ignores because a feature is off.
        """
        optional = self.device_index.seen_features.optional_node_operations
        if self._are_all_features_on and not optional:
            if not self.nodes:
                return self.device_index.all
            names = self.node_by_name.keys() | {""}
            return pack(device.node_name in names for device in self.devices)
        nodes = self.nodes or [node for node, _ in self.node_ranges]
        node_pools, got = self.device_index.node_pools, set[int]()
        for node in nodes:
            with suppress(SelectorError):
                for pool in node_pools.pools_on(node, self.features):
                    got.update(id(one) for one in pool.devices if is_supported(one, node, self.features))
        return pack(id(device) in got for device in self.devices)

    @property
    def _are_all_features_on(self) -> bool:
        """Whether no slice has fields of a feature that is off."""
        return self.device_index.seen_features | self.features == self.features

    @property
    def free(self) -> list[PoolDevice]:
        """Devices that no claim holds and whose counters suffice, tainted ones included: see `taints`."""
        return list(filter(self.can_take, self.devices))

    def can_take(self, device: PoolDevice) -> bool:
        """Whether the device, or a share of it, can be allocated."""
        key, held = device.key, self.held
        if key in held.holders:
            return False
        if key in held.sharers:
            return device.shareable and not self._used_up(device)
        return not device.counters or self._counters_suffice(device)

    def device_holder(self, device: PoolDevice) -> str:
        """
        Return "namespace/name" of the claim that holds the device or shares it first; "" if it is free.
        """
        holder = self.held.holders.get(device.key)
        return holder or next(iter(self.held.sharers.get(device.key, ())), "")

    def class_expressions(self, name: str) -> list[str]:
        """Return the selectors of a DeviceClass. Raise `KeyError` if it does not exist."""
        return expressions(self.class_by_name[name].get("spec") or {})

    @cached_property
    def _counters_left(self) -> dict[PoolKey, dict[CounterKey, int] | None]:
        return {}

    @cached_property
    def _pool_states(self) -> dict[int, int]:
        return {}

    def pool_state(self, number: int) -> int:
        """
        Return a number that is equal for pools with equal counters left; `number` is that of
        `device_index.pool_numbers`.
        """
        state = self._pool_states.get(number)
        if state is None:
            left = self.counters_left(self.device_index.pool_keys[number])
            amounts = None if left is None else tuple(sorted(left.items()))
            state = self._pool_states[number] = self.device_index.state_number(amounts)
        return state

    def counters_left(self, pool: PoolKey) -> Mapping[CounterKey, int] | None:
        """
        Return what is left of a pool's counters, in nano-units.

        None if a counter is overdrawn, which blocks all devices of the pool that consume counters.
        """
        used = self.held.counters.get(pool)
        if not used:
            return self.counters.get(pool, {})
        if pool not in self._counters_left:
            left = dict(self.counters.get(pool, {}))
            for counter, amount in used.items():
                left[counter] = left.get(counter, 0) - amount
            self._counters_left[pool] = left if all(amount >= 0 for amount in left.values()) else None
        return self._counters_left[pool]

    def _counters_suffice(self, device: PoolDevice) -> bool:
        left = self.counters_left((device.driver, device.pool))
        return left is not None and all(
            amount.nano <= left.get(counter, 0) for counter, amount in device.counters
        )

    def _used_up(self, device: PoolDevice) -> bool:
        consumed = self.held.consumed.get(device.key, {})
        return any(
            (capacity := exact_capacity(device.raw, name)) is not None and amount >= capacity
            for name, amount in consumed.items()
        )


# Kind of an object → the field of the snapshot that lists it.
FIELD_OF_KIND = {
    "DeviceClass": "classes",
    "ResourceSlice": "slices",
    "ResourceClaim": "claims",
    "DeviceTaintRule": "taint_rules",
    "Node": "nodes",
}


class EmptyDumpError(ValueError):
    """The dump contains no ResourceSlice; the message is a sentence."""


def flatten_lists(documents: Iterable[object]) -> Iterator[Json]:
    """Yield API objects, the items of lists one by one."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        if isinstance(document.get("items"), list):
            # Items of a typed list (ResourceSliceList) have no kind.
            kind = str(document.get("kind") or "").removesuffix("List")
            yield from flatten_lists(
                {"kind": kind} | item for item in document["items"] if isinstance(item, dict)
            )
        else:
            yield document


def snapshot_from_dump(documents: Iterable[object]) -> ClusterSnapshot:
    """Return the snapshot of a dump; other kinds are ignored. Raise `EmptyDumpError` without a slice."""
    lists: dict[str, list[Json]] = {field_name: [] for field_name in FIELD_OF_KIND.values()}
    for manifest in flatten_lists(documents):
        if field_name := FIELD_OF_KIND.get(str(manifest.get("kind"))):
            lists[field_name].append(manifest)
    if not lists["slices"]:
        raise EmptyDumpError(
            "The dump contains no ResourceSlice. Add the output of “kubectl get resourceslices -o json”."
        )
    features = NEWEST | Features.seen_in(lists["slices"], lists["claims"])
    classes, slices, claims, taint_rules, nodes = lists.values()
    return ClusterSnapshot(classes, slices, claims, taint_rules, nodes, features)
