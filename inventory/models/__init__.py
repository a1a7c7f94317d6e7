"""What the clusters hold: a mirror that only `inventory.sync` writes."""

from inventory.models.cluster import Cluster, FleetCount, FleetSpan, Freshness, ObjectEvent
from inventory.models.device import Device, DeviceUtilization, NodeCount
from inventory.models.mirror import (
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Namespace,
    Node,
    ObjectKey,
    Owned,
    Ownership,
    Pod,
    PodEvent,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

__all__ = [
    "Cluster",
    "Device",
    "DeviceClass",
    "DeviceTaintRule",
    "DeviceUtilization",
    "FleetCount",
    "FleetSpan",
    "Freshness",
    "Mirrored",
    "Namespace",
    "Node",
    "NodeCount",
    "ObjectEvent",
    "ObjectKey",
    "Owned",
    "Ownership",
    "Pod",
    "PodEvent",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
]
