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
from inventory.models.price_basis import BasisKey, PriceBasis

__all__ = [
    "BasisKey",
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
    "PriceBasis",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "TelemetryAccess",
]
