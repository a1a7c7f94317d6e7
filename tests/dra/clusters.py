"""Small clusters as lists of API objects, for the tests of `dra`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dra.allocator import allocate
from dra.cluster_snapshot import ClusterSnapshot

type Object = dict[str, Any]

NVIDIA = "gpu.nvidia.com"
IS_GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].?type.orValue('') == 'gpu'"
IS_MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].?type.orValue('') == 'mig'"
H100 = "NVIDIA H100 80GB HBM3"
PCIE = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}


def device_class(name: str = NVIDIA, *expressions: str, config: list[Object] | None = None) -> Object:
    spec: Object = {"selectors": [{"cel": {"expression": one}} for one in expressions or (IS_GPU,)]}
    return {"metadata": {"name": name}, "spec": spec | ({"config": config} if config else {})}


def gpu(number: int, *, product: Any = H100, memory: Any = "81559Mi", **more: Any) -> Object:
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{number:04}"},
        "productName": {"string": product},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.95.5"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02}"},
    }
    attributes |= more.pop("attributes", {})
    return {
        "name": f"gpu-{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def resource_slice(node: str = "node-a", devices: list[Object] | None = None, **spec: Any) -> Object:
    pool = {"name": spec.pop("pool", node), "generation": spec.pop("generation", 1)}
    pool["resourceSliceCount"] = spec.pop("slices", 1)
    place = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": node}
    name = spec.pop("name", f"{node}-{pool['generation']}")
    body = {"driver": NVIDIA, "pool": pool, **place, **spec}
    return {"metadata": {"name": name}, "spec": body | ({} if devices is None else {"devices": devices})}


def node(name: str = "node-a", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def ask(count: Any = 1, *expressions: str, **more: Any) -> Object:
    asked: Object = {"deviceClassName": more.pop("class_name", NVIDIA), "count": count}
    if expressions:
        asked["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    return asked | more


def spec(*requests: Any, **devices: Any) -> Object:
    return {"devices": {"requests": list(requests), **devices}}


def exactly(count: Any = 1, *expressions: str, name: str = "gpu", **more: Any) -> Object:
    return {"name": name, "exactly": ask(count, *expressions, **more)}


def claim(claim_spec: Object, name: str = "mine", results: list[Object] | None = None) -> Object:
    status = {"allocation": {"devices": {"results": results}}} if results else {}
    return {"metadata": {"name": name, "namespace": "vision"}, "spec": claim_spec, "status": status}


def holds(*devices: str, name: Any = "theirs", pool: Any = "node-a", **more: Any) -> Object:
    """A claim that has been given devices of a pool."""
    results = [{"request": "gpu", "driver": NVIDIA, "pool": pool, "device": one, **more} for one in devices]
    return claim(spec(exactly()), name, results)


def snapshot(slices: Sequence[Mapping[str, Any]], *claims: Object, **more: Any) -> ClusterSnapshot:
    more.setdefault("classes", [device_class(), device_class("mig.nvidia.com", IS_MIG)])
    return ClusterSnapshot(slices=slices, claims=claims, **more)


NODE = node()


def eight() -> list[Object]:
    """A node of eight GPUs, two to a PCIe root."""
    return [resource_slice(devices=[gpu(number) for number in range(8)])]


def given(seen: ClusterSnapshot, *claim_specs: Object, on: Object = NODE) -> list[list[str]] | None:
    """Return the names of the devices that each claim gets, or None if they do not fit."""
    claims = [claim(claim_spec, f"c{number}") for number, claim_spec in enumerate(claim_specs)]
    results = allocate(seen, on, claims)
    return None if results is None else [[one.device.name for one in result.devices] for result in results]
