"""
DRA feature gates of a cluster.

The scheduler passes them to its allocator, and they decide which of three implementations runs
(`k8s.io/dynamic-resource-allocation/structured/internal/types.go` and `allocator.go`, 1.37).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Self


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


def _upstream(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


NEWEST = Features.of_version(37)
# The scheduler compiles stored selectors with all features of its version, whether enabled or not.
STORED = replace(NEWEST, list_type_attributes=True)
