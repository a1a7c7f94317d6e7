"""
The usual conditions of a profile as fields, and as the CEL they stand for, both ways.

Every expression uses `.?x.orValue(…)`: an expression that touches an attribute that a device lacks is an
error for the scheduler, which then allocates nothing at all (KEP-4381, "Allocation").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dra.cel.idioms import comparison, quoted

GIB = re.compile(r"\d{1,9}Gi", re.ASCII)
MINOR = re.compile(r"\d+\.\d+\.0", re.ASCII)  # of a version


@dataclass(frozen=True)
class Conditions:
    """One request of a claim by its usual conditions; 0 and "" are not asked for."""

    device_class: str
    count: int = 1
    domain: str = "gpu.nvidia.com"  # the driver whose attributes are read
    product: str = ""  # the name begins so
    memory_gib: int = 0
    compute: str = ""  # "8.0"
    request: str = "gpu"


def expressions(conditions: Conditions) -> list[str]:
    """Return one CEL expression per condition that is asked for."""
    domain = quoted(conditions.domain)
    found = []
    if conditions.product:
        found.append(
            f'device.attributes[{domain}].?productName.orValue("").startsWith({quoted(conditions.product)})'
        )
    if conditions.memory_gib:
        found.append(
            f'device.capacity[{domain}].?memory.orValue(quantity("0"))'
            f'.compareTo(quantity("{conditions.memory_gib}Gi")) >= 0'
        )
    if conditions.compute:
        found.append(
            f'device.attributes[{domain}].?cudaComputeCapability.orValue(semver("0.0.0"))'
            f'.compareTo(semver("{conditions.compute}.0")) >= 0'
        )
    return found


def to_spec(conditions: Conditions) -> dict[str, Any]:
    """Return the ResourceClaim spec (resource.k8s.io/v1) with one `exactly` request."""
    exactly: dict[str, Any] = {
        "deviceClassName": conditions.device_class,
        "allocationMode": "ExactCount",
        "count": conditions.count,
    }
    selectors = [{"cel": {"expression": expression}} for expression in expressions(conditions)]
    if selectors:
        exactly["selectors"] = selectors
    return {"devices": {"requests": [{"name": conditions.request, "exactly": exactly}]}}


def from_spec(spec: dict[str, Any]) -> Conditions | None:
    """Return the conditions that `spec` was made of, None if it says more than fields can."""
    requests = spec.get("devices", {}).get("requests", [])
    exactly = requests[0].get("exactly") if len(requests) == 1 else None
    if exactly is None:
        return None
    read = _fields([selector["cel"]["expression"] for selector in exactly.get("selectors", [])])
    if read is None:
        return None
    conditions = Conditions(
        device_class=exactly["deviceClassName"],
        count=exactly.get("count", 1),
        request=requests[0]["name"],
        **read,
    )
    # The way back must give the same, or fields would silently drop what only YAML can say.
    filled = {"allocationMode": "ExactCount", "count": 1} | exactly
    same = spec | {"devices": spec["devices"] | {"requests": [requests[0] | {"exactly": filled}]}}
    return conditions if to_spec(conditions) == same else None


def _fields(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the fields that the expressions may stand for, None if one of them stands for none."""
    fields: dict[str, Any] = {}
    for text in texts:
        asked = comparison(text)
        if asked is None or asked.ref is None:
            return None
        part, fields["domain"], name = asked.ref
        match part, name, asked.sign:
            case "attributes", "productName", "begins":
                fields["product"] = asked.wanted
            case "capacity", "memory", ">=" if GIB.fullmatch(asked.wanted):
                fields["memory_gib"] = int(asked.wanted[:-2])
            case "attributes", "cudaComputeCapability", ">=" if MINOR.fullmatch(asked.wanted):
                fields["compute"] = asked.wanted.removesuffix(".0")
            case _:
                return None
    return fields
