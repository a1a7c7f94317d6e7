"""
What can still be cut from GPUs whose partitions share counters, and how many can be held at once.

How many devices can be held at once where some exclude others, as the partitions of one GPU do (KEP 4815).

Each takes of counters that the partitions of a GPU share, so more of them are published than can be held.

What can still be cut from a GPU whose partitions are published as devices with shared counters (KEP 4815).

Partitions of one GPU compete: a small one in the wrong place leaves room for no large one, although enough
is left in all. Taints are another matter, so they are left aside here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dra.cluster_snapshot import ClusterSnapshot
from dra.devices import describe
from dra.pools import Amounts, CounterKey, PoolDevice

STEPS = 20_000  # ways to place partitions that are tried; seven places of MIG have 128

type Take = tuple[tuple[int, int], ...]  # (number of a counter, billionths of it)


def max_concurrent(takes: Sequence[Amounts], counters: Mapping[CounterKey, int]) -> int:
    """
    Return how many devices of a pool fit beside each other into counters of so many billionths.

    `takes` says what each takes of them: one that takes nothing always fits, one that takes of a counter that
    is not there never does. Where more than `STEPS` ways would have to be tried, it is the best of those.
    """
    free = sum(not amounts for amounts in takes)
    return free + sum(_most_by_counters(*_shape(board, counters)) for board in _boards(filter(None, takes)))


def _boards(takes: Iterable[Amounts]) -> list[list[Amounts]]:
    """Put together what takes of the same counter sets, which is one GPU as a rule."""
    gpus: list[tuple[set[str], list[Amounts]]] = []
    for amounts in takes:
        sets, demands = {counter_set for (counter_set, _counter), _amount in amounts}, [amounts]
        for gpu in [gpu for gpu in gpus if gpu[0] & sets]:
            gpus.remove(gpu)
            sets |= gpu[0]
            demands = [*gpu[1], *demands]
        gpus.append((sets, demands))
    return [demands for _sets, demands in gpus]


def _shape(demands: Sequence[Amounts], counters: Mapping[CounterKey, int]) -> tuple[tuple[Take, ...], Take]:
    """Number the counters of a GPU by their names, so that GPUs that are alike are worked out once."""
    keys = sorted({key for amounts in demands for key, _amount in amounts})
    number = {key: index for index, key in enumerate(keys)}
    numbered = [tuple(sorted((number[key], amount.nano) for key, amount in amounts)) for amounts in demands]
    numbered.sort(key=lambda take: (sum(amount for _counter, amount in take), take))  # small ones first
    return tuple(numbered), tuple((number[key], counters.get(key, 0)) for key in keys)


@lru_cache(maxsize=1000)
def _most_by_counters(takes: tuple[Take, ...], counters: Take) -> int:
    return _Packing(takes, dict(counters)).best


class _Packing:
    """The largest set of devices that counters allow, found by taking or leaving one after the other."""

    def __init__(self, takes: Sequence[Take], left: dict[int, int]) -> None:
        self.takes, self.left = takes, left
        self.best = self.steps = 0
        self._from(0, 0)

    def _from(self, at: int, count: int) -> None:
        self.best = max(self.best, count)
        self.steps += 1
        if count + len(self.takes) - at <= self.best or self.steps > STEPS:
            return
        demand = self.takes[at]
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
    One kind of partition of a GPU, or the GPU as a whole.

    `places` are published, `held` of them by claims; `open` could be taken as things are, each by itself, and
    `most` of them at once.
    """

    partition: str  # "1g.10gb", "" for the whole
    product: str
    memory_bytes: int | None
    published: int
    held: int
    open: int
    most: int


@dataclass(frozen=True, slots=True)
class PhysicalGpu:
    """A GPU that is cut, by its counter set; the whole comes first, then the largest partitions."""

    driver: str
    pool: str
    counter_set: str
    node_name: str
    partitions: tuple[GpuPartition, ...]


def physical_gpus(snapshot: ClusterSnapshot, driver: str, pool: str) -> list[PhysicalGpu]:
    """Return the GPUs of a pool that are published in partitions, by the names of their counter sets."""
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
        # A device without a name for what it is goes by its own: nothing is known to be like it.
        partition = description.partition or ("" if description.kind == "gpu" else device.name)
        by_kind.setdefault((partition, description.product, description.memory_bytes), []).append(device)
    partitions = []
    for (partition, product, memory), devices_of_kind in by_kind.items():
        available = [device for device in devices_of_kind if snapshot.can_take(device)]
        held = sum(snapshot.held.is_held(device.key) for device in devices_of_kind)
        max_held = _most(snapshot, available)
        partitions.append(
            GpuPartition(partition, product, memory, len(devices_of_kind), held, len(available), max_held)
        )
    return tuple(
        sorted(
            partitions,
            key=lambda partition_: (
                bool(partition_.partition),
                -(partition_.memory_bytes or 0),
                partition_.partition,
            ),
        )
    )


def _most(snapshot: ClusterSnapshot, devices: Sequence[PoolDevice]) -> int:
    """Return how many of these devices fit beside each other into what is left."""
    if not devices:
        return 0
    left = snapshot.counters_left((devices[0].driver, devices[0].pool))
    return 0 if left is None else max_concurrent([device.counters for device in devices], left)
