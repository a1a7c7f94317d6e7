"""
How many pods share a named claim, how many more can, and what they need.

A ResourceClaim can be reserved for 256 consumers at once (`ResourceClaimReservedForMaxSize` of
resource.k8s.io/v1). All of them run on the node of its devices and see each device in full: memory and time
are not divided.
"""

from dataclasses import dataclass

from claims.models import Claim, Delivery
from claims.observation.observations import Observation, consumer_references
from claims.states import USABLE
from dra.manifests import to_yaml
from inventory.models import ResourceClaim

MAX_CONSUMERS = 256


@dataclass(frozen=True, slots=True)
class SharingSlots:
    """`used` of `limit` slots for pods; `nodes` are those where pods run; `snippet` is YAML to paste."""

    used: int
    nodes: tuple[str, ...]
    snippet: str
    reserved: frozenset[str]  # uids of the pods that hold a slot
    limit: int = MAX_CONSUMERS

    @property
    def free(self) -> int:
        return max(self.limit - self.used, 0)

    @property
    def sentence(self) -> str:
        if not self.free:
            return (
                f"All {self.limit} pod slots are in use, the limit of Kubernetes for one claim. "
                "The next pod waits until one of them ends."
            )
        more = "pod" if self.free == 1 else "pods"
        return f"{self.used} of {self.limit} pod slots in use; {self.free} more {more} can use the claim."


def sharing_slots(claim: Claim, seen: Observation) -> SharingSlots | None:
    """Return the slots of a named claim that is in the cluster; a template makes a claim for each pod."""
    row = seen.written
    if claim.delivery == Delivery.TEMPLATE or claim.state not in USABLE or not seen.there():
        return None
    reserved = consumer_references(row) if isinstance(row, ResourceClaim) else []
    return SharingSlots(
        used=len(reserved),
        nodes=tuple(sorted({pod.node_name for pod in seen.users if pod.node_name})),
        snippet=pod_snippet(claim),
        reserved=frozenset(consumer.get("uid", "") for consumer in reserved),
    )


def pod_snippet(claim: Claim) -> str:
    """Return what another pod of the namespace needs in its `spec`."""
    container = {"name": "main", "resources": {"claims": [{"name": "gpu"}]}}
    return to_yaml(
        {
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": claim.name}],
                "containers": [container],
            }
        }
    )
