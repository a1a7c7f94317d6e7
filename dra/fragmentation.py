"""
What can still be cut from a GPU whose partitions are published as devices with shared counters (KEP 4815).

Partitions of one GPU compete: a small one in the wrong place leaves room for no large one, although enough is
left in all. Taints are another matter, so they are left aside here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dra.at_once import most_at_once
from dra.devices import describe
from dra.picture import Picture
from dra.pools import PoolDevice


@dataclass(frozen=True, slots=True)
class Cut:
    """
    One kind of partition of a GPU, or the GPU as a whole.

    `places` are published, `held` of them by claims; `open` could be taken as things are, each by itself, and
    `most` of them at once.
    """

    partition: str  # "1g.10gb", "" for the whole
    product: str
    memory_bytes: int | None
    places: int
    held: int
    open: int
    most: int


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU that is cut, by its counter set; the whole comes first, then the largest partitions."""

    driver: str
    pool: str
    counter_set: str
    node_name: str
    cuts: tuple[Cut, ...]


def boards_of(picture: Picture, driver: str, pool: str) -> list[Board]:
    """Return the GPUs of a pool that are published in partitions, by the names of their counter sets."""
    found: dict[str, list[PoolDevice]] = {}
    node_name = ""
    for one in picture.pools:
        if (one.driver, one.name) != (driver, pool) or not one.usable:
            continue
        for device in one.devices:
            node_name = node_name or device.node_name
            for counter_set in {key[0] for key, _ in device.counters}:
                found.setdefault(counter_set, []).append(device)
    return [
        Board(driver, pool, counter_set, node_name, _cuts(picture, devices))
        for counter_set, devices in sorted(found.items())
    ]


def _cuts(picture: Picture, devices: Sequence[PoolDevice]) -> tuple[Cut, ...]:
    kinds: dict[tuple[str, str, int | None], list[PoolDevice]] = {}
    for device in devices:
        seen = describe(device.driver, device.raw)
        # A device without a name for what it is goes by its own: nothing is known to be like it.
        partition = seen.partition or ("" if seen.kind == "gpu" else device.name)
        kinds.setdefault((partition, seen.product, seen.memory_bytes), []).append(device)
    cuts = []
    for (partition, product, memory), alike in kinds.items():
        open_ = [device for device in alike if picture.can_take(device)]
        held = sum(picture.held.taken(device.key) for device in alike)
        most = _most(picture, open_)
        cuts.append(Cut(partition, product, memory, len(alike), held, len(open_), most))
    return tuple(sorted(cuts, key=lambda cut: (bool(cut.partition), -(cut.memory_bytes or 0), cut.partition)))


def _most(picture: Picture, devices: Sequence[PoolDevice]) -> int:
    """Return how many of these devices fit beside each other into what is left."""
    if not devices:
        return 0
    left = picture.left_in((devices[0].driver, devices[0].pool))
    return 0 if left is None else most_at_once([device.counters for device in devices], left)
