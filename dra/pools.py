"""
ResourceSlices grouped into pools and devices.

Only the newest generation of a pool counts, and only if it is complete (`resourceSliceCount`). Kubernetes
allocates nothing from an incomplete pool, so its devices are listed and never offered.

The scheduler looks at the slices that reach one node (`dra.node_pools`, which the allocator reads). Here, for
the mirror and for counting, a pool of the cluster stays whole if it is complete; else each node whose slices
name the pool has one of its own, judged like the scheduler does on that node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from dra.objects import Json
from dra.quantity import Quantity, QuantityError
from dra.taints import Taint

type CounterKey = tuple[str, str]  # (counter set, counter)
type DeviceKey = tuple[str, str, str]  # (driver, pool, device)
type Amounts = tuple[tuple[CounterKey, Quantity], ...]


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """
    A device of a ResourceSlice; `raw` is its entry in `spec.devices`.

    It is local to `node_name`, or reachable from the nodes of `node_selector`, or from all nodes. `taints`
    are those of the slice; `dra.taints.rule_taints` returns those of DeviceTaintRules.
    """

    driver: str
    pool: str
    name: str
    raw: Json
    node_name: str = ""
    node_selector: Json | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False  # the device selects nodes, not its slice
    taints: tuple[Taint, ...] = ()
    slice_name: str = ""
    counters: Amounts = ()  # consumed shared counters
    skipped: tuple[str, ...] = ()  # `skipNodeOperations` of the slice

    @property
    def key(self) -> DeviceKey:
        return (self.driver, self.pool, self.name)

    @property
    def shareable(self) -> bool:
        return self.raw.get("allowMultipleAllocations") is True

    @property
    def has_binding_conditions(self) -> bool:
        """Whether it has binding conditions, even an empty list: its pool is tried after the others."""
        return self.raw.get("bindingConditions") is not None

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, eq=False)
class PoolSlice:
    """One ResourceSlice of a pool. Its devices are read on first use."""

    raw: Json
    number: int  # position in the list of the cluster's slices

    @cached_property
    def spec(self) -> Json:
        spec: Json = self.raw.get("spec") or {}
        return spec

    @cached_property
    def name(self) -> str:
        return str((self.raw.get("metadata") or {}).get("name") or "")

    @cached_property
    def driver(self) -> str:
        return str(self.spec.get("driver") or "")

    @cached_property
    def pool(self) -> str:
        return str((self.spec.get("pool") or {}).get("name") or "")

    @cached_property
    def generation(self) -> int:
        return int((self.spec.get("pool") or {}).get("generation") or 0)

    @cached_property
    def count(self) -> int:
        """The pool's `resourceSliceCount`."""
        return int((self.spec.get("pool") or {}).get("resourceSliceCount") or 0)

    @cached_property
    def node_name(self) -> str:
        return str(self.spec.get("nodeName") or "")

    @property
    def counter_sets(self) -> Sequence[Json]:
        return self.spec.get("sharedCounters") or ()

    @cached_property
    def grouped(self) -> bool:
        """Whether a device has compatibility groups."""
        return any(
            consumption.get("compatibilityGroups")
            for raw in self.spec.get("devices") or ()
            for consumption in raw.get("consumesCounters") or ()
        )

    @cached_property
    def devices(self) -> list[PoolDevice]:
        """Raise `QuantityError` if a consumed counter has an invalid amount."""
        return [_device(self, raw) for raw in self.spec.get("devices") or ()]


@dataclass(frozen=True, slots=True)
class Pool:
    """
    The newest generation of a pool, or the part of it that is local to `node_name`.

    `problem` is a sentence, "" for a valid pool: the pool is incomplete or invalid. `slices` are those of
    `devices`, in the same order; `present` of `expected` slices were found.
    """

    driver: str
    name: str
    generation: int
    complete: bool
    problem: str
    devices: list[PoolDevice]
    slices: Sequence[Json]  # of this generation
    present: int
    expected: int
    counters: Mapping[CounterKey, Quantity] = field(default_factory=dict)
    all_slices: Sequence[PoolSlice] = ()  # of all generations and nodes, as the cluster lists them
    node_name: str = ""  # if nodes that share the pool's name see different pools

    @property
    def usable(self) -> bool:
        """Whether Kubernetes allocates from the pool."""
        return self.complete and not self.problem


def gather_pools(slices: Iterable[Json]) -> list[Pool]:
    """Return the pools by driver, name and node, with devices by slice name: the allocation order."""
    by_pool: dict[tuple[str, str], list[PoolSlice]] = defaultdict(list)
    for number, raw in enumerate(slices):
        pool_slice = PoolSlice(raw, number)
        by_pool[pool_slice.driver, pool_slice.pool].append(pool_slice)
    return [pool for _, pool_slices in sorted(by_pool.items()) for pool in _pools(pool_slices)]


def amounts(sets: Iterable[Json], label: str = "name") -> Amounts:
    """
    Return the amounts of counter sets, or with `label` "counterSet" what a device consumes of them.

    Raise `QuantityError` if an amount is invalid.
    """
    return _amounts(
        tuple(
            (str(counter_set.get(label)), counter, str(amount.get("value", "0")))
            for counter_set in sets
            for counter, amount in (counter_set.get("counters") or {}).items()
        )
    )


@lru_cache(maxsize=10_000)  # most devices consume equal amounts
def _amounts(written: tuple[tuple[str, str, str], ...]) -> Amounts:
    return tuple(((counter_set, counter), Quantity.parse(value)) for counter_set, counter, value in written)


def duplicate_name_problem(driver: str, pool: str, names: Iterable[str]) -> str:
    """Return a sentence about a name that a pool publishes twice; "" if there is none."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if not twice:
        return ""
    return (
        f"Pool {pool} of {driver} publishes {twice[0]} more than once, so none of its devices are allocated."
    )


def missing_counter_problem(
    pool: str,
    devices: Iterable[PoolDevice],
    counters: Mapping[CounterKey, Quantity],
    counter_sets: Sequence[str],
) -> str:
    """Return a sentence about a device that consumes an undefined counter; "" if there is none."""
    for device in devices:
        for key, _ in device.counters:
            if key not in counters:
                counter = "/".join(key)
                return (
                    f"Device {device.name} of pool {pool} consumes counter {counter}, "
                    "which the pool does not define."
                )
        for consumption in device.raw.get("consumesCounters") or ():
            if consumption.get("counterSet") not in counter_sets:
                return (
                    f"Device {device.name} of pool {pool} consumes counter set "
                    f"{consumption.get('counterSet')}, which the pool does not define."
                )
    return ""


def count_problem(driver: str, pool: str, generation: int, present: int, expected: int) -> str:
    """Return a sentence about a pool that has fewer or more slices of its generation than it declares."""
    if present > expected:
        counts = f"has {present} slices of generation {generation} and declares {expected}"
        return f"Pool {pool} of {driver} is invalid: it {counts}."
    return (
        f"Pool {pool} of {driver} is incomplete: {present} of {expected} slices of generation {generation}."
    )


def different_counts_problem(driver: str, pool: str, slices: Iterable[PoolSlice]) -> str:
    """Return a sentence if the slices disagree on their number: Kubernetes then reads any of the numbers."""
    counts = sorted({pool_slice.count for pool_slice in slices})
    if len(counts) < 2:
        return ""
    numbers = f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"
    return f"Pool {pool} of {driver} is invalid: its slices say that there are {numbers} of them."


def _pools(slices: list[PoolSlice]) -> list[Pool]:
    """Return one pool if it is valid, or seen by one node; else its part per node, and the shared part."""
    whole = _pool(slices, slices)
    by_node: dict[str, list[PoolSlice]] = defaultdict(list)
    for pool_slice in slices:
        by_node[pool_slice.node_name].append(pool_slice)
    if len(by_node) == 1 or (whole.usable and whole.present == len(slices)):
        return [whole]
    shared = by_node.pop("", [])
    views = {node: _pool([*local, *shared], slices) for node, local in sorted(by_node.items())}
    parts = [_part(view, node) for node, view in views.items()]
    if shared:
        # A slice for many nodes counts if one node sees a valid pool with it.
        seen = [_pool(shared, slices), *views.values()]
        parts.append(_part(next((view for view in seen if view.usable), seen[0]), ""))
    return parts


def _part(view: Pool, node: str) -> Pool:
    """Return what is local to the node, "" for what is shared, of a pool as the node sees it."""
    return replace(
        view,
        node_name=node,
        devices=[
            device
            for device in view.devices
            if ("" if device.per_device_node_selection else device.node_name) == node
        ],
        slices=[raw for raw in view.slices if (raw.get("spec") or {}).get("nodeName", "") == node],
    )


def _pool(seen: list[PoolSlice], slices: list[PoolSlice]) -> Pool:
    """Judge a pool by the slices that a node has `seen` of all its `slices`."""
    driver, name = slices[0].driver, slices[0].pool
    generation = max(pool_slice.generation for pool_slice in seen)
    newest = sorted(
        (pool_slice for pool_slice in seen if pool_slice.generation == generation),
        key=lambda pool_slice: pool_slice.name,
    )
    problem, expected = different_counts_problem(driver, name, newest), newest[0].count
    counted = newest  # beyond those that are seen only if these are too few
    complete = not problem and len(newest) == expected
    if not complete and not problem and len(seen) < len(slices):
        counted = [pool_slice for pool_slice in slices if pool_slice.generation == generation]
        newer = max(pool_slice.generation for pool_slice in slices)
        if newer > generation:
            problem = f"Pool {name} of {driver} is out of date: generation {newer} replaces {generation}."
        complete = not problem and len(counted) == expected
    if not complete:
        problem = problem or count_problem(driver, name, generation, len(counted), expected)
    devices: list[PoolDevice] = []
    counters: dict[CounterKey, Quantity] = {}
    names: list[str] = []  # of counter sets
    try:
        for pool_slice in counted:
            names.extend(str(counter_set.get("name")) for counter_set in pool_slice.counter_sets)
            counters.update(amounts(pool_slice.counter_sets))
        for pool_slice in newest:
            devices.extend(pool_slice.devices)
        problem = problem or duplicate_name_problem(driver, name, [device.name for device in devices])
        problem = (
            problem
            or duplicate_name_problem(driver, name, names)
            or missing_counter_problem(name, devices, counters, names)
        )
    except QuantityError as error:
        problem = f"Pool {name} of {driver} is invalid: {error}"
    raws = [pool_slice.raw for pool_slice in newest]
    found = len(counted)
    return Pool(driver, name, generation, complete, problem, devices, raws, found, expected, counters, slices)


def _device(pool_slice: PoolSlice, raw: Json) -> PoolDevice:
    spec = pool_slice.spec
    node_selection = raw if spec.get("perDeviceNodeSelection") else spec
    return PoolDevice(
        driver=pool_slice.driver,
        pool=pool_slice.pool,
        name=str(raw.get("name") or ""),
        raw=raw,
        node_name=str(node_selection.get("nodeName") or ""),
        node_selector=node_selection.get("nodeSelector"),
        all_nodes=node_selection.get("allNodes") is True,
        per_device_node_selection=spec.get("perDeviceNodeSelection") is True,
        taints=tuple(map(Taint.read, raw.get("taints") or ())),
        slice_name=pool_slice.name,
        counters=amounts(raw.get("consumesCounters") or (), "counterSet"),
        skipped=tuple(spec.get("skipNodeOperations") or ()),
    )
