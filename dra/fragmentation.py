"""
Fragmentation of GPUs whose partitions are published as devices with shared counters (KEP 4815).

Partitions of one GPU exclude each other, so more are published than can be held at once. A small one in the
wrong place can leave no room for a large one, even if the total is enough. Taints are ignored here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dra.cluster_snapshot import ClusterSnapshot
from dra.devices import describe
from dra.pools import Amounts, CounterKey, PoolDevice

MAX_STEPS = 20_000  # subsets of partitions that are tried; seven MIG slices have 128

type Demand = tuple[tuple[int, int], ...]  # (number of a counter, nano-units)


def max_concurrent(demands: Sequence[Amounts], counters: Mapping[CounterKey, int]) -> int:
    """
    Return how many devices of a pool fit into `counters` (nano-units) at the same time.

    `demands` are the counters that each device consumes: a device that consumes none always fits, one that
    consumes an undefined counter never. After `MAX_STEPS` subsets it returns the best result so far.
    """
    free = sum(not amounts for amounts in demands)
    return free + sum(_max_by_counters(*_shape(board, counters)) for board in _gpus(filter(None, demands)))


def _gpus(demands: Iterable[Amounts]) -> list[list[Amounts]]:
    """Group demands by the counter sets that they share, usually one GPU."""
    gpus: list[tuple[set[str], list[Amounts]]] = []
    for amounts in demands:
        sets, demands = {counter_set for (counter_set, _counter), _amount in amounts}, [amounts]
        for gpu in [gpu for gpu in gpus if gpu[0] & sets]:
            gpus.remove(gpu)
            sets |= gpu[0]
            demands = [*gpu[1], *demands]
        gpus.append((sets, demands))
    return [demands for _sets, demands in gpus]


def _shape(
    demands: Sequence[Amounts], counters: Mapping[CounterKey, int]
) -> tuple[tuple[Demand, ...], Demand]:
    """Number the counters of a GPU by name, so that equal GPUs share one cache entry."""
    keys = sorted({key for amounts in demands for key, _amount in amounts})
    number = {key: index for index, key in enumerate(keys)}
    numbered = [tuple(sorted((number[key], amount.nano) for key, amount in amounts)) for amounts in demands]
    numbered.sort(key=lambda demand: (sum(amount for _counter, amount in demand), demand))  # small ones first
    return tuple(numbered), tuple((number[key], counters.get(key, 0)) for key in keys)


@lru_cache(maxsize=1000)
def _max_by_counters(demands: tuple[Demand, ...], counters: Demand) -> int:
    return _Packing(demands, dict(counters)).best


class _Packing:
    """Finds the largest set of devices that the counters allow, by branch and bound."""

    def __init__(self, demands: Sequence[Demand], left: dict[int, int]) -> None:
        self.demands, self.left = demands, left
        self.best = self.steps = 0
        self._from(0, 0)

    def _from(self, at: int, count: int) -> None:
        self.best = max(self.best, count)
        self.steps += 1
        if count + len(self.demands) - at <= self.best or self.steps > MAX_STEPS:
            return
        demand = self.demands[at]
        if all(amount <= self.left[counter] for counter, amount in demand):
            for counter, amount in demand:
                self.left[counter] -= amount
            self._from(at + 1, count + 1)
            for counter, amount in demand:
                self.left[counter] += amount
        self._from(at + 1, count)


@dataclass(frozen=True, slots=True)
class GpuPartition:
    """
    One kind of partition of a GPU, or the whole GPU.

    `published` counts its devices, `held` those in claims; `available` could each be allocated now, and
    `max_concurrent` of them at the same time.
    """

    partition: str  # "1g.10gb", "" for the whole
    product: str
    memory_bytes: int | None
    published: int
    held: int
    available: int
    max_concurrent: int


@dataclass(frozen=True, slots=True)
class PhysicalGpu:
    """A partitionable GPU, by its counter set. The whole GPU comes first, then the largest partitions."""

    driver: str
    pool: str
    counter_set: str
    node_name: str
    partitions: tuple[GpuPartition, ...]


def physical_gpus(snapshot: ClusterSnapshot, driver: str, pool: str) -> list[PhysicalGpu]:
    """Return the partitionable GPUs of a pool, by the names of their counter sets."""
    by_counter_set: dict[str, list[PoolDevice]] = {}
    node_name = ""
    for slice_pool in snapshot.pools:
        if (slice_pool.driver, slice_pool.name) != (driver, pool) or not slice_pool.usable:
            continue
        for device in slice_pool.devices:
            node_name = node_name or device.node_name
            for counter_set in {key[0] for key, _ in device.counters}:
                by_counter_set.setdefault(counter_set, []).append(device)
    return [
        PhysicalGpu(driver, pool, counter_set, node_name, _cuts(snapshot, devices))
        for counter_set, devices in sorted(by_counter_set.items())
    ]


def _cuts(snapshot: ClusterSnapshot, devices: Sequence[PoolDevice]) -> tuple[GpuPartition, ...]:
    by_kind: dict[tuple[str, str, int | None], list[PoolDevice]] = {}
    for device in devices:
        description = describe(device.driver, device.raw)
        # A partition of unknown profile is a kind of its own.
        partition = description.partition or ("" if description.kind == "gpu" else device.name)
        by_kind.setdefault((partition, description.product, description.memory_bytes), []).append(device)
    partitions = []
    for (partition, product, memory), devices_of_kind in by_kind.items():
        available = [device for device in devices_of_kind if snapshot.can_take(device)]
        held = sum(snapshot.held.is_held(device.key) for device in devices_of_kind)
        max_held = _max_concurrent(snapshot, available)
        partitions.append(
            GpuPartition(partition, product, memory, len(devices_of_kind), held, len(available), max_held)
        )
    return tuple(
        sorted(
            partitions,
            key=lambda entry: (
                bool(entry.partition),
                -(entry.memory_bytes or 0),
                entry.partition,
            ),
        )
    )


def _max_concurrent(snapshot: ClusterSnapshot, devices: Sequence[PoolDevice]) -> int:
    """Return how many of these devices fit into the counters that are left."""
    if not devices:
        return 0
    left = snapshot.counters_left((devices[0].driver, devices[0].pool))
    return 0 if left is None else max_concurrent([device.counters for device in devices], left)
