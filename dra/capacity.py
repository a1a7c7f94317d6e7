"""
How a node is paid for, by the labels of those who make nodes.

Labels: Karpenter (concepts/scheduling), EKS node groups, GKE, AKS. No label means on-demand, and that is an
assumption to be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dra.objects import Json


class Capacity(StrEnum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"


# label → what its values mean; GKE and AKS write nothing on nodes that are not spot.
LABELS = {
    "karpenter.sh/capacity-type": {
        "spot": Capacity.SPOT,
        "on-demand": Capacity.ON_DEMAND,
        "reserved": Capacity.RESERVED,
    },
    "eks.amazonaws.com/capacityType": {
        "SPOT": Capacity.SPOT,
        "ON_DEMAND": Capacity.ON_DEMAND,
        "CAPACITY_BLOCK": Capacity.RESERVED,
    },
    "cloud.google.com/gke-spot": {"true": Capacity.SPOT},
    "cloud.google.com/gke-preemptible": {"true": Capacity.SPOT},
    "kubernetes.azure.com/scalesetpriority": {"spot": Capacity.SPOT},
}


@dataclass(frozen=True, slots=True)
class Billing:
    """`label` is "key=value" as the node has it, "" where on-demand is assumed."""

    capacity: Capacity
    label: str


def billing_of(labels: Json) -> Billing:
    """Read the labels of a node; the first that says something known counts."""
    for key, meanings in LABELS.items():
        if (value := str(labels.get(key) or "")) in meanings:
            return Billing(meanings[value], f"{key}={value}")
    return Billing(Capacity.ON_DEMAND, "")
