"""
From ResourceSlices to pools and devices.

Only slices of the newest generation of a pool count, and only if as many are seen as they say there are:
Kubernetes allocates nothing from any other pool, so such devices are listed and never offered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra.objects import Json
from dra.quantity import Quantity, QuantityError
from dra.taints import Taint

type CounterKey = tuple[str, str]  # (counter set, counter)
type DeviceKey = tuple[str, str, str]  # (driver, pool, device)


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
    counters: tuple[tuple[CounterKey, Quantity], ...] = ()  # what it takes of the pool's shared counters

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


@dataclass(frozen=True, slots=True)
class Pool:
    """
    The newest generation of a pool.

    `problem` is a sentence and empty while all is well: the pool is incomplete, or what it publishes is
    invalid.
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

    @property
    def usable(self) -> bool:
        """Whether Kubernetes allocates from it."""
        return self.complete and not self.problem


def pools_of(slices: Iterable[Json]) -> list[Pool]:
    """Return the pools by driver and name, with devices by name of slice: that is the order of trying."""
    by_pool: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for one in slices:
        spec = one.get("spec") or {}
        by_pool[str(spec.get("driver")), str((spec.get("pool") or {}).get("name"))].append(one)
    return [_pool(driver, name, found) for (driver, name), found in sorted(by_pool.items())]


def _generation(one: Json) -> int:
    return int(one["spec"]["pool"].get("generation") or 0)


def _name(one: Json) -> str:
    return str((one.get("metadata") or {}).get("name") or "")


def _pool(driver: str, name: str, slices: list[Json]) -> Pool:
    generation = max(map(_generation, slices))
    newest = sorted((one for one in slices if _generation(one) == generation), key=_name)
    expected = max(int(one["spec"]["pool"].get("resourceSliceCount") or 0) for one in newest)
    complete = len(newest) == expected
    problem = ""
    if not complete:
        seen = f"{len(newest)} of {expected} slices of generation {generation}"
        problem = f"Pool {name} of {driver} has shown {seen}."
    devices: list[PoolDevice] = []
    counters: dict[CounterKey, Quantity] = {}
    names: list[str] = []  # of counter sets
    try:
        for one in newest:
            sets = one["spec"].get("sharedCounters") or ()
            names.extend(str(counter_set.get("name")) for counter_set in sets)
            counters.update(_counters(sets))
            devices.extend(_device(driver, name, one, raw) for raw in one["spec"].get("devices") or ())
        problem = problem or _contradiction(driver, name, devices, counters, names)
    except QuantityError as error:
        problem = f"Pool {name} of {driver} is invalid: {error}"
    return Pool(driver, name, generation, complete, problem, devices, newest, expected, counters)


def _contradiction(
    driver: str,
    pool: str,
    devices: Sequence[PoolDevice],
    counters: Mapping[CounterKey, Quantity],
    counter_sets: Sequence[str],
) -> str:
    """Return what makes Kubernetes reject the pool, as a sentence; "" if nothing does."""
    for names in ([device.name for device in devices], counter_sets):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            return (
                f"Pool {pool} of {driver} publishes {twice[0]} more than once, so nothing of it is allocated."
            )
    for device in devices:
        for key, _ in device.counters:
            if key not in counters:
                counter = "/".join(key)
                return f"Device {device.name} of pool {pool} takes counter {counter}, which the pool lacks."
    return ""


def _counters(sets: Iterable[Json], label: str = "name") -> dict[CounterKey, Quantity]:
    return {
        (str(one.get(label)), counter): Quantity.parse(amount.get("value", ""))
        for one in sets
        for counter, amount in (one.get("counters") or {}).items()
    }


def _device(driver: str, pool: str, one: Json, raw: Json) -> PoolDevice:
    spec = one["spec"]
    place = raw if spec.get("perDeviceNodeSelection") else spec
    return PoolDevice(
        driver=driver,
        pool=pool,
        name=str(raw.get("name") or ""),
        raw=raw,
        node_name=str(place.get("nodeName") or ""),
        node_selector=place.get("nodeSelector"),
        all_nodes=place.get("allNodes") is True,
        placed_alone=spec.get("perDeviceNodeSelection") is True,
        taints=tuple(Taint.read(taint) for taint in raw.get("taints") or ()),
        slice_name=_name(one),
        counters=tuple(_counters(raw.get("consumesCounters") or (), "counterSet").items()),
    )
