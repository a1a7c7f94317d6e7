"""Which resources of a cluster are mirrored, and in which table."""

from cluster.kinds import DEVICE_TAINT_RULE_VERSIONS, MIRRORED, Kind
from inventory.models import (
    Cluster,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Namespace,
    Node,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

MODELS: dict[str, type[Mirrored]] = {
    "namespaces": Namespace,
    "nodes": Node,
    "deviceclasses": DeviceClass,
    "resourceslices": ResourceSlice,
    "devicetaintrules": DeviceTaintRule,
    "resourceclaims": ResourceClaim,
    "resourceclaimtemplates": ResourceClaimTemplate,
    "pods": Pod,
}
# Without them the portal still works, and says on its pages what it cannot see.
OPTIONAL = frozenset({"nodes", "devicetaintrules"})


def kinds_of(cluster: Cluster) -> tuple[Kind, ...]:
    """
    Return the kinds to mirror, in the order of a first sync; taint rules in the version that the cluster
    serves.
    """
    served = cluster.discovery.get("taint_rules")
    rules = tuple(kind for kind in DEVICE_TAINT_RULE_VERSIONS if kind.version == served)
    return (*MIRRORED, *rules)


def kind_of(cluster: Cluster, plural: str) -> Kind | None:
    """Return the kind, or None where the cluster does not serve it (any more)."""
    return next((kind for kind in kinds_of(cluster) if kind.plural == plural), None)
