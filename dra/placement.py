"""
Where pods of a claim may land: taints, labels, the vendor of the GPUs, and how nodes are paid for.

How a node is paid for, by the labels of those who make nodes.

Labels: Karpenter (concepts/scheduling), EKS node groups, GKE, AKS. No label means on-demand, and that is an
assumption to be told.

Where pods of a claim may land: the devices that match, and the nodes on which they sit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import compress
from operator import or_

from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.cuda import GpuCapability
from dra.devices.vendors import vendor_by_driver
from dra.facts import Malformed, attribute, lookup
from dra.match.funnel import funnel
from dra.objects import Json, device_requests
from dra.pools import PoolDevice
from dra.selector_results import unpack


class CapacityType(StrEnum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"


# label → what its values mean; GKE and AKS write nothing on nodes that are not spot.
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
    """`label` is "key=value" as the node has it, "" where on-demand is assumed."""

    capacity: CapacityType
    label: str


def node_pricing(labels: Json) -> NodePricing:
    """Read the labels of a node; the first that says something known counts."""
    for key, meanings in LABELS.items():
        if (value := str(labels.get(key) or "")) in meanings:
            return NodePricing(meanings[value], f"{key}={value}")
    return NodePricing(CapacityType.ON_DEMAND, "")


NVIDIA = "gpu.nvidia.com"  # the driver whose devices say what of CUDA they run
PUBLISHED = ("productName", "cudaDriverVersion", "driverVersion", "cudaComputeCapability")  # as in Gpu
NODE_OWN = "node.kubernetes.io/"  # taints of a node's health: they pass, and nobody should tolerate them


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """What nodes have in common: their taints, as kubectl writes them, and how they are paid for."""

    taints: tuple[str, ...]
    pricing: NodePricing


@dataclass(frozen=True, slots=True)
class Placement:
    """
    Devices that pass class and selectors of any request, whoever holds them, and the nodes that have some.

    `problem` is a sentence where that cannot be told; then all else is empty. `vendor` is that of most of the
    devices.
    """

    vendor: str = ""
    gpus: tuple[tuple[GpuCapability, int], ...] = ()
    node_groups: tuple[tuple[NodeGroup, int], ...] = ()
    problem: str = ""

    @property
    def nodes(self) -> int:
        return sum(number for _group, number in self.node_groups)

    @property
    def taints(self) -> list[tuple[str, int]]:
        """Return each taint with the number of nodes that have it, the most frequent first."""
        counts: Counter[str] = Counter()
        for group, number in self.node_groups:
            counts.update(dict.fromkeys(group.taints, number))
        return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))

    @property
    def pricings(self) -> list[tuple[NodePricing, int]]:
        """Return each way of paying with the number of its nodes."""
        counts: Counter[NodePricing] = Counter()
        for group, number in self.node_groups:
            counts[group.pricing] += number
        return sorted(counts.items(), key=lambda entry: (entry[0].capacity, entry[0].label))

    def eligible_nodes(self, tolerated: Iterable[str], labels: Iterable[str] | None) -> int:
        """
        Count nodes whose taints are all tolerated.

        `labels` are the `NodePricing.label` that are wanted, None for any.
        """
        tolerated_taints, allowed_labels = set(tolerated), None if labels is None else set(labels)
        return sum(
            number
            for group, number in self.node_groups
            if all(taint in tolerated_taints or taint.endswith(":PreferNoSchedule") for taint in group.taints)
            and (allowed_labels is None or group.pricing.label in allowed_labels)
        )


def claim_placement(snapshot: ClusterSnapshot, spec: Json) -> Placement:
    """Look at what of the picture a claim of this spec could get."""
    accepted = 0
    try:
        accepted = reduce(or_, (funnel(snapshot, request).accepted for request in device_requests(spec)), 0)
    except KeyError as missing:
        return Placement(problem=f"The cluster has no device class {missing.args[0]}.")
    except CelError as refusal:
        return Placement(problem=refusal.message)
    flags = unpack(accepted, len(snapshot.devices))
    vendors: Counter[str] = Counter()
    for pool, number in Counter(compress(snapshot.device_index.pool_numbers, flags)).items():
        driver, _name = snapshot.device_index.pool_keys[pool]
        vendors[vendor_by_driver(driver).name] += number
    reached = (
        node for node, runs in snapshot.node_ranges if any(any(flags[run.start : run.stop]) for run in runs)
    )
    sites = Counter(map(_site, reached))
    vendor = vendors.most_common(1)[0][0] if vendors else ""
    return Placement(vendor, tuple(_gpus(snapshot, flags)), tuple(sites.items()))


def _gpus(snapshot: ClusterSnapshot, flags: bytes) -> Iterator[tuple[GpuCapability, int]]:
    """Yield each kind of the flagged devices with its number, from columns that the picture keeps."""
    columns = [snapshot.device_index.values(f"{NVIDIA}/{name}") for name in PUBLISHED]
    published = list(compress(zip(*columns, strict=True), flags))
    numbers = Counter(published)
    indices = list(compress(range(len(flags)), flags))
    for kind, index in dict(zip(reversed(published), reversed(indices), strict=True)).items():
        yield GpuCapability(*(_text(snapshot.devices[index], name) for name in PUBLISHED)), numbers[kind]


def _text(device: PoolDevice, name: str) -> str:
    entry = lookup(device.raw.get("attributes") or {}, device.driver, NVIDIA, name)
    try:
        return "" if entry is None else str(attribute(entry))
    except Malformed:
        return ""


def _site(node: Json) -> NodeGroup:
    taints = (node.get("spec") or {}).get("taints") or ()
    texts = (_taint(taint) for taint in taints if not str(taint.get("key") or "").startswith(NODE_OWN))
    return NodeGroup(tuple(sorted(texts)), node_pricing((node.get("metadata") or {}).get("labels") or {}))


def _taint(raw: Json) -> str:
    value = f"={raw['value']}" if raw.get("value") else ""
    return f"{raw.get('key')}{value}:{raw.get('effect')}"
