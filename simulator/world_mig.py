"""
GPUs in partitions (MIG): cut beforehand by an admin, or published with every cut that is possible.

In dynamic MIG the driver lists a GPU and all placements of its profiles as devices that consume counters of
that GPU; the counters have a slice of their own, and each GPU has one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simulator.world_models import Device, Model, nvidia_attributes, nvidia_gpu, uuid_of

MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG profile: its id, what an instance has, and at which of the memory slices instances start."""

    profile: str
    profile_id: int
    memory: int
    multiprocessors: int
    slices: int
    starts: tuple[int, ...]
    copy_engines: int
    decoders: int
    jpeg_engines: int = 0
    ofa_engines: int = 0

    @property
    def amounts(self) -> dict[str, str]:
        return {
            "memory": f"{self.memory}Mi",
            "multiprocessors": str(self.multiprocessors),
            "copyEngines": str(self.copy_engines),
            "decoders": str(self.decoders),
            "encoders": "0",
            "jpegEngines": str(self.jpeg_engines),
            "ofaEngines": str(self.ofa_engines),
        }

    def counters(self, start: int) -> dict[str, Any]:
        """Return what an instance takes from its GPU."""
        amounts = {COUNTERS.get(name, name): value for name, value in self.amounts.items()}
        return _values(amounts | {f"memory-slice-{number}": "1" for number in self.spans(start)})

    def spans(self, start: int) -> range:
        return range(start, start + self.slices)

    def name(self, index: int, start: int) -> str:
        return f"gpu-{index}-mig-{self.profile.replace('.', '')}-{self.profile_id}-{start}"


COUNTERS = {
    "copyEngines": "copy-engines",
    "jpegEngines": "jpeg-engines",
    "ofaEngines": "ofa-engines",
}

# Of an A100-80, cut beforehand: one kind of partition per GPU of a node.
SEVENTHS = Partition("1g.10gb", 19, 9856, 14, 1, (0, 1, 2, 3, 4, 5, 6), 1, 0)
QUARTERS = Partition("1g.20gb", 15, 19968, 14, 2, (0, 2, 4, 6), 1, 1)
HALVES = Partition("3g.40gb", 9, 40192, 42, 4, (0, 4), 3, 2)
STATIC_LAYOUT = (SEVENTHS, QUARTERS, QUARTERS, QUARTERS, HALVES, HALVES, HALVES, HALVES)

# Of an H100-80, without the variants for media engines.
WHOLE = Partition("7g.80gb", 0, 81152, 132, MEMORY_SLICES, (0,), 8, 7, 7, 1)
H100_PROFILES = (
    Partition("1g.10gb", 19, 9984, 16, 1, (0, 1, 2, 3, 4, 5, 6), 1, 1, 1),
    Partition("1g.20gb", 15, 20096, 26, 2, (0, 2, 4, 6), 1, 1, 1),
    Partition("2g.20gb", 14, 20096, 32, 2, (0, 2, 4), 2, 2, 2),
    Partition("3g.40gb", 9, 40448, 60, 4, (0, 4), 3, 3, 3),
    Partition("4g.40gb", 5, 40448, 64, 4, (0,), 4, 4, 4),
    WHOLE,
)


def static_gpu(model: Model, node: str, index: int) -> list[Device]:
    """Return the partitions that a GPU was cut into; the GPU itself is then not published."""
    partition = STATIC_LAYOUT[index]
    devices = []
    for start in partition.starts:
        device = _partition(model, node, index, partition, start)
        device["attributes"]["uuid"] = {"string": f"MIG-{uuid_of(node, index, start)}"}
        slices = {f"memorySlice{number}": "1" for number in partition.spans(start)}
        device["capacity"] |= _values(slices)
        devices.append(device)
    return devices


def counter_set(index: int) -> dict[str, Any]:
    """Return all that there is of a GPU in dynamic MIG."""
    return {"name": f"gpu-{index}-counter-set", "counters": WHOLE.counters(0)}


def dynamic_gpu(model: Model, node: str, index: int) -> Iterator[Device]:
    """Yield the whole GPU, which takes every counter, and whatever can be cut from it."""
    whole = nvidia_gpu(model, node, index)
    whole["capacity"] = _values(WHOLE.amounts)
    yield whole | _consuming(index, WHOLE, 0)
    for partition in H100_PROFILES:
        for start in partition.starts:
            # It has no uuid: there is none before the partition is made.
            yield _partition(model, node, index, partition, start) | _consuming(index, partition, start)


def _partition(model: Model, node: str, index: int, partition: Partition, start: int) -> Device:
    attributes = nvidia_attributes(model, index) | {
        "type": {"string": "mig"},
        "parentUUID": {"string": f"GPU-{uuid_of(node, index)}"},
        "profile": {"string": partition.profile},
    }
    return {
        "name": partition.name(index, start),
        "attributes": attributes,
        "capacity": _values(partition.amounts),
    }


def _consuming(index: int, partition: Partition, start: int) -> dict[str, Any]:
    taken = {"counterSet": f"gpu-{index}-counter-set", "counters": partition.counters(start)}
    return {"consumesCounters": [taken]}


def _values(amounts: dict[str, str]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in amounts.items()}
