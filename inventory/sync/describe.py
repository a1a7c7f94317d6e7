"""From a device of a pool and the taint rules of its cluster to the columns of its row. Pure."""

import re
from collections.abc import Sequence
from typing import Any

from cluster.protocol import Manifest
from dra.devices import describe
from dra.pools import PoolDevice
from dra.taints import Taint, rules_for
from inventory.models import Device

# What drivers call a broken device (NVIDIA's xid and gpu-lost, Intel's HealthIssues-*).
BROKEN = re.compile(r"(^|[/-])(xid|gpu-lost)$|health", re.IGNORECASE)


def device_columns(device: PoolDevice, rules: Sequence[Manifest]) -> dict[str, Any]:
    raw = device.raw
    about = describe(device.driver, raw)
    ruled = rules_for(device, rules)
    return {
        "node_name": device.node_name,
        "product": about.product[:120],
        "kind": about.kind[:32],
        "partition": about.partition[:64],
        "uuid": about.uuid[:80],
        "parent_uuid": about.parent_uuid[:80],
        "memory_bytes": about.memory_bytes,
        "attributes": raw.get("attributes") or {},
        "capacity": raw.get("capacity") or {},
        "counters": raw.get("consumesCounters") or [],
        "taints": [taint.as_dict() for taint in (*device.taints, *ruled)],
        "condition": condition(device.taints, ruled),
        "shareable": device.shareable,
    }


def condition(published: Sequence[Taint], ruled: Sequence[Taint]) -> Device.Condition:
    """Sum up the taints of the slice and those of rules; the effect None keeps nobody away."""
    if any(taint.blocks and BROKEN.search(taint.key) for taint in published):
        return Device.Condition.UNHEALTHY
    if any(taint.blocks for taint in (*published, *ruled)):
        return Device.Condition.TAINTED
    return Device.Condition.GOOD
