"""Every manifest of a claim, made from its row by `dra`: what is written is what is shown."""

from claims.models import Claim, Delivery
from claims.request.wish import Wish
from cluster.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from cluster.protocol import Manifest
from dra import manifests, workloads
from dra.workloads import Options, Use, requests_of

CLAIM_LABEL = "gpu.dragoman.dev/claim"
TEAM_LABEL = "gpu.dragoman.dev/team"
PROFILE_LABEL = "gpu.dragoman.dev/profile"

MAKERS = {
    Delivery.CLAIM.value: manifests.resource_claim,
    Delivery.TEMPLATE.value: manifests.resource_claim_template,
}


def kind_of(delivery: str) -> Kind:
    return RESOURCE_CLAIM_TEMPLATE if delivery == Delivery.TEMPLATE else RESOURCE_CLAIM


def object_of(claim: Claim) -> Manifest:
    """Return the ResourceClaim or ResourceClaimTemplate that delivers `claim`."""
    return MAKERS[claim.delivery](claim.name, claim.namespace, claim.spec, _labels(claim))


def labels_of(claim: Claim) -> Manifest:
    """Return what is applied to an object that is there already: its identity and the portal's labels."""
    identity = {"name": claim.name, "namespace": claim.namespace, "uid": claim.object_uid}
    return {"metadata": {**identity, "labels": _labels(claim)}}


def _labels(claim: Claim) -> dict[str, str]:
    return {
        CLAIM_LABEL: str(claim.pk),
        TEAM_LABEL: claim.team.slug,
        PROFILE_LABEL: claim.profile_version.profile.slug,
    }


def object_of_wish(wish: Wish) -> Manifest:
    """Return what would be written; the id of the claim is not known yet, so its label is left out."""
    named = {TEAM_LABEL: wish.team.slug, PROFILE_LABEL: wish.profile.slug}
    return MAKERS[wish.delivery](wish.name, wish.namespace, wish.spec, named)


def use_of(claim: Claim, *, maker: str = "") -> Use:
    """Return the claim as workloads use it; `maker` is that of the devices that match."""
    return Use(
        name=claim.name,
        namespace=claim.namespace,
        template=claim.delivery == Delivery.TEMPLATE,
        parallel=claim.parallel,
        requests=requests_of(claim.spec),
        maker=maker,
    )


def pod_of(claim: Claim) -> Manifest:
    """Return a pod that uses the claim and shows what it got."""
    (made,) = workloads.pod(use_of(claim), Options())
    return made


def owner_of(manifest: Manifest) -> str:
    """Return the id of the portal's claim that an object says it belongs to, "" for a foreign one."""
    return str((manifest["metadata"].get("labels") or {}).get(CLAIM_LABEL, ""))
