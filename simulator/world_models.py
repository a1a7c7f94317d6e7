"""The kinds of devices in the simulated clusters, with the attributes that their drivers publish."""

import uuid
from dataclasses import dataclass
from typing import Any

NVIDIA = "gpu.nvidia.com"
AMD = "gpu.amd.com"

type Device = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """`watts` is the board's limit, `idle_watts` what it draws with nothing to do, `memory` in MiB."""

    product: str
    brand: str
    architecture: str
    compute: str
    memory: int
    watts: int
    idle_watts: int
    device_id: str
    per_root: int = 1  # GPUs behind one PCIe root


H100 = Model("NVIDIA H100 80GB HBM3", "Nvidia", "Hopper", "9.0.0", 81559, 700, 68, "0x2330", per_root=2)
A100 = Model("NVIDIA A100-SXM4-80GB", "Nvidia", "Ampere", "8.0.0", 81920, 400, 58, "0x20b2", per_root=2)
L40S = Model("NVIDIA L40S", "Nvidia", "Ada Lovelace", "8.9.0", 46068, 350, 34, "0x26b9", per_root=2)
L4 = Model("NVIDIA L4", "Nvidia", "Ada Lovelace", "8.9.0", 23034, 72, 12, "0x27b8")
T4 = Model("Tesla T4", "Tesla", "Turing", "7.5.0", 15360, 70, 10, "0x1eb8")
MI300X = Model("AMD Instinct MI300X", "Instinct", "CDNA 3", "", 196592, 750, 140, "0x74a1")
MODELS = {model.product: model for model in (H100, A100, L40S, L4, T4, MI300X)}


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG profile of an A100-80: its id, its size, and where on the GPU its instances start."""

    profile: str
    profile_id: int
    memory: int
    multiprocessors: int
    slices: int
    starts: tuple[int, ...]


SEVENTHS = Partition("1g.10gb", 19, 9856, 14, 1, (0, 1, 2, 3, 4, 5, 6))
QUARTERS = Partition("1g.20gb", 15, 19968, 14, 2, (0, 2, 4, 6))
HALVES = Partition("3g.40gb", 9, 40192, 42, 4, (0, 4))
MIG_LAYOUT = (SEVENTHS, QUARTERS, QUARTERS, QUARTERS, HALVES, HALVES, HALVES, HALVES)  # one per GPU of a node


def uuid_of(*parts: object) -> str:
    """Return the same uuid for the same device in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, ".".join(map(str, parts)) + ".simulator"))


def bus_of(model: Model, index: int) -> tuple[str, str, int]:
    """Return the PCI bus id, the PCIe root and the NUMA node of a GPU."""
    root = 0x15 + 0x24 * (index // model.per_root)
    bus = root + 4 + index % model.per_root
    return f"0000:{bus:02x}:00.0", f"pci0000:{root:02x}", index // 4


def nvidia_gpu(model: Model, node: str, index: int) -> Device:
    attributes = _common(model, index) | {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{uuid_of(node, index)}"},
        "addressingMode": {"string": "HMM"},
    }
    return {
        "name": f"gpu-{index}",
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{model.memory}Mi"}},
    }


def mig_devices(model: Model, node: str, index: int, partition: Partition) -> list[Device]:
    """Return the partitions of one GPU in static MIG."""
    devices = []
    for start in partition.starts:
        attributes = _common(model, index) | {
            "type": {"string": "mig"},
            "uuid": {"string": f"MIG-{uuid_of(node, index, start)}"},
            "parentUUID": {"string": f"GPU-{uuid_of(node, index)}"},
            "profile": {"string": partition.profile},
        }
        capacity = {
            "memory": f"{partition.memory}Mi",
            "multiprocessors": str(partition.multiprocessors),
            "copyEngines": str(max(1, partition.slices * 7 // 8)),
            "decoders": str(partition.slices // 2),
            "encoders": "0",
            "jpegEngines": "0",
            "ofaEngines": "0",
        } | {f"memorySlice{number}": "1" for number in range(start, start + partition.slices)}
        short = partition.profile.replace(".", "")
        devices.append(
            {
                "name": f"gpu-{index}-mig-{short}-{partition.profile_id}-{start}",
                "attributes": attributes,
                "capacity": {name: {"value": value} for name, value in capacity.items()},
            }
        )
    return devices


def amd_gpu(model: Model, index: int) -> Device:
    """AMD publishes no uuid: telemetry is joined by node and PCI address."""
    bus, root, numa = bus_of(model, index)
    card, render = index + 1, 128 + index
    return {
        "name": f"gpu-{card}-{render}",
        "attributes": {
            "type": {"string": "amdgpu"},
            "productName": {"string": model.product},
            "family": {"string": "AI"},
            "deviceID": {"string": model.device_id},
            "cardIndex": {"int": card},
            "renderIndex": {"int": render},
            "driverVersion": {"version": "6.12.12"},
            "partitionProfile": {"string": "spx_nps1"},
            "numaNode": {"int": numa},
            "resource.kubernetes.io/pciBusID": {"string": bus},
            "resource.kubernetes.io/pcieRoot": {"string": root},
        },
        "capacity": {
            "memory": {"value": f"{model.memory}Mi"},
            "computeUnits": {"value": "304"},
            "simdUnits": {"value": "1216"},
        },
    }


def _common(model: Model, index: int) -> dict[str, Any]:
    bus, root, numa = bus_of(model, index)
    return {
        "productName": {"string": model.product},
        "brand": {"string": model.brand},
        "architecture": {"string": model.architecture},
        "cudaComputeCapability": {"version": model.compute},
        "driverVersion": {"version": "580.95.5"},  # 580.95.05, as the driver normalises it
        "cudaDriverVersion": {"version": "13.0.0"},
        "resource.kubernetes.io/pciBusID": {"string": bus},
        "resource.kubernetes.io/pcieRoot": {"string": root},
        "resource.kubernetes.io/numaNode": {"int": numa},
    }
