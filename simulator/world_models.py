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
OLD_DRIVER = {"driverVersion": {"version": "550.54.15"}, "cudaDriverVersion": {"version": "12.4.0"}}
MODELS = {model.product: model for model in (H100, A100, L40S, L4, T4, MI300X)}


def uuid_of(*parts: object) -> str:
    """Return the same uuid for the same device in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, ".".join(map(str, parts)) + ".simulator"))


def bus_of(model: Model, index: int) -> tuple[str, str, int]:
    """Return the PCI bus id, the PCIe root and the NUMA node of a GPU."""
    root = 0x15 + 0x24 * (index // model.per_root)
    bus = root + 4 + index % model.per_root
    return f"0000:{bus:02x}:00.0", f"pci0000:{root:02x}", index // 4


def nvidia_gpu(model: Model, node: str, index: int) -> Device:
    attributes = nvidia_attributes(model, index) | {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{uuid_of(node, index)}"},
        "addressingMode": {"string": "HMM"},
    }
    return {
        "name": f"gpu-{index}",
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{model.memory}Mi"}},
    }


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


def nvidia_attributes(model: Model, index: int) -> dict[str, Any]:
    """Return the attributes that a GPU and its partitions have in common."""
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
