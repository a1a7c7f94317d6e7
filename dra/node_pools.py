"""
Pools as one node sees them.

A pool is judged per node (upstream `pools_incubating.go`, `pools_stable.go`): the slices that reach the node
decide which generation counts and whether names are unique, and slices for other nodes are looked at only if
those are fewer than the pool has. A node whose slices a driver has not renewed goes on with the old ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra.features import Features
from dra.nodes import check_place, name_of, place_reaches
from dra.objects import Json
from dra.pools import CounterKey, Pool, PoolDevice, PoolSlice, amounts, lacking, repeated
from dra.quantity import Quantity, QuantityError

type PoolKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class NodePool:
    """
    A pool with something for a node.

    `problem` is a sentence and empty while all is well; nothing is allocated from an `incomplete` pool or an
    `invalid` one. `devices` are those in the node's slices in the order of trying, `elsewhere` those in the
    slices for other nodes, which take of the same `counters`.
    """

    driver: str
    name: str
    problem: str = ""
    incomplete: bool = False
    invalid: bool = False
    devices: Sequence[PoolDevice] = ()
    elsewhere: Sequence[PoolDevice] = ()
    counters: Mapping[CounterKey, Quantity] = field(default_factory=dict)


class NodePools:
    """All slices of a cluster, sorted by whom they reach. Made once; threads may share it."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._local: dict[str, list[PoolSlice]] = defaultdict(list)
        self._shared: list[PoolSlice] = []
        self._counting: list[PoolSlice] = []  # local ones with counters
        self._of_pool: dict[PoolKey, Sequence[PoolSlice]] = {}
        for pool in pools:
            self._of_pool[pool.driver, pool.name] = pool.seen
            for one in pool.seen:
                if one.node_name:
                    self._local[one.node_name].append(one)
                    if one.counter_sets:
                        self._counting.append(one)
                else:
                    self._shared.append(one)

    def pools_on(self, node: Json, features: Features) -> list[NodePool]:
        """
        Return the pools with something for `node`, in the order of trying.

        Raise `SelectorError` if the node selector of a slice breaks its rules.
        """
        found = [
            pool
            for key, slices in self._reached(node, features).items()
            if (pool := self._judge(key, slices, features)) is not None
        ]
        # Devices with binding conditions come last; the stable allocator makes no difference.
        late = {
            (pool.driver, pool.name)
            for pool in found
            if not features.stable and any(device.binds_late for device in pool.devices)
        }
        found.sort(key=lambda pool: ((pool.driver, pool.name) in late, pool.driver, pool.name))
        return found

    def _reached(self, node: Json, features: Features) -> dict[PoolKey, list[PoolSlice]]:
        """Return the newest generation of each pool among the slices that reach the node."""
        slices = [*self._local.get(name_of(node), ()), *self._shared]
        if features.stable:
            # The stable allocator takes slices as they come, and those with counters wherever they are.
            slices += [one for one in self._counting if one.node_name != name_of(node)]
            slices.sort(key=lambda one: one.number)
        reached: dict[PoolKey, list[PoolSlice]] = {}
        for one in slices:
            if _ignored(one, features) or not _relevant(node, one, features):
                continue
            known = reached.setdefault((one.driver, one.pool), [one])
            if one.generation > known[0].generation:
                reached[one.driver, one.pool] = [one]
            elif one.generation == known[0].generation and known[0] is not one:
                known.append(one)
        return reached

    def _judge(self, key: PoolKey, slices: list[PoolSlice], features: Features) -> NodePool | None:
        """Return the pool that the node's `slices` make; None if they are obsolete."""
        first, others = slices[0], []
        if len(slices) != first.count:
            everywhere = self._of_pool[key]
            if any(one.generation > first.generation for one in everywhere):
                return None
            current = [one for one in everywhere if one.generation == first.generation]
            if not features.compatibility_groups:
                current = [one for one in current if not one.grouped]
            if len(current) != first.count:
                told = f"{len(current)} of {first.count} slices of generation {first.generation}"
                problem = f"Pool {key[1]} of {key[0]} has shown {told}."
                return NodePool(*key, problem=problem, incomplete=True)
            names = {one.name for one in slices}
            if len(slices) < len(current):
                others = [one for one in current if one.name not in names]
        try:
            return _build(key, slices, others, features)
        except QuantityError as error:
            return NodePool(*key, problem=f"Pool {key[1]} of {key[0]} is invalid: {error}", invalid=True)


def _ignored(one: PoolSlice, features: Features) -> bool:
    """Whether a switch that is off makes the allocator overlook the slice."""
    if not features.partitionable_devices and (
        one.spec.get("perDeviceNodeSelection") is not None or one.counter_sets
    ):
        return True
    return not features.compatibility_groups and one.grouped


def _relevant(node: Json, one: PoolSlice, features: Features) -> bool:
    spec = one.spec
    if features.stable and one.counter_sets:
        return True
    if one.node_name or spec.get("allNodes") is True or spec.get("nodeSelector") is not None:
        check_place(spec)
        return place_reaches(node, spec)
    if spec.get("perDeviceNodeSelection") is True:
        for raw in spec.get("devices") or ():
            check_place(raw)
            if place_reaches(node, raw):
                return True
    return False


def _build(
    key: PoolKey, slices: Sequence[PoolSlice], others: Sequence[PoolSlice], features: Features
) -> NodePool:
    """Raise `QuantityError` if a counter has no amount."""
    if not features.stable:
        slices = sorted(slices, key=lambda one: one.name)
    partitionable = features.partitionable_devices
    # Beside counters a slice may not publish devices; if it does, they are not looked at.
    devices = _devices(one for one in slices if not (partitionable and one.counter_sets))
    problem = repeated(*key, [device.name for device in devices])
    if not partitionable or problem:
        return NodePool(*key, problem, invalid=bool(problem), devices=() if problem else devices)
    elsewhere = _devices(one for one in others if not one.counter_sets)
    sets = [counter_set for one in (*slices, *others) for counter_set in one.counter_sets]
    names = [str(one.get("name")) for one in sets]
    counters = dict(amounts(sets))
    checked = [*(_devices(slices) if features.stable else devices), *elsewhere]
    problem = repeated(*key, names) or lacking(key[1], checked, counters, names)
    if problem:
        return NodePool(*key, problem, invalid=True)
    return NodePool(*key, devices=devices, elsewhere=elsewhere, counters=counters)


def _devices(slices: Iterable[PoolSlice]) -> list[PoolDevice]:
    return [device for one in slices for device in one.devices]
