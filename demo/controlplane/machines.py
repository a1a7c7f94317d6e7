"""
Nodes, ResourceSlices and DeviceClasses as drivers publish them, on machines that do not exist.

Attributes follow the drivers' sources: an H100 has no pool of its own, a dynamic MIG device has no UUID, AMD
publishes no UUID at all, and the version 595.58.03 of a driver is published as 595.58.3.
"""

import uuid
from collections.abc import Iterator
from typing import Any

type Json = dict[str, Any]

NVIDIA, AMD, EXAMPLE = "gpu.nvidia.com", "gpu.amd.com", "gpu.example.com"
PCI = "resource.kubernetes.io/"

# profile → (multiprocessors, memory, memory slices, GI profile id, slices it may start at), of an A100-40.
MIG_A100_40 = {
    "1g.5gb": (14, "4864Mi", 1, 19, range(7)),
    "2g.10gb": (28, "9856Mi", 2, 14, (0, 2, 4)),
    "3g.20gb": (42, "19968Mi", 4, 9, (0, 4)),
    "4g.20gb": (56, "19968Mi", 4, 5, (0,)),
    "7g.40gb": (98, "40192Mi", 8, 0, (0,)),
}
# (GPU, profile, start, memory), as an admin has cut two A100-80 by hand.
MIG_A100_80 = (
    *((0, "1g.10gb", start, "9856Mi") for start in range(7)),
    (1, "3g.40gb", 0, "40192Mi"),
    (1, "3g.40gb", 4, "40192Mi"),
)


def everything() -> list[Json]:
    """Return all objects of the fixture, in an order in which they can be created."""
    machines: tuple[tuple[str, list[Json]], ...] = (
        ("h100-a", h100("h100-a")),
        ("h100-b", h100("h100-b")),
        ("a100-a", a100("a100-a")),
        ("mig-static", static_mig("mig-static")),
        ("mig-dynamic", dynamic_mig("mig-dynamic")),
        ("mi300x-a", mi300x("mi300x-a")),
        ("example-a", example("example-a")),
        ("cpu-a", []),
    )
    nodes = [node(name) for name, _slices in machines]
    return [*device_classes(), *nodes, *(item for _name, slices in machines for item in slices)]


def node(name: str, **labels: str) -> Json:
    standard = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "fra-1a"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": standard | labels}}


def device_classes() -> list[Json]:
    nvidia = (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].?type.orValue('') == '{}'"
    )
    return [
        device_class("gpu.nvidia.com", nvidia.format("gpu"), extendedResourceName="nvidia.com/gpu"),
        device_class("mig.nvidia.com", nvidia.format("mig")),
        device_class("gpu.amd.com", "device.driver == 'gpu.amd.com'"),
        device_class("gpu.example.com", "device.driver == 'gpu.example.com'"),
    ]


def device_class(name: str, expression: str, **more: str) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **more},
    }


def resource_slice(
    driver: str, node_name: str, *, number: int = 0, of: int = 1, generation: int = 1, **contents: Any
) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{driver}-{number}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": generation, "resourceSliceCount": of},
            **contents,
        },
    }


def h100(node_name: str) -> list[Json]:
    """Eight H100, two on each PCIe root."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": nvidia_attributes(node_name, index, "NVIDIA H100 80GB HBM3", "Hopper", "9.0.0"),
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for index in range(8)
    ]
    return [resource_slice(NVIDIA, node_name, devices=devices)]


def a100(node_name: str) -> list[Json]:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": nvidia_attributes(node_name, index, "NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0"),
            "capacity": {"memory": {"value": "81920Mi"}},
        }
        for index in range(4)
    ]
    return [resource_slice(NVIDIA, node_name, devices=devices)]


def static_mig(node_name: str) -> list[Json]:
    """Two A100-80 cut into partitions. The cards themselves are then not published."""
    devices = [
        {
            "name": f"gpu-{gpu}-mig-{profile.replace('.', '')}-{start}",
            "attributes": {
                **nvidia_attributes(node_name, gpu, "NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0"),
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "uuid": {"string": f"MIG-{stable_uuid(node_name, gpu, profile, start)}"},
                "parentUUID": {"string": f"GPU-{stable_uuid(node_name, gpu)}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for gpu, profile, start, memory in MIG_A100_80
    ]
    return [resource_slice(NVIDIA, node_name, devices=devices)]


def dynamic_mig(node_name: str) -> list[Json]:
    """One A100-40 to be cut at will: counters in one slice, what can be had of them in another."""
    counters = {
        "name": "gpu-0-counter-set",
        "counters": {
            "multiprocessors": {"value": "98"},
            "memory": {"value": "40192Mi"},
            **{f"memory-slice-{index}": {"value": "1"} for index in range(8)},
        },
    }
    product = "NVIDIA A100-SXM4-40GB"
    whole = {
        "name": "gpu-0",
        "attributes": nvidia_attributes(node_name, 0, product, "Ampere", "8.0.0"),
        "capacity": {"memory": {"value": "40192Mi"}},
        "consumesCounters": [consumed(98, "40192Mi", range(8))],
    }
    return [
        resource_slice(NVIDIA, node_name, number=0, of=2, generation=3, sharedCounters=[counters]),
        resource_slice(
            NVIDIA, node_name, number=1, of=2, generation=3, devices=[whole, *partitions(node_name, product)]
        ),
    ]


def partitions(node_name: str, product: str) -> Iterator[Json]:
    for profile, (multiprocessors, memory, width, number, starts) in MIG_A100_40.items():
        for start in starts:
            attributes = nvidia_attributes(node_name, 0, product, "Ampere", "8.0.0")
            del attributes["uuid"]  # there is none before the partition is made
            yield {
                "name": f"gpu-0-mig-{profile.replace('.', '')}-{number}-{start}",
                "attributes": {
                    **attributes,
                    "type": {"string": "mig"},
                    "profile": {"string": profile},
                    "parentUUID": {"string": f"GPU-{stable_uuid(node_name, 0)}"},
                },
                "capacity": {
                    "memory": {"value": memory},
                    "multiprocessors": {"value": str(multiprocessors)},
                },
                "consumesCounters": [consumed(multiprocessors, memory, range(start, start + width))],
            }


def consumed(multiprocessors: int, memory: str, slices: range) -> Json:
    return {
        "counterSet": "gpu-0-counter-set",
        "counters": {
            "multiprocessors": {"value": str(multiprocessors)},
            "memory": {"value": memory},
            **{f"memory-slice-{index}": {"value": "1"} for index in slices},
        },
    }


def mi300x(node_name: str) -> list[Json]:
    devices = [
        {
            "name": f"gpu-{index}-{128 + index}",
            "attributes": {
                "type": {"string": "amdgpu"},
                "productName": {"string": "AMD Instinct MI300X OAM"},
                "driverVersion": {"version": "6.12.12"},
                "deviceID": {"string": "0x74a1"},
                "partitionProfile": {"string": "spx_nps1"},
                f"{PCI}pciBusID": {"string": f"0000:{0x05 + 0x10 * index:02x}:00.0"},
                f"{PCI}pcieRoot": {"string": f"pci0000:{0x10 * index:02x}"},
            },
            "capacity": {"memory": {"value": "196592Mi"}, "computeUnits": {"value": "304"}},
        }
        for index in range(8)
    ]
    return [resource_slice(AMD, node_name, devices=devices)]


def example(node_name: str) -> list[Json]:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "index": {"int": index},
                "uuid": {"string": f"gpu-{stable_uuid(node_name, index)}"},
                "model": {"string": "LATEST-GPU-MODEL"},
                "driverVersion": {"version": "1.0.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}, "compute": {"value": "100"}},
        }
        for index in range(8)
    ]
    return [resource_slice(EXAMPLE, node_name, devices=devices)]


def nvidia_attributes(
    node_name: str, index: int, product: str, architecture: str, capability: str
) -> dict[str, Json]:
    return {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{stable_uuid(node_name, index)}"},
        "productName": {"string": product},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": architecture},
        "cudaComputeCapability": {"version": capability},
        "driverVersion": {"version": "580.95.5"},
        "cudaDriverVersion": {"version": "13.0.0"},
        f"{PCI}pciBusID": {"string": f"0000:{0x19 + 0x10 * index:02x}:00.0"},
        f"{PCI}pcieRoot": {"string": f"pci0000:{0x15 + 0x10 * (index // 2):02x}"},
        f"{PCI}numaNode": {"int": index // 4},
    }


def stable_uuid(*parts: object) -> uuid.UUID:
    """Return the same UUID for the same device in every run."""
    return uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, parts)))
