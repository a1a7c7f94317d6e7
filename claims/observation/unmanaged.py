"""Objects in the namespaces of teams that no claim of the portal owns. The portal only reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from claims.models import Claim, Delivery, TeamNamespace
from claims.observation.observations import (
    ENDED,
    DeviceHolding,
    consumer_references,
    device_holdings,
    labeled_claim_id,
)
from dra import quota
from inventory.models import Ownership, Pod, ResourceClaim, ResourceClaimTemplate
from inventory.sync.columns import FROM_POD
from teams.models import Team, User

Origin = ResourceClaim.Origin

# An unmanaged object of origin PORTAL has the portal's label with an id that no claim has.
ORIGINS: Mapping[str, str] = {
    Origin.FOREIGN: "created outside the portal",
    Origin.TEMPLATE: "from a template",
    Origin.EXTENDED_RESOURCE: "extended resource",
    Origin.PORTAL: "unknown label",
}


def unmanaged_objects[M: (ResourceClaim, ResourceClaimTemplate)](
    model: type[M], user: User | AnonymousUser
) -> QuerySet[M]:
    """
    Return the objects that no claim of the portal owns, in namespaces of teams that `user` may see.

    Each has its cluster, and the slug of the team as `team`. Anybody can write a label: an object is a
    claim's only in the claim's own cluster and namespace.
    """
    places = _places(Team.objects.visible_to(user))
    claims = Claim.objects.filter(cluster=OuterRef("cluster"), namespace=OuterRef("namespace"))
    # Two conditions: no index would serve one with OR.
    written, named = claims.filter(object_uid=OuterRef("uid")), claims.filter(pk=OuterRef("named"))
    unowned = ~Exists(written) & ~Exists(named)
    return (
        model._default_manager.filter(gone_at=None, ownership__lte=Ownership.UNMANAGED)
        .alias(named=labeled_claim_id())
        .filter(Q(ownership=Ownership.UNMANAGED) | unowned, Exists(places))
        .annotate(team=Subquery(places.values("team__slug")[:1]))
        .select_related("cluster")
        .defer("cluster__credentials")
    )


def unmanaged_use_claims(
    teams: Collection[UUID] | QuerySet[Team] | None = None,
) -> QuerySet[ResourceClaim]:
    """
    Return the ResourceClaims in the namespaces of these teams, or of any, that count as unmanaged use.

    Anybody can write a label: it assigns an object to the portal only in the claim's own namespace, and under
    the claim's own name or, for a template, any name. A claim of the team that had the namespace before
    counts for that team alone.
    """
    claims = Claim.objects.filter(cluster=OuterRef("cluster"), namespace=OuterRef("namespace"))
    same_name = Q(name=OuterRef("name")) | Q(delivery=Delivery.TEMPLATE)
    labeled = claims.filter(same_name, pk=OuterRef("named"))
    adopted = claims.live().filter(object_uid=OuterRef("uid"))
    compared = Q(ownership__gt=Ownership.NOT_COMPARED)
    return (
        ResourceClaim.objects.filter(gone_at=None, ownership__lt=Ownership.MANAGED)
        .alias(named=labeled_claim_id())
        .filter(compared | (~Exists(labeled) & ~Exists(adopted)), Exists(_places(teams)))
    )


def _places(teams: Collection[UUID] | QuerySet[Team] | None) -> QuerySet[TeamNamespace]:
    """Return the namespace of an object, as a row of one of these teams, or of any."""
    places = TeamNamespace.objects.filter(cluster=OuterRef("cluster"), namespace=OuterRef("namespace"))
    return places if teams is None else places.filter(team__in=teams)


def requested_devices(row: ResourceClaim | ResourceClaimTemplate) -> int:
    """Return how many devices one claim can hold at most, by the rules of quota."""
    return quota.devices(mirrored_spec(row))


def mirrored_spec(row: ResourceClaim | ResourceClaimTemplate) -> dict[str, Any]:
    spec: dict[str, Any] = row.raw.get("spec") or {}
    return (spec.get("spec") or {}) if isinstance(row, ResourceClaimTemplate) else spec


@dataclass(frozen=True)
class UnmanagedClaim:
    """A ResourceClaim that no claim of the portal owns, as its page and the API show it."""

    row: ResourceClaim

    @property
    def origin(self) -> str:
        return ORIGINS[self.row.origin]

    @property
    def requested_devices(self) -> int:
        return requested_devices(self.row)

    @cached_property
    def held(self) -> list[DeviceHolding]:
        return device_holdings(self.row)

    @property
    def pods(self) -> int:
        return len(consumer_references(self.row))

    @cached_property
    def users(self) -> list[Pod]:
        """Pods that use the claim or wait for it; one query."""
        named = Pod.objects.filter(
            cluster=self.row.cluster_id, namespace=self.row.namespace, claims__contains=[self.row.name]
        )
        return list(named.filter(gone_at=None).exclude(phase__in=ENDED).order_by("name"))

    @property
    def maker(self) -> str:
        """Return the name of the pod that it was created for, "" for none."""
        owners = self.row.raw.get("metadata", {}).get("ownerReferences") or []
        return next((owner["name"] for owner in owners if owner.get("kind") == "Pod"), "")

    @property
    def resources(self) -> list[str]:
        """Return the extended resources that it serves, as its pod names them."""
        names = set()
        for pod in self.users:
            made = (pod.raw.get("status") or {}).get("extendedResourceClaimStatus") or {}
            if made.get("resourceClaimName") == self.row.name:
                names |= {owner["resourceName"] for owner in made.get("requestMappings") or []}
        return sorted(names)

    @property
    def explanation(self) -> str:
        """Where it came from, and what follows from that."""
        pod = self.maker or "a pod"
        match self.row.origin:
            case Origin.TEMPLATE:
                annotations = self.row.raw.get("metadata", {}).get("annotations") or {}
                return (
                    f"Kubernetes created it for pod {pod} from a ResourceClaimTemplate that is not the "
                    f"portal's (named {annotations.get(FROM_POD, '?')} in the pod). It is deleted with the "
                    "pod."
                )
            case Origin.EXTENDED_RESOURCE:
                return (
                    f"The scheduler created it because pod {pod} requests "
                    f"{', '.join(self.resources) or 'an extended resource'} by number, as with a device "
                    "plugin. It is deleted with the pod, and nobody can change it."
                )
            case Origin.PORTAL:
                return (
                    f"It has a Dragoman label with the id {self.row.owner}, but the portal has no "
                    "claim with this id here. It may come from another portal, from a copied "
                    "manifest, or from before this portal's data was restored."
                )
        return (
            "Created with kubectl or another tool. Its devices count against the quota of the team as "
            "unmanaged use, and it does not expire."
        )

    @property
    def is_adoptable(self) -> bool:
        """
        Whether it can become a claim of the portal: a named claim can, one that ends with its pod cannot.
        """
        return self.row.origin in (Origin.FOREIGN, Origin.PORTAL) and self.row.deleting_since is None
