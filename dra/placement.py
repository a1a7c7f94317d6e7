"""
Placement of a claim's pods: the devices that match, the nodes that have them, and the pricing of the nodes.

Pricing comes from labels of Karpenter (concepts/scheduling), EKS node groups, GKE and AKS. A node without
such a label is assumed to be on-demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import compress
from operator import or_

from dra.attributes import Malformed, attribute, lookup
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.cuda import GpuCapability
from dra.devices import describe, vendor_by_driver
from dra.match.funnel import funnel
from dra.objects import Json, device_requests
from dra.pools import PoolDevice
from dra.selector_results import DeviceMask, unpack


class CapacityType(StrEnum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"


# label → value → capacity type. GKE and AKS label spot nodes only.
LABELS = {
    "karpenter.sh/capacity-type": {
        "spot": CapacityType.SPOT,
        "on-demand": CapacityType.ON_DEMAND,
        "reserved": CapacityType.RESERVED,
    },
    "eks.amazonaws.com/capacityType": {
        "SPOT": CapacityType.SPOT,
        "ON_DEMAND": CapacityType.ON_DEMAND,
        "CAPACITY_BLOCK": CapacityType.RESERVED,
    },
    "cloud.google.com/gke-spot": {"true": CapacityType.SPOT},
    "cloud.google.com/gke-preemptible": {"true": CapacityType.SPOT},
    "kubernetes.azure.com/scalesetpriority": {"spot": CapacityType.SPOT},
}


@dataclass(frozen=True, slots=True)
class NodePricing:
    """`label` is "key=value" of the node, "" if on-demand is assumed."""

    capacity: CapacityType
    label: str


def node_pricing(labels: Json) -> NodePricing:
    """Return the pricing of a node; the first label with a known value counts."""
    for key, meanings in LABELS.items():
        if (value := str(labels.get(key) or "")) in meanings:
            return NodePricing(meanings[value], f"{key}={value}")
    return NodePricing(CapacityType.ON_DEMAND, "")


NVIDIA = "gpu.nvidia.com"  # its devices publish their CUDA versions
PUBLISHED = ("productName", "cudaDriverVersion", "driverVersion", "cudaComputeCapability")  # as in Gpu
NODE_CONDITION_PREFIX = "node.kubernetes.io/"  # taints of node conditions: temporary, not to be tolerated


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with equal taints, as kubectl writes them, and equal pricing."""

    taints: tuple[str, ...]
    pricing: NodePricing


@dataclass(frozen=True, slots=True)
class Placement:
    """
    Devices that match a request of the spec, held or free, and their nodes.

    `vendor` is that of most of the devices. `memory` has the bytes of the largest, 0 if the spec limits none.
    If the match is unknown, `problem` is a sentence and all other fields are empty.
    """

    vendor: str = ""
    gpus: tuple[tuple[GpuCapability, int], ...] = ()
    node_groups: tuple[tuple[NodeGroup, int], ...] = ()
    memory: int = 0
    problem: str = ""

    @property
    def nodes(self) -> int:
        return sum(number for _group, number in self.node_groups)

    @property
    def taints(self) -> list[tuple[str, int]]:
        """Return (taint, number of nodes), the most frequent first."""
        counts: Counter[str] = Counter()
        for group, number in self.node_groups:
            counts.update(dict.fromkeys(group.taints, number))
        return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))

    @property
    def pricings(self) -> list[tuple[NodePricing, int]]:
        """Return (pricing, number of nodes)."""
        counts: Counter[NodePricing] = Counter()
        for group, number in self.node_groups:
            counts[group.pricing] += number
        return sorted(counts.items(), key=lambda entry: (entry[0].capacity, entry[0].label))

    def eligible_nodes(self, tolerated: Iterable[str], labels: Iterable[str] | None) -> int:
        """
        Return the number of nodes whose taints are all tolerated.

        `labels` are the allowed `NodePricing.label`, None for any.
        """
        tolerated_taints, allowed_labels = set(tolerated), None if labels is None else set(labels)
        return sum(
            number
            for group, number in self.node_groups
            if all(taint in tolerated_taints or taint.endswith(":PreferNoSchedule") for taint in group.taints)
            and (allowed_labels is None or group.pricing.label in allowed_labels)
        )


def claim_placement(snapshot: ClusterSnapshot, spec: Json) -> Placement:
    """Return the devices and nodes of the snapshot that a claim of this spec can get."""
    accepted = 0
    try:
        accepted = reduce(or_, (funnel(snapshot, request).accepted for request in device_requests(spec)), 0)
    except KeyError as missing:
        return Placement(problem=f"The cluster has no device class {missing.args[0]}.")
    except CelError as refusal:
        return Placement(problem=refusal.message)
    flags = unpack(accepted, len(snapshot.devices))
    vendors: Counter[str] = Counter()
    for device, alike in snapshot.device_index.groups_by(_driver):
        if alike & accepted:
            vendors[vendor_by_driver(device.driver).name] += (alike & accepted).bit_count()
    vendor = vendors.most_common(1)[0][0] if vendors else ""
    numbers, groups = snapshot.nodes_by(_node_group)
    nodes = Counter(compress(numbers, snapshot.node_runs.counts(accepted)))
    return Placement(
        vendor,
        tuple(_gpus(snapshot, flags)),
        tuple((groups[number], count) for number, count in nodes.items()),
        _largest_memory(snapshot, spec, accepted),
    )


def _driver(device: PoolDevice) -> str:
    return device.driver


def _largest_memory(snapshot: ClusterSnapshot, spec: Json, accepted: DeviceMask) -> int:
    """Return the memory of the largest accepted device; 0 for a spec that limits no memory of its devices."""
    if not (spec["devices"].get("config") or any(row.capacity for row in device_requests(spec))):
        return 0
    groups = snapshot.device_index.groups_by(_memory_key)
    sizes = (describe(device.driver, device.raw).memory_bytes for device, alike in groups if alike & accepted)
    return max((size or 0 for size in sizes), default=0)


def _memory_key(device: PoolDevice) -> tuple[str, str]:
    return device.driver, str(device.raw.get("capacity"))


def _gpus(snapshot: ClusterSnapshot, flags: bytes) -> Iterator[tuple[GpuCapability, int]]:
    """Yield (kind, number) of the flagged devices; the attributes of one device of each kind are read."""
    kinds = snapshot.device_index.combined_values(tuple(f"{NVIDIA}/{name}" for name in PUBLISHED))
    numbers = Counter(compress(kinds, flags))
    first = 0
    for kind in sorted(numbers):  # numbers ascend in the order of their first devices
        first = kinds.index(kind, first)
        device = snapshot.devices[first]
        yield GpuCapability(*(_text(device, name) for name in PUBLISHED)), numbers[kind]


def _text(device: PoolDevice, name: str) -> str:
    entry = lookup(device.raw.get("attributes") or {}, device.driver, NVIDIA, name)
    try:
        return "" if entry is None else str(attribute(entry))
    except Malformed:
        return ""


def _node_group(node: Json) -> NodeGroup:
    taints = (node.get("spec") or {}).get("taints") or ()
    texts = (
        _taint(taint) for taint in taints if not str(taint.get("key") or "").startswith(NODE_CONDITION_PREFIX)
    )
    return NodeGroup(tuple(sorted(texts)), node_pricing((node.get("metadata") or {}).get("labels") or {}))


def _taint(raw: Json) -> str:
    value = f"={raw['value']}" if raw.get("value") else ""
    return f"{raw.get('key')}{value}:{raw.get('effect')}"
