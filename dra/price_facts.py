"""
What the price of a device may depend on besides time: itself, and capacity type and labels of its node.

Devices of one cluster that are alike in all of it have one key, so a fleet has a few dozen of them. Labels
that differ on each node, as its host name, are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from dra.placement import node_pricing

# Of one node, or of one moment: a price that depended on them would be that of a node.
OWN_LABELS = ("kubernetes.io/hostname", "metadata.kubernetes.io/name", "topology.kubernetes.io/hostname")
OWN_SUFFIX = "timestamp"  # nvidia.com/gfd.timestamp


@dataclass(frozen=True, slots=True)
class PriceFacts:
    """
    What an expression of a rate reads as `device`.

    `capacity_type` is a `dra.placement.CapacityType`, "" for a device that is on no known node.
    """

    cluster: str
    driver: str
    product: str
    partition: str = ""
    capacity_type: str = ""
    node_labels: Mapping[str, str] = field(default_factory=dict)


def shared_labels(labels: Mapping[str, object], node_name: str) -> dict[str, str]:
    """Return the labels of a node that nodes like it have too."""
    return {
        name: str(value)
        for name, value in sorted(labels.items())
        if name not in OWN_LABELS and not name.endswith(OWN_SUFFIX) and str(value) != node_name
    }


def labels_key(labels: Mapping[str, object], node_name: str) -> str:
    """Return a text of 32 characters that is equal for nodes with equal shared labels."""
    text = json.dumps(shared_labels(labels, node_name))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def capacity_type(labels: Mapping[str, object]) -> str:
    return node_pricing(dict(labels)).capacity.value
