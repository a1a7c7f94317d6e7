"""
The two clusters of the demo: 42 nodes, 214 GPUs of six kinds.

fra-1 has 64 H100, 32 A100, 24 L40S and 32 L4; lab-2 has 28 T4, 16 MI300X, 16 A100 cut into 54 partitions and
2 H100 that are cut when somebody asks: each is published as 19 devices, so that there are 288 devices.
"""

from dataclasses import dataclass
from typing import Any, Literal

from simulator import world_mig as mig
from simulator import world_models as models
from simulator.registry import Options, Registry
from simulator.resources import CLASSES, NAMESPACES, NODES, QUOTAS, SLICES, TAINT_RULES, Manifest
from simulator.world_models import AMD, NVIDIA, Device, Model

BY_INSTALLER = Options(manager="installer")
TEAMS = ("vision", "nlp", "speech", "robotics")
CUT_ON_DEMAND = "lab2-h100-01"  # the node in dynamic MIG
TENANTS = ("tenant-atlas", "tenant-boreas", "tenant-cygnus")


@dataclass(frozen=True, slots=True)
class Rack:
    """Nodes of one kind. With `mig`, their GPUs are published in partitions, as `world_mig` says."""

    prefix: str
    nodes: int
    gpus: int
    model: Model
    cores: int
    memory_gib: int
    mig: Literal["", "static", "dynamic"] = ""

    @property
    def node_names(self) -> list[str]:
        return [f"{self.prefix}-{number:02d}" for number in range(1, self.nodes + 1)]


RACKS: dict[str, tuple[Rack, ...]] = {
    "fra-1": (
        Rack("fra1-h100", 8, 8, models.H100, 192, 2048),
        Rack("fra1-a100", 8, 4, models.A100, 96, 1024),
        Rack("fra1-l40s", 6, 4, models.L40S, 96, 768),
        Rack("fra1-l4", 8, 4, models.L4, 64, 256),
    ),
    "lab-2": (
        Rack("lab2-t4", 7, 4, models.T4, 32, 128),
        Rack("lab2-mi300", 2, 8, models.MI300X, 192, 2304),
        Rack("lab2-mig", 2, 8, models.A100, 128, 1024, mig="static"),
        Rack("lab2-h100", 1, 2, models.H100, 96, 1024, mig="dynamic"),
    ),
}
# Cheap nodes that may be taken away at any time: pods have to tolerate that.
SPOT = frozenset(("fra1-l4-05", "fra1-l4-06", "fra1-l4-07", "fra1-l4-08"))
SPOT_TAINT = {"key": "example.org/spot", "value": "true", "effect": "NoSchedule"}
OLD_DRIVER = "fra1-a100-08"  # the node that nobody has updated
SICK = ("fra1-a100-02", "gpu-2")  # an uncorrectable error: XID 79, the GPU has fallen off the bus
IN_MAINTENANCE = "fra1-h100-06"
SILENT_NODES = frozenset({"lab2-t4-04"})  # no exporter runs there


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
    if cluster == "fra-1":
        registry.create(TAINT_RULES, "", _maintenance(), BY_INSTALLER)
        registry.create(QUOTAS, "vision", _quota(32), BY_INSTALLER)
        registry.create(QUOTAS, "nlp", _quota(24), BY_INSTALLER)


def _node(rack: Rack, name: str, cluster: str) -> Manifest:
    size = {"cpu": str(rack.cores), "memory": f"{rack.memory_gib}Gi", "pods": "110"}
    spec: dict[str, Any] = {"taints": [SPOT_TAINT]} if name in SPOT else {}
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
                "topology.kubernetes.io/zone": cluster,
                **_capacity_type(cluster, name),
            },
        },
        "spec": spec,
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [ready],
            "nodeInfo": {"kubeletVersion": "v1.37.1+simulated", "osImage": "Simulated Linux"},
        },
    }


def _capacity_type(cluster: str, node: str) -> dict[str, str]:
    """Return the label that says how a node is paid for; nothing says so in the laboratory."""
    if cluster != "fra-1":
        return {}
    return {"karpenter.sh/capacity-type": "spot" if node in SPOT else "on-demand"}


def _slices(registry: Registry, rack: Rack, node: Manifest) -> list[Manifest]:
    name = node["metadata"]["name"]
    driver = AMD if rack.model is models.MI300X else NVIDIA
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
    if rack.mig == "dynamic":
        cuts = [{"devices": list(mig.dynamic_gpu(rack.model, node, index))} for index in gpus]
        return [{"sharedCounters": [mig.counter_set(index) for index in gpus]}, *cuts]
    if rack.mig == "static":
        return [{"devices": [part for index in gpus for part in mig.static_gpu(rack.model, node, index)]}]
    return [{"devices": _gpus(rack, node, at)}]


def _gpus(rack: Rack, node: str, at: str) -> list[Device]:
    if rack.model is models.MI300X:
        return [models.amd_gpu(rack.model, index) for index in range(rack.gpus)]
    devices = [models.nvidia_gpu(rack.model, node, index) for index in range(rack.gpus)]
    for device in devices:
        if node == OLD_DRIVER:
            device["attributes"] |= models.OLD_DRIVER
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
