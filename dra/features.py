"""
DRA feature gates of a cluster.

The scheduler passes them to its allocator, and they decide which of three implementations runs
(`k8s.io/dynamic-resource-allocation/structured/internal/types.go` and `allocator.go`, 1.37).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

type Json = Mapping[str, Any]

NEWEST_MINOR = 37  # of Kubernetes 1.x, whose rules the portal follows


class Implementation(StrEnum):
    """Upstream's allocator implementations; the first that supports all enabled features is used."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


@dataclass(frozen=True, slots=True)
class Features:
    """The features of upstream's allocator. `switches` has their upstream names."""

    admin_access: bool = False
    compatibility_groups: bool = False
    consumable_capacity: bool = False
    derived_attributes: bool = False
    device_binding_and_status: bool = False
    device_taints: bool = False
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    partitionable_devices: bool = False
    prioritized_list: bool = False

    @classmethod
    def of_version(cls, minor: int) -> Self:
        """
        Return the defaults of Kubernetes 1.`minor`.

        Versions before 1.34, the first with `resource.k8s.io/v1`, count as 1.34, and newer than 1.37 as 1.37.
        Fractional ranges are off in 1.37: the gate needs `--min-compatibility-version=1.37`, and the default
        is the minor version before.
        """
        return cls(
            admin_access=True,
            prioritized_list=True,
            consumable_capacity=minor >= 36,
            device_binding_and_status=minor >= 36,
            device_taints=minor >= 36,
            partitionable_devices=minor >= 36,
        )

    @classmethod
    def seen_in(cls, slices: Iterable[Json] = (), claims: Iterable[Json] = ()) -> Self:
        """
        Return the features whose fields these slices and allocated claims have.

        The API server drops fields of features that are off, so these are on, whatever the default of the
        version is.
        """
        seen: set[str] = set()
        for resource_slice in slices:
            spec: Json = resource_slice.get("spec") or {}
            seen.update(name for key, name in FIELDS_OF_SLICES.items() if spec.get(key))
            for device in spec.get("devices") or ():
                seen.update(_of_device(device))
        for claim in claims:
            devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
            for result in devices.get("results") or ():
                seen.update([FIELDS_OF_RESULTS[key] for key in FIELDS_OF_RESULTS.keys() & result.keys()])
        return cls(**dict.fromkeys(seen, True))

    def __or__(self, other: Self) -> Self:
        """Return the features that are on in one of both."""
        return replace(self, **{gate.name: True for gate in fields(self) if getattr(other, gate.name)})

    @classmethod
    def of_switches(cls, switches: Mapping[str, bool]) -> Self:
        """Read `{"ConsumableCapacity": true}`. Raise `KeyError` for an unknown feature."""
        attributes = cls.switches()
        return cls(**{attributes[name]: bool(on) for name, on in switches.items()})

    @classmethod
    def switches(cls) -> dict[str, str]:
        """Return the attribute of each feature by its upstream name: {"AdminAccess": "admin_access", …}."""
        return {_upstream(gate.name): gate.name for gate in fields(cls)}

    @property
    def implementation(self) -> Implementation:
        if (
            self.compatibility_groups
            or self.derived_attributes
            or self.list_type_attributes
            or self.optional_node_operations
        ):
            return Implementation.EXPERIMENTAL
        if self.consumable_capacity or self.device_binding_and_status or self.fractional_capacity_range:
            return Implementation.INCUBATING
        return Implementation.STABLE

    @property
    def stable(self) -> bool:
        return self.implementation is Implementation.STABLE


# Feature → what an object has only where the feature is on.
FIELDS_OF_SLICES = {
    "sharedCounters": "partitionable_devices",
    "perDeviceNodeSelection": "partitionable_devices",
    "skipNodeOperations": "optional_node_operations",
}
FIELDS_OF_DEVICES = {
    "consumesCounters": "partitionable_devices",
    "allowMultipleAllocations": "consumable_capacity",
    "bindingConditions": "device_binding_and_status",
    "bindsToNode": "device_binding_and_status",
    "taints": "device_taints",
}
FIELDS_OF_RESULTS = {
    "shareID": "consumable_capacity",
    "consumedCapacity": "consumable_capacity",
    "adminAccess": "admin_access",
    "bindingConditions": "device_binding_and_status",
    "tolerations": "device_taints",
}
LIST_TYPES = frozenset(("ints", "bools", "strings", "versions"))


def minor_version(version: str) -> int | None:
    """Return 36 for "v1.36.2+k3s1"; None for a version that is not known."""
    _, _, rest = version.partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    return int(minor) if minor.isdecimal() else None


def newer_than_known(version: str) -> str:
    """Return a sentence if Kubernetes `version` is newer than the rules that are followed, "" if not."""
    minor = minor_version(version)
    if minor is None or minor <= NEWEST_MINOR:
        return ""
    return (
        f"The cluster runs Kubernetes 1.{minor}. The portal knows the rules of allocation up to "
        f"1.{NEWEST_MINOR}: what it predicts may differ from what this cluster allocates."
    )


def _of_device(device: Json) -> Iterator[str]:
    for key in FIELDS_OF_DEVICES.keys() & device.keys():
        if device[key]:
            yield FIELDS_OF_DEVICES[key]
    if any(one.get("compatibilityGroups") for one in device.get("consumesCounters") or ()):
        yield "compatibility_groups"
    if not all(map(LIST_TYPES.isdisjoint, (device.get("attributes") or {}).values())):
        yield "list_type_attributes"
    if any(capacity.get("requestPolicy") for capacity in (device.get("capacity") or {}).values()):
        yield "consumable_capacity"


def _upstream(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


NEWEST = Features.of_version(NEWEST_MINOR)
# The scheduler compiles stored selectors with all features of its version, whether enabled or not.
STORED = replace(NEWEST, list_type_attributes=True)
