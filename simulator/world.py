"""
The simulated clusters of the demo: 44 nodes, 214 GPUs of six models, their partitions, 8 GPUs outside DRA.

fra-1 has 64 H100, 32 A100, 24 L40S and 32 L4; lab-2 has 28 T4, 16 MI300X, 16 A100 with 54 static MIG
partitions, and 2 H100 with dynamic MIG. In dynamic MIG the driver publishes a GPU and all placements of its
profiles as devices that consume counters of that GPU, 19 devices each, so that there are 288 devices; the
counters have a slice of their own. Two nodes of lab-2 have no DRA driver: a device plugin advertises their
A10 as `nvidia.com/gpu`.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from simulator.registry import Registry, WriteOptions
from simulator.resources import CLASSES, NAMESPACES, NODES, PODS, QUOTAS, SLICES, TAINT_RULES, Manifest

NVIDIA = "gpu.nvidia.com"
AMD = "gpu.amd.com"

type DeviceEntry = dict[str, Any]


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
A10 = Model("NVIDIA A10", "Nvidia", "Ampere", "8.6.0", 23028, 150, 16, "0x2236")
MI300X = Model("AMD Instinct MI300X", "Instinct", "CDNA 3", "", 196592, 750, 140, "0x74a1")
OLD_DRIVER_VERSIONS = {"driverVersion": {"version": "550.54.15"}, "cudaDriverVersion": {"version": "12.4.0"}}
MODELS = {model.product: model for model in (H100, A100, L40S, L4, T4, MI300X)}


def stable_uuid(*parts: object) -> str:
    """Return the same uuid for the same device in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, ".".join(map(str, parts)) + ".simulator"))


def pci_address(model: Model, index: int) -> tuple[str, str, int]:
    """Return the PCI bus id, the PCIe root and the NUMA node of a GPU."""
    root = 0x15 + 0x24 * (index // model.per_root)
    bus = root + 4 + index % model.per_root
    return f"0000:{bus:02x}:00.0", f"pci0000:{root:02x}", index // 4


def nvidia_gpu(model: Model, node: str, index: int) -> DeviceEntry:
    attributes = nvidia_attributes(model, index) | {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{stable_uuid(node, index)}"},
        "addressingMode": {"string": "HMM"},
    }
    return {
        "name": f"gpu-{index}",
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{model.memory}Mi"}},
    }


def amd_gpu(model: Model, index: int) -> DeviceEntry:
    """AMD publishes no uuid: telemetry is joined by node and PCI address."""
    bus, root, numa = pci_address(model, index)
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
    bus, root, numa = pci_address(model, index)
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


def static_gpu(model: Model, node: str, index: int) -> list[DeviceEntry]:
    """Return the partitions that a GPU was cut into; the GPU itself is then not published."""
    partition = STATIC_LAYOUT[index]
    devices = []
    for start in partition.starts:
        device = _partition(model, node, index, partition, start)
        device["attributes"]["uuid"] = {"string": f"MIG-{stable_uuid(node, index, start)}"}
        slices = {f"memorySlice{number}": "1" for number in partition.spans(start)}
        device["capacity"] |= _values(slices)
        devices.append(device)
    return devices


def counter_set(index: int) -> dict[str, Any]:
    """Return all that there is of a GPU in dynamic MIG."""
    return {"name": f"gpu-{index}-counter-set", "counters": WHOLE.counters(0)}


def dynamic_gpu(model: Model, node: str, index: int) -> Iterator[DeviceEntry]:
    """Yield the whole GPU, which takes every counter, and whatever can be cut from it."""
    counters = nvidia_gpu(model, node, index)
    counters["capacity"] = _values(WHOLE.amounts)
    yield counters | _consuming(index, WHOLE, 0)
    for partition in H100_PROFILES:
        for start in partition.starts:
            # It has no uuid: there is none before the partition is made.
            yield _partition(model, node, index, partition, start) | _consuming(index, partition, start)


def _partition(model: Model, node: str, index: int, partition: Partition, start: int) -> DeviceEntry:
    attributes = nvidia_attributes(model, index) | {
        "type": {"string": "mig"},
        "parentUUID": {"string": f"GPU-{stable_uuid(node, index)}"},
        "profile": {"string": partition.profile},
    }
    return {
        "name": partition.name(index, start),
        "attributes": attributes,
        "capacity": _values(partition.amounts),
    }


def _consuming(index: int, partition: Partition, start: int) -> dict[str, Any]:
    consumption = {"counterSet": f"gpu-{index}-counter-set", "counters": partition.counters(start)}
    return {"consumesCounters": [consumption]}


def _values(amounts: dict[str, str]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in amounts.items()}


BY_INSTALLER = WriteOptions(manager="installer")
TEAMS = ("vision", "nlp", "speech", "robotics")
CUT_ON_DEMAND = "lab2-h100-01"  # the node in dynamic MIG
TENANTS = ("tenant-atlas", "tenant-boreas", "tenant-cygnus")


@dataclass(frozen=True, slots=True)
class Rack:
    """
    Nodes of one kind. With `mig`, their GPUs are published in partitions; with `plugin`, no driver publishes
    them, and a device plugin advertises them as this extended resource.
    """

    prefix: str
    nodes: int
    gpus: int
    model: Model
    cores: int
    memory_gib: int
    mig: Literal["", "static", "dynamic"] = ""
    plugin: str = ""

    @property
    def node_names(self) -> list[str]:
        return [f"{self.prefix}-{number:02d}" for number in range(1, self.nodes + 1)]


RACKS: dict[str, tuple[Rack, ...]] = {
    "fra-1": (
        Rack("fra1-h100", 8, 8, H100, 192, 2048),
        Rack("fra1-a100", 8, 4, A100, 96, 1024),
        Rack("fra1-l40s", 6, 4, L40S, 96, 768),
        Rack("fra1-l4", 8, 4, L4, 64, 256),
    ),
    "lab-2": (
        Rack("lab2-t4", 7, 4, T4, 32, 128),
        Rack("lab2-mi300", 2, 8, MI300X, 192, 2304),
        Rack("lab2-mig", 2, 8, A100, 128, 1024, mig="static"),
        Rack("lab2-h100", 1, 2, H100, 96, 1024, mig="dynamic"),
        Rack("lab2-a10", 2, 4, A10, 64, 256, plugin="nvidia.com/gpu"),
    ),
}
# Cheap nodes that may be taken away at any time: pods have to tolerate that.
SPOT = frozenset(("fra1-l4-05", "fra1-l4-06", "fra1-l4-07", "fra1-l4-08"))
SPOT_TAINT = {"key": "example.org/spot", "value": "true", "effect": "NoSchedule"}
OLD_DRIVER = "fra1-a100-08"  # the node that nobody has updated
SICK = ("fra1-a100-02", "gpu-2")  # an uncorrectable error: XID 79, the GPU has fallen off the bus
IN_MAINTENANCE = "fra1-h100-06"
# GPU nodes outside DRA: a device that its plugin reports unhealthy, and the taint that keeps other pods away.
UNHEALTHY_PLUGIN = "lab2-a10-02"
PLUGIN_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SILENT_NODES = frozenset({"lab2-t4-04"})  # no exporter runs there
DYING_EXPORTER = "fra1-l4-08"  # its exporter dies each three hours, and is back a quarter of an hour later
DIES_EVERY, AWAY_FOR = 3 * 3600, 900  # seconds


def exporter_is_away(node: str, now: float) -> bool:
    """Return whether the exporter of a node does not run at this second."""
    return node in SILENT_NODES or (node == DYING_EXPORTER and now % DIES_EVERY < AWAY_FOR)


def populate(registry: Registry, cluster: str) -> None:
    """Install nodes, drivers, classes, namespaces and what is wrong with some of them."""
    for name in (*TEAMS, *TENANTS):
        team = name.removeprefix("tenant-")
        labels = {"team": team} | ({"tenant": "true"} if name in TENANTS else {"gpu.dragoman.dev/team": team})
        registry.create(NAMESPACES, "", {"metadata": {"name": name, "labels": labels}}, BY_INSTALLER)
    for rack in RACKS.get(cluster, ()):
        for node in rack.node_names:
            created = registry.create(NODES, "", _node(rack, node, cluster), BY_INSTALLER).object
            for resource_slice in _slices(registry, rack, created):
                registry.create(SLICES, "", resource_slice, BY_INSTALLER)
    for device_class in _classes(cluster):
        registry.create(CLASSES, "", device_class, BY_INSTALLER)
    if cluster == "lab-2":
        for name, gpus in (("report-weekly", 2), ("report-daily", 1)):
            registry.create(PODS, TENANTS[0], _pod_by_number(name, gpus), BY_INSTALLER)
    if cluster == "fra-1":
        registry.create(TAINT_RULES, "", _maintenance(), BY_INSTALLER)
        registry.create(QUOTAS, "vision", _quota(32), BY_INSTALLER)
        registry.create(QUOTAS, "nlp", _quota(40), BY_INSTALLER)


def _node(rack: Rack, name: str, cluster: str) -> Manifest:
    size = {"cpu": str(rack.cores), "memory": f"{rack.memory_gib}Gi", "pods": "110"}
    advertised = {rack.plugin: str(rack.gpus)} if rack.plugin else {}
    healthy = {rack.plugin: str(rack.gpus - (name == UNHEALTHY_PLUGIN))} if rack.plugin else {}
    spec: dict[str, Any] = {"taints": [SPOT_TAINT]} if name in SPOT else {}
    if rack.plugin:
        spec = {"taints": [PLUGIN_TAINT]}
    if name == IN_MAINTENANCE:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        spec = {"unschedulable": True, "taints": [taint]}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": rack.prefix.partition("-")[2],
                "karpenter.sh/nodepool": rack.prefix.partition("-")[2],
                "topology.kubernetes.io/zone": cluster,
                **_capacity_type(cluster, name),
            },
        },
        "spec": spec,
        "status": {
            "capacity": size | advertised,
            "allocatable": size | healthy,
            "conditions": [ready],
            "nodeInfo": {"kubeletVersion": "v1.37.1+simulated", "osImage": "Simulated Linux"},
        },
    }


def _pod_by_number(name: str, gpus: int) -> Manifest:
    """Return a pod that takes GPUs of a device plugin by number, without a claim."""
    container = {
        "name": "main",
        "image": "registry.example.com/report:3",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "tolerations": [{"key": PLUGIN_TAINT["key"], "operator": "Exists"}],
            "nodeSelector": {"karpenter.sh/nodepool": "a10"},
        },
    }


def _capacity_type(cluster: str, node: str) -> dict[str, str]:
    """Return the label that says how a node is paid for; nothing says so in the laboratory."""
    if cluster != "fra-1":
        return {}
    return {"karpenter.sh/capacity-type": "spot" if node in SPOT else "on-demand"}


def _slices(registry: Registry, rack: Rack, node: Manifest) -> list[Manifest]:
    name = node["metadata"]["name"]
    driver = AMD if rack.model is MI300X else NVIDIA
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": name,
        "uid": node["metadata"]["uid"],
        "controller": True,
    }
    contents = _contents(rack, name, registry.store.timestamp())
    pool = {"name": name, "generation": 1, "resourceSliceCount": len(contents)}
    return [
        {
            "metadata": {"generateName": f"{name}-{driver}-", "ownerReferences": [owner]},
            "spec": {"driver": driver, "nodeName": name, "pool": pool, **content},
        }
        for content in contents
    ]


def _contents(rack: Rack, node: str, at: str) -> list[dict[str, Any]]:
    """Return what each slice of the node's pool holds."""
    gpus = range(rack.gpus)
    if rack.plugin:
        return []
    if rack.mig == "dynamic":
        cuts = [{"devices": list(dynamic_gpu(rack.model, node, index))} for index in gpus]
        return [{"sharedCounters": [counter_set(index) for index in gpus]}, *cuts]
    if rack.mig == "static":
        return [{"devices": [part for index in gpus for part in static_gpu(rack.model, node, index)]}]
    return [{"devices": _gpus(rack, node, at)}]


def _gpus(rack: Rack, node: str, at: str) -> list[DeviceEntry]:
    if rack.model is MI300X:
        return [amd_gpu(rack.model, index) for index in range(rack.gpus)]
    devices = [nvidia_gpu(rack.model, node, index) for index in range(rack.gpus)]
    for device in devices:
        if node == OLD_DRIVER:
            device["attributes"] |= OLD_DRIVER_VERSIONS
        if (node, device["name"]) == SICK:
            device["taints"] = [
                {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule", "timeAdded": at}
            ]
    return devices


def _classes(cluster: str) -> list[Manifest]:
    kinds = {
        "gpu.nvidia.com": f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'gpu'",
        "mig.nvidia.com": f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'mig'",
        "gpu.amd.com": f"device.driver == '{AMD}'",
    }
    if cluster == "fra-1":
        del kinds["gpu.amd.com"]
    classes: list[Manifest] = [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        for name, expression in kinds.items()
    ]
    classes[0]["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    return classes


def _maintenance() -> Manifest:
    return {
        "metadata": {"name": f"maintenance-{IN_MAINTENANCE}"},
        "spec": {
            "deviceSelector": {"driver": NVIDIA, "pool": IN_MAINTENANCE},
            "taint": {"key": "gpu.dragoman.dev/maintenance", "value": "firmware", "effect": "NoSchedule"},
        },
    }


def _quota(devices: int) -> Manifest:
    hard = {
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": str(devices),
        "count/resourceclaims.resource.k8s.io": "100",
    }
    return {"metadata": {"name": "gpus"}, "spec": {"hard": hard}}
