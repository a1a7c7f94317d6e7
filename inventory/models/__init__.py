"""What the clusters hold: a mirror that only `inventory.sync` writes."""

from inventory.models.cluster import Cluster, DraHealth, FleetCount, FleetSpan, Freshness, ObjectEvent
from inventory.models.device import Device, DeviceUtilization
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
    "DraHealth",
    "FleetCount",
    "FleetSpan",
    "Freshness",
    "Mirrored",
    "Namespace",
    "Node",
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
