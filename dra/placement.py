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
    sites: tuple[tuple[NodeGroup, int], ...] = ()
    problem: str = ""

    @property
    def nodes(self) -> int:
        return sum(number for _site, number in self.sites)

    @property
    def taints(self) -> list[tuple[str, int]]:
        """Return each taint with the number of nodes that have it, the most frequent first."""
        found: Counter[str] = Counter()
        for site, number in self.sites:
            found.update(dict.fromkeys(site.taints, number))
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))

    @property
    def pricings(self) -> list[tuple[NodePricing, int]]:
        """Return each way of paying with the number of its nodes."""
        found: Counter[NodePricing] = Counter()
        for site, number in self.sites:
            found[site.pricing] += number
        return sorted(found.items(), key=lambda one: (one[0].capacity, one[0].label))

    def open_to(self, tolerated: Iterable[str], labels: Iterable[str] | None) -> int:
        """
        Count nodes whose taints are all tolerated.

        `labels` are the `NodePricing.label` that are wanted, None for any.
        """
        known, wanted = set(tolerated), None if labels is None else set(labels)
        return sum(
            number
            for site, number in self.sites
            if all(taint in known or taint.endswith(":PreferNoSchedule") for taint in site.taints)
            and (wanted is None or site.pricing.label in wanted)
        )


def claim_placement(snapshot: ClusterSnapshot, spec: Json) -> Placement:
    """Look at what of the picture a claim of this spec could get."""
    accepted = 0
    try:
        accepted = reduce(or_, (funnel(snapshot, ask).accepted for ask in device_requests(spec)), 0)
    except KeyError as missing:
        return Placement(problem=f"The cluster has no device class {missing.args[0]}.")
    except CelError as refusal:
        return Placement(problem=refusal.message)
    flags = unpack(accepted, len(snapshot.devices))
    vendors: Counter[str] = Counter()
    for pool, number in Counter(compress(snapshot.device_index.pool_numbers, flags)).items():
        driver, _name = snapshot.device_index.pool_keys[pool]
        vendors[vendor_by_driver(driver).name] += number
    reached = (node for node, runs in snapshot.sites if any(any(flags[run.start : run.stop]) for run in runs))
    sites = Counter(map(_site, reached))
    vendor = vendors.most_common(1)[0][0] if vendors else ""
    return Placement(vendor, tuple(_gpus(snapshot, flags)), tuple(sites.items()))


def _gpus(snapshot: ClusterSnapshot, flags: bytes) -> Iterator[tuple[GpuCapability, int]]:
    """Yield each kind of the flagged devices with its number, from columns that the picture keeps."""
    columns = [snapshot.device_index.values(f"{NVIDIA}/{name}") for name in PUBLISHED]
    found = list(compress(zip(*columns, strict=True), flags))
    numbers = Counter(found)
    places = list(compress(range(len(flags)), flags))
    for kind, place in dict(zip(reversed(found), reversed(places), strict=True)).items():
        yield GpuCapability(*(_text(snapshot.devices[place], name) for name in PUBLISHED)), numbers[kind]


def _text(device: PoolDevice, name: str) -> str:
    found = lookup(device.raw.get("attributes") or {}, device.driver, NVIDIA, name)
    try:
        return "" if found is None else str(attribute(found))
    except Malformed:
        return ""


def _site(node: Json) -> NodeGroup:
    taints = (node.get("spec") or {}).get("taints") or ()
    texts = (_taint(one) for one in taints if not str(one.get("key") or "").startswith(NODE_OWN))
    return NodeGroup(tuple(sorted(texts)), node_pricing((node.get("metadata") or {}).get("labels") or {}))


def _taint(raw: Json) -> str:
    value = f"={raw['value']}" if raw.get("value") else ""
    return f"{raw.get('key')}{value}:{raw.get('effect')}"
