"""Every manifest of a claim, made by `dra.manifests` from its row: what is written is what is shown."""

from claims.models import Claim, Delivery
from claims.wish import Wish
from cluster.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from cluster.protocol import Manifest
from dra import manifests

CLAIM_LABEL = "gpu.dragoman.dev/claim"
TEAM_LABEL = "gpu.dragoman.dev/team"
PROFILE_LABEL = "gpu.dragoman.dev/profile"
# Small, public, with a shell and sleep; the driver mounts what a container needs to see its devices.
IMAGE = "docker.io/library/ubuntu:24.04"
COMMAND = ("sh", "-c", "nvidia-smi -L || ls -l /dev; sleep 600")

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


def pod_of(claim: Claim) -> Manifest:
    """Return a pod that uses the claim and shows what it got."""
    template = claim.delivery == Delivery.TEMPLATE
    return manifests.pod(
        f"{claim.name[:59]}-pod",
        claim.namespace,
        claim="" if template else claim.name,
        template=claim.name if template else "",
        image=IMAGE,
        command=COMMAND,
    )


def job_of(claim: Claim) -> Manifest:
    """Return a Job with as many pods at once as the claim allows; pods of a named claim share its devices."""
    template = claim.delivery == Delivery.TEMPLATE
    return manifests.job(
        f"{claim.name[:59]}-job",
        claim.namespace,
        claim="" if template else claim.name,
        template=claim.name if template else "",
        image=IMAGE,
        command=COMMAND,
        parallelism=claim.parallel if template else 1,
    )


def owner_of(manifest: Manifest) -> str:
    """Return the id of the portal's claim that an object says it belongs to, "" for a foreign one."""
    return str((manifest["metadata"].get("labels") or {}).get(CLAIM_LABEL, ""))
