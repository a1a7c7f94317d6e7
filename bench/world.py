"""
Clusters of any size for the benchmarks: nodes of eight devices, one slice each, 60 % of the devices taken.

Objects look as the mirror keeps them, with the metadata that a server adds. The same size gives the same
cluster in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from dra.objects import Manifest

PER_NODE = 8
TAKEN = 0.6
TAINTED = 0.01
DRIVER = "gpu.nvidia.com"
AT = "2026-11-02T08:15:30Z"
PRODUCTS = (  # product, architecture, compute capability, MiB, share of the nodes
    ("NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", 81559, 40),
    ("NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0", 81920, 25),
    ("NVIDIA L40S", "Ada Lovelace", "8.9.0", 46068, 20),
    ("NVIDIA L4", "Ada Lovelace", "8.9.0", 23034, 15),
)
PARTITIONS = (
    ("7g.80gb", 0, 8),
    ("3g.40gb", 0, 4),
    ("3g.40gb", 4, 4),
    *(("1g.10gb", start, 1) for start in range(5)),
)  # profile, first memory slice, memory slices: what one GPU of eight slices may be cut into


class Kind(StrEnum):
    """What the devices are."""

    WHOLE = "whole"
    SHARED = "shared"  # several claims take capacity of one device (KEP 5075)
    PARTITIONED = "partitioned"  # devices of a node are cut from one GPU (KEP 4815)


@dataclass(slots=True)
class World:
    """The lists that `dra.cluster_snapshot.ClusterSnapshot` takes."""

    classes: list[Manifest] = field(default_factory=list)
    slices: list[Manifest] = field(default_factory=list)
    claims: list[Manifest] = field(default_factory=list)
    taint_rules: list[Manifest] = field(default_factory=list)
    nodes: list[Manifest] = field(default_factory=list)


def world(kind: Kind, devices: int) -> World:
    """Return a cluster of so many devices, a multiple of eight."""
    rng = random.Random(f"{kind} {devices}")  # noqa: S311, nothing secret
    cluster = World(classes=[_class("gpu.nvidia.com", "gpu"), _class("mig.nvidia.com", "mig")])
    cluster.taint_rules = [_taint_rule()]
    build: Callable[[World, random.Random, str, int], None] = {
        Kind.WHOLE: _whole,
        Kind.SHARED: _shared,
        Kind.PARTITIONED: _partitioned,
    }[kind]
    for number in range(devices // PER_NODE):
        name = f"gpu-node-{number:05}"
        cluster.nodes.append(_node(rng, name, number))
        build(cluster, rng, name, number)
    return cluster


def _whole(cluster: World, rng: random.Random, node: str, number: int) -> None:
    product = _product(number)
    devices = [_gpu(rng, product, index) for index in range(PER_NODE)]
    for device in devices:
        if rng.random() < TAINTED:
            taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule", "timeAdded": AT}
            device["taints"] = [taint]
        if rng.random() < TAKEN:
            cluster.claims.append(_claim(rng, node, _result(node, device["name"])))
    cluster.slices.append(_slice(rng, node, devices=devices))


def _shared(cluster: World, rng: random.Random, node: str, number: int) -> None:
    product = _product(number)
    devices = []
    for index in range(PER_NODE):
        device = _gpu(rng, product, index) | {"allowMultipleAllocations": True}
        policy = {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}
        device["capacity"] = {"memory": {"value": f"{product[3]}Mi", "requestPolicy": policy}}
        devices.append(device)
        if rng.random() < TAKEN:
            amount = f"{rng.choice((5, 10, 15, 20))}Gi"
            consumption = {"shareID": _uuid(rng), "consumedCapacity": {"memory": amount}}
            cluster.claims.append(_claim(rng, node, _result(node, device["name"]) | consumption))
    cluster.slices.append(_slice(rng, node, devices=devices))


def _partitioned(cluster: World, rng: random.Random, node: str, number: int) -> None:
    product = PRODUCTS[number % 2]
    counters = {f"memory-slice-{at}": {"value": "1"} for at in range(8)} | {
        "multiprocessors": {"value": "132"}
    }
    cluster.slices.append(
        _slice(rng, node, slices=2, sharedCounters=[{"name": "gpu-0", "counters": counters}])
    )
    devices, free = [], set(range(8))
    for profile, start, size in PARTITIONS:
        takes = {f"memory-slice-{at}": {"value": "1"} for at in range(start, start + size)}
        takes["multiprocessors"] = {"value": str(16 * size)}
        device = _gpu(rng, product, 0) | {
            "name": f"gpu-0-mig-{profile.replace('.', '')}-{start}",
            "capacity": {"memory": {"value": f"{9856 * size}Mi"}},
            "consumesCounters": [{"counterSet": "gpu-0", "counters": takes}],
        }
        device["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": profile}}
        devices.append(device)
    order = list(zip(devices, PARTITIONS, strict=True))
    rng.shuffle(order)
    for device, (_, start, size) in order:
        needed = set(range(start, start + size))
        if needed <= free and 8 - len(free) + size <= 8 * TAKEN + 2 and rng.random() < TAKEN:
            free -= needed
            cluster.claims.append(_claim(rng, node, _result(node, device["name"])))
    cluster.slices.append(_slice(rng, node, slices=2, devices=devices))


def _product(number: int) -> tuple[str, str, str, int, int]:
    percent = number * 37 % 100
    for product in PRODUCTS:
        percent -= product[4]
        if percent < 0:
            return product
    return PRODUCTS[0]


def _gpu(rng: random.Random, product: tuple[str, str, str, int, int], index: int) -> Manifest:
    root = f"pci0000:{0x15 + 0x24 * (index // 2):02x}"
    driver = rng.choice(("580.95.5", "580.82.7", "575.57.8"))
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{_uuid(rng)}"},
            "productName": {"string": product[0]},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": product[1]},
            "cudaComputeCapability": {"version": product[2]},
            "driverVersion": {"version": driver},
            "cudaDriverVersion": {"version": "13.0.0"},
            "addressingMode": {"string": "HMM"},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{0x19 + index:02x}:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": root},
            "resource.kubernetes.io/numaNode": {"int": index // 4},
        },
        "capacity": {"memory": {"value": f"{product[3]}Mi"}},
    }


def _result(pool: str, device: str) -> Manifest:
    return {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device}


def _claim(rng: random.Random, node: str, result: Manifest) -> Manifest:
    name, pod = f"train-{rng.randrange(16**8):08x}", _uuid(rng)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    metadata = _metadata(rng, name) | {"namespace": f"team-{rng.randrange(40)}"}
    metadata["labels"] = {"gpu.dragoman.dev/claim": _uuid(rng), "gpu.dragoman.dev/team": "vision"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata | {"finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
                "allocationTimestamp": AT,
            },
            "reservedFor": [{"resource": "pods", "name": f"{name}-0", "uid": pod}],
        },
    }


def _slice(rng: random.Random, node: str, *, slices: int = 1, **spec: object) -> Manifest:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": _uuid(rng), "controller": True}
    metadata = _metadata(rng, f"{node}-{DRIVER}-{rng.randrange(16**5):05x}")
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata | {"generation": 1, "ownerReferences": [owner]},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **spec},
    }


def _node(rng: random.Random, name: str, number: int) -> Manifest:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": _product(number)[0].replace(" ", "-"),
        "topology.kubernetes.io/region": "fra",
        "topology.kubernetes.io/zone": f"fra-{number % 3}",
    }
    size = {"cpu": "192", "memory": "2113411228Ki", "pods": "110", "ephemeral-storage": "1843200000Ki"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(rng, name) | {"labels": labels},
        "spec": {"unschedulable": True} if number % 50 == 49 else {},
        "status": {
            "capacity": size,
            "allocatable": dict(size),
            "addresses": [{"type": "InternalIP", "address": f"10.{number // 250}.{number % 250}.7"}],
            "conditions": list(_conditions()),
            "nodeInfo": {
                "kubeletVersion": "v1.37.1",
                "osImage": "Ubuntu 26.04 LTS",
                "machineID": _uuid(rng),
            },
        },
    }


def _conditions() -> Iterator[Manifest]:
    for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"):
        yield {
            "type": type_,
            "status": "True" if type_ == "Ready" else "False",
            "lastHeartbeatTime": AT,
            "lastTransitionTime": AT,
            "reason": "Kubelet",
            "message": "the kubelet reports it",
        }


def _metadata(rng: random.Random, name: str) -> Manifest:
    version = str(rng.randrange(10**9))
    return {"name": name, "uid": _uuid(rng), "resourceVersion": version, "creationTimestamp": AT}


def _uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _class(name: str, type_: str) -> Manifest:
    is_type = f"device.attributes['{DRIVER}'].?type.orValue('') == '{type_}'"
    expression = f"device.driver == '{DRIVER}' && {is_type}"
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def _taint_rule() -> Manifest:
    taint = {"key": "gpu.dragoman.dev/maintenance", "effect": "NoSchedule", "timeAdded": AT}
    selector = {"driver": DRIVER, "pool": "gpu-node-00003"}
    return {"metadata": {"name": "maintenance"}, "spec": {"deviceSelector": selector, "taint": taint}}
