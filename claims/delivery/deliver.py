"""
From an approved claim to an object in the cluster, and its deletion.

Nothing is ever overwritten: an object is created where there is none, and deleted only by the uid of an
object that was read and has the id of the claim. After a lost response, a killed worker or a repeated
message, the portal finds its own object and leaves it unchanged.
"""

from django.db.models import F

from claims.delivery import eviction, transitions
from claims.models import Claim, Delivery, TeamNamespace
from claims.observation.drift import notify_eviction
from claims.observation.observations import ENDED, observe
from claims.plans import plan
from claims.quotas import resource_quota_rounds
from claims.states import DELIVERED, REMOVABLE, RUNNING, ClaimState
from cluster.protocol import (
    POD,
    RESOURCE_CLAIM,
    ClusterConflict,
    ClusterInvalid,
    EvictionRefused,
    Gateway,
    Kind,
    Manifest,
    Refused,
    Unreachable,
)
from inventory.clusters import gateway_for
from inventory.models import Pod
from notify.services import resolve


def deliver(claim_id: str) -> None:
    """
    Create the object of an approved claim if it is missing, then record it. Safe to repeat after either step.

    Raises Unreachable after saving its sentence on the claim: try again.
    """
    claim = _read_claim(claim_id)
    if claim is None or claim.state != ClaimState.APPROVED or not _is_writable(claim):
        return
    if not _is_namespace_of_team(claim):
        transitions.return_to_approvers(
            claim,
            f"Namespace {claim.namespace} of {claim.cluster} no longer belongs to {claim.team}. "
            "Request it again.",
        )
        return
    try:
        with gateway_for(claim.cluster) as gateway:
            _ensure_object(claim, gateway)
    except resource_quota_rounds.QuotaNotYetWritten:
        raise  # temporary: nothing to show
    except Unreachable as error:
        note_problem(claim, f"{claim.cluster} cannot be reached: {error} The portal keeps trying.")
        raise
    except Refused as error:  # the credentials themselves: a platform admin must fix them
        note_problem(claim, str(error))


def remove(claim_id: str) -> None:
    """
    Delete the object of a claim that is releasing or over; the claim is released when the cluster reports the
    object as gone.

    Raises Unreachable after saving its sentence on the claim: try again.
    """
    claim = _read_claim(claim_id)
    if claim is None or claim.state not in REMOVABLE or not _is_writable(claim):
        return
    try:
        with gateway_for(claim.cluster) as gateway:
            _ensure_deleted(claim, gateway)
    except Unreachable as error:
        note_problem(claim, f"{claim.cluster} cannot be reached: {error} The portal keeps trying.")
        raise
    except Refused as error:
        note_problem(claim, str(error))


NOT_EVICTED = "Not evicted:"
EVICTED_AT_ONCE = 100  # pods of a claim; the next sweep goes on


def evict(claim_id: str) -> None:
    """
    Evict the pods of an ended claim whose time has come. Safe to repeat: a pod that ends is left alone.

    Raises Unreachable after saving its sentence on the claim: try again.
    """
    claim = _read_claim(claim_id)
    if claim is None or not eviction.is_due(claim) or not _is_writable(claim):
        return
    pods = eviction.holding_pods(observe([claim])[claim.pk])
    try:
        with gateway_for(claim.cluster) as gateway:
            refusals = [_evict_pod(claim, pod, gateway) for pod in pods[:EVICTED_AT_ONCE]]
    except Unreachable as error:
        note_problem(claim, f"{claim.cluster} cannot be reached: {error} The portal keeps trying.")
        raise
    if refusal := next(filter(None, refusals), ""):
        note_problem(claim, f"{NOT_EVICTED} {refusal} The portal keeps trying.")
        eviction.notify_team(
            claim,
            key=f"not-evicted:{claim.pk}",
            title=f"A pod of {claim} cannot be evicted",
            body=f"{refusal} The portal keeps trying; the devices are billed until the pod ends.",
        )
    elif claim.problem.startswith(NOT_EVICTED):
        note_problem(claim, "")
        resolve(f"not-evicted:{claim.pk}")


def _evict_pod(claim: Claim, pod: Pod, gateway: Gateway) -> str:
    """Evict one pod unless it ends already or was replaced; return why the cluster refuses, else ""."""
    try:
        live = gateway.get(POD, pod.name, namespace=claim.namespace)
        if live is None or live["metadata"]["uid"] != pod.uid or "deletionTimestamp" in live["metadata"]:
            return ""
        if (live.get("status") or {}).get("phase") in ENDED:
            return ""
        gateway.evict(pod.name, namespace=claim.namespace, uid=pod.uid)
    except EvictionRefused as refusal:
        return f"A PodDisruptionBudget protects the pod {pod.name}: {refusal.message.rstrip('.')}."
    except ClusterConflict:
        return ""  # replaced at this moment
    except (Refused, ClusterInvalid) as error:
        return error.message
    notify_eviction(claim, pod)
    return ""


def label(claim_id: str) -> None:
    """
    Write the portal's labels on the object with the claim's uid; nothing else of it changes.

    Raises Unreachable: try again. An object with another uid is not changed.
    """
    claim = _read_claim(claim_id)
    if claim is None or claim.state not in DELIVERED or not claim.object_uid or not _is_writable(claim):
        return
    kind = plan.delivery_kind(claim.delivery)
    try:
        with gateway_for(claim.cluster) as gateway:
            written = gateway.get(kind, claim.name, namespace=claim.namespace)
            if written is not None and written["metadata"]["uid"] == claim.object_uid:
                # Server-side apply of metadata only; a recreated object has another uid and is refused.
                gateway.apply(kind, plan.label_patch(claim), force=True)
    except (ClusterConflict, ClusterInvalid):
        return  # replaced at this moment: the next reconciliation reports it
    except Refused as error:
        note_problem(claim, f"{claim.cluster} refused to label it: {error}")


def note_problem(claim: Claim, problem: str) -> None:
    """Save a sentence on a claim that is not over; the same sentence again changes nothing."""
    changed = Claim.objects.live().filter(pk=claim.pk).exclude(problem=problem)
    changed.update(problem=problem, version=F("version") + 1)


def _read_claim(claim_id: str) -> Claim | None:
    related = ("cluster", "team", "requested_by", "profile_version__profile")
    return Claim.objects.select_related(*related).filter(pk=claim_id).first()


def _is_writable(claim: Claim) -> bool:
    """Return whether the portal may write to this cluster now; if not, save the reason on the claim."""
    cluster = claim.cluster
    if cluster.is_writable:
        return True
    note_problem(claim, cluster.halt_reason or f"The portal may not write to {cluster}.")
    return False


def _is_namespace_of_team(claim: Claim) -> bool:
    """
    Return whether the namespace still belongs to the team; it may have been reassigned since the request.
    """
    places = TeamNamespace.objects.filter(team=claim.team_id, cluster=claim.cluster_id)
    return places.filter(namespace=claim.namespace).exists()


def _ensure_object(claim: Claim, gateway: Gateway) -> None:
    kind = plan.delivery_kind(claim.delivery)
    resource_quota_rounds.before_delivery(claim, gateway)
    try:
        manifest = _find_or_create(claim, gateway, kind)
    except Refused as error:
        if error.fixable:
            note_problem(claim, f"{claim.cluster} refused it: {error} The portal keeps trying.")
        elif error.quota and (own_manifest := _own_object(claim, gateway, kind)):
            _record_object(
                claim, gateway, kind, own_manifest
            )  # another worker created it, which filled the quota
        elif error.quota and resource_quota_rounds.may_count_old_limit(claim, gateway, error):
            raise resource_quota_rounds.QuotaNotYetWritten(
                "The cluster still counts by the quota of a moment ago."
            ) from error
        elif error.quota:
            transitions.return_to_approvers(claim, f"{claim.cluster} refused it: {error}")
        else:
            transitions.mark_failed(claim, f"{claim.cluster} refused it: {error}")
    except ClusterConflict:
        return  # created and deleted at this moment: the sweep tries again
    except ClusterInvalid as error:
        transitions.mark_failed(claim, f"{claim.cluster} refused it: {error}")
    else:
        if plan.owner_id(manifest) == str(claim.pk):
            _record_object(claim, gateway, kind, manifest)
        else:
            message = (
                f"{claim.namespace} of {claim.cluster} already has a {kind.kind} named {claim.name} that is "
                "not of this claim. The portal did not change it. Request again under another name."
            )
            transitions.return_to_approvers(claim, message)


def _find_or_create(claim: Claim, gateway: Gateway, kind: Kind) -> Manifest:
    """Return the object of this name, created now if there was none; its label names its owner."""
    written = gateway.get(kind, claim.name, namespace=claim.namespace)
    if written is not None:
        return written
    try:
        return gateway.create(kind, plan.claim_manifest(claim))
    except ClusterConflict:
        written = gateway.get(kind, claim.name, namespace=claim.namespace)
        if written is None:
            raise
        return written


def _own_object(claim: Claim, gateway: Gateway, kind: Kind) -> Manifest | None:
    written = gateway.get(kind, claim.name, namespace=claim.namespace)
    return written if written is not None and plan.owner_id(written) == str(claim.pk) else None


def _record_object(claim: Claim, gateway: Gateway, kind: Kind, manifest: Manifest) -> None:
    """Mark the claim as provisioned, or delete the object if the claim is no longer approved."""
    uid = manifest["metadata"]["uid"]
    if transitions.mark_provisioned(claim, uid=uid):
        return
    claim.refresh_from_db(fields=["state"])
    if claim.state not in RUNNING:
        gateway.delete(kind, claim.name, namespace=claim.namespace, uid=uid)


def _ensure_deleted(claim: Claim, gateway: Gateway) -> None:
    kind = plan.delivery_kind(claim.delivery)
    written = gateway.get(kind, claim.name, namespace=claim.namespace)
    ours = _is_ours(claim, written)
    try:
        if written is not None and ours and "deletionTimestamp" not in written["metadata"]:
            gateway.delete(kind, claim.name, namespace=claim.namespace, uid=written["metadata"]["uid"])
            written = gateway.get(kind, claim.name, namespace=claim.namespace)
            ours = _is_ours(claim, written)
    except ClusterConflict:
        return  # replaced at this moment: the sweep tries again
    except (Refused, ClusterInvalid) as error:
        note_problem(claim, f"{claim.cluster} refused to delete it: {error}")
        return
    if claim.state != ClaimState.RELEASING:
        return
    if ours or _has_generated_claims(claim, gateway):
        note_problem(claim, "")  # the cluster is reachable again
        return
    transitions.mark_released(claim)


def _is_ours(claim: Claim, written: Manifest | None) -> bool:
    """Return whether the object is the claim's: it has the claim's id, or the uid that the portal knows."""
    if written is None:
        return False
    return plan.owner_id(written) == str(claim.pk) or written["metadata"]["uid"] == claim.object_uid


def _has_generated_claims(claim: Claim, gateway: Gateway) -> bool:
    """
    Return whether claims that Kubernetes created from the template still exist; they end with their pods.
    """
    if claim.delivery != Delivery.TEMPLATE:
        return False
    selector = f"{plan.CLAIM_LABEL}={claim.pk}"
    pages = gateway.list(RESOURCE_CLAIM, namespace=claim.namespace, label_selector=selector)
    return any(page.items for page in pages)
