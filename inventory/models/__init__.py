"""What the clusters hold: a mirror that only `inventory.sync` writes."""

from inventory.models.cluster import (
    Cluster,
    DraHealth,
    FleetCount,
    FleetSpan,
    Freshness,
    ObjectEvent,
    TelemetryAccess,
)
from inventory.models.device import Device, DeviceUtilization, HardwareEvent
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
    "HardwareEvent",
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
    "TelemetryAccess",
]
