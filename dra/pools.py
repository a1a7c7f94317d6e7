"""
From ResourceSlices to pools and devices.

Only slices of the newest generation of a pool count, and only if as many are seen as they say there are:
Kubernetes allocates nothing from any other pool, so such devices are listed and never offered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    A device that a slice publishes; `raw` is its entry in `spec.devices`.

    It is local to `node_name`, or reachable from the nodes that `node_selector` tells, or from all.
    `taints` are those of the slice; those of DeviceTaintRules come from `dra.taints.rules_for`.
    """

    driver: str
    pool: str
    name: str
    raw: Json
    node_name: str = ""
    node_selector: Json | None = None
    all_nodes: bool = False
    placed_alone: bool = False  # by its own entry (perDeviceNodeSelection), not by its slice
    taints: tuple[Taint, ...] = ()
    slice_name: str = ""
    counters: Amounts = ()  # what it takes of the pool's shared counters
    skipped: tuple[str, ...] = ()  # node operations that its slice lets the kubelet leave out

    @property
    def key(self) -> DeviceKey:
        return (self.driver, self.pool, self.name)

    @property
    def shareable(self) -> bool:
        return self.raw.get("allowMultipleAllocations") is True

    @property
    def binds_late(self) -> bool:
        """Whether it has binding conditions, if only an empty list: its pool is tried after the others."""
        return self.raw.get("bindingConditions") is not None

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, eq=False)
class PoolSlice:
    """One ResourceSlice of a pool. Its devices are read when first asked for."""

    raw: Json
    number: int  # its place among the slices of the cluster

    @cached_property
    def spec(self) -> Json:
        found: Json = self.raw.get("spec") or {}
        return found

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
        """How many slices it says the pool has."""
        return int((self.spec.get("pool") or {}).get("resourceSliceCount") or 0)

    @cached_property
    def node_name(self) -> str:
        return str(self.spec.get("nodeName") or "")

    @property
    def counter_sets(self) -> Sequence[Json]:
        return self.spec.get("sharedCounters") or ()

    @cached_property
    def grouped(self) -> bool:
        """Whether some device says with which others it may be allocated (compatibility groups)."""
        return any(
            one.get("compatibilityGroups")
            for raw in self.spec.get("devices") or ()
            for one in raw.get("consumesCounters") or ()
        )

    @cached_property
    def devices(self) -> list[PoolDevice]:
        """Raise `QuantityError` if a device takes an amount of a counter that is none."""
        return [_device(self, raw) for raw in self.spec.get("devices") or ()]


@dataclass(frozen=True, slots=True)
class Pool:
    """
    The newest generation of a pool.

    `problem` is a sentence and empty while all is well: the pool is incomplete, or what it publishes is
    invalid. One node may see the pool otherwise, as it looks at its own slices first: `dra.node_pools`.
    """

    driver: str
    name: str
    generation: int
    complete: bool
    problem: str
    devices: list[PoolDevice]
    slices: Sequence[Json]  # of this generation that are seen
    expected: int
    counters: Mapping[CounterKey, Quantity] = field(default_factory=dict)
    seen: Sequence[PoolSlice] = ()  # of all generations, as the cluster lists them

    @property
    def usable(self) -> bool:
        """Whether Kubernetes allocates from it."""
        return self.complete and not self.problem


def gather_pools(slices: Iterable[Json]) -> list[Pool]:
    """Return the pools by driver and name, with devices by name of slice: that is the order of trying."""
    by_pool: dict[tuple[str, str], list[PoolSlice]] = defaultdict(list)
    for number, raw in enumerate(slices):
        one = PoolSlice(raw, number)
        by_pool[one.driver, one.pool].append(one)
    return [_pool(driver, name, found) for (driver, name), found in sorted(by_pool.items())]


def amounts(sets: Iterable[Json], label: str = "name") -> Amounts:
    """
    Read counter sets, or with `label` "counterSet" what a device takes of them.

    Raise `QuantityError` if an amount is none.
    """
    return _amounts(
        tuple(
            (str(one.get(label)), counter, str(amount.get("value", "0")))
            for one in sets
            for counter, amount in (one.get("counters") or {}).items()
        )
    )


@lru_cache(maxsize=10_000)  # most devices take what others take: read once, kept once
def _amounts(written: tuple[tuple[str, str, str], ...]) -> Amounts:
    return tuple(((counter_set, counter), Quantity.parse(value)) for counter_set, counter, value in written)


def repeated(driver: str, pool: str, names: Iterable[str]) -> str:
    """Return which name a pool gives twice, as a sentence; "" if none."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if not twice:
        return ""
    return f"Pool {pool} of {driver} publishes {twice[0]} more than once, so nothing of it is allocated."


def lacking(
    pool: str,
    devices: Iterable[PoolDevice],
    counters: Mapping[CounterKey, Quantity],
    counter_sets: Sequence[str],
) -> str:
    """Return which device takes what the pool does not have, as a sentence; "" if none does."""
    for device in devices:
        for key, _ in device.counters:
            if key not in counters:
                counter = "/".join(key)
                return f"Device {device.name} of pool {pool} takes counter {counter}, which the pool lacks."
        for one in device.raw.get("consumesCounters") or ():
            if one.get("counterSet") not in counter_sets:
                return (
                    f"Device {device.name} of pool {pool} takes of counter set {one.get('counterSet')}, "
                    "which the pool lacks."
                )
    return ""


def _pool(driver: str, name: str, seen: list[PoolSlice]) -> Pool:
    generation = max(one.generation for one in seen)
    newest = sorted((one for one in seen if one.generation == generation), key=lambda one: one.name)
    expected = max(one.count for one in newest)
    complete = len(newest) == expected
    problem = ""
    if not complete:
        told = f"{len(newest)} of {expected} slices of generation {generation}"
        problem = f"Pool {name} of {driver} has shown {told}."
    devices: list[PoolDevice] = []
    counters: dict[CounterKey, Quantity] = {}
    names: list[str] = []  # of counter sets
    try:
        for one in newest:
            names.extend(str(counter_set.get("name")) for counter_set in one.counter_sets)
            counters.update(amounts(one.counter_sets))
            devices.extend(one.devices)
        problem = problem or repeated(driver, name, [device.name for device in devices])
        problem = problem or repeated(driver, name, names) or lacking(name, devices, counters, names)
    except QuantityError as error:
        problem = f"Pool {name} of {driver} is invalid: {error}"
    slices = [one.raw for one in newest]
    return Pool(driver, name, generation, complete, problem, devices, slices, expected, counters, seen)


def _device(one: PoolSlice, raw: Json) -> PoolDevice:
    spec = one.spec
    place = raw if spec.get("perDeviceNodeSelection") else spec
    return PoolDevice(
        driver=one.driver,
        pool=one.pool,
        name=str(raw.get("name") or ""),
        raw=raw,
        node_name=str(place.get("nodeName") or ""),
        node_selector=place.get("nodeSelector"),
        all_nodes=place.get("allNodes") is True,
        placed_alone=spec.get("perDeviceNodeSelection") is True,
        taints=tuple(map(Taint.read, raw.get("taints") or ())),
        slice_name=one.name,
        counters=amounts(raw.get("consumesCounters") or (), "counterSet"),
        skipped=tuple(spec.get("skipNodeOperations") or ()),
    )
