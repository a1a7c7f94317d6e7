"""
Drift: changes of others to the objects and pods of a claim, found by reconciliation, reported once, with
possible actions.

The uid shows whether it is the object that the portal wrote, the hash whether it requests what was approved.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from claims.models import Claim, Delivery
from claims.notices import notify_of
from claims.observation.observations import Observation, observe, owner_labels
from claims.plans.plan import delivery_kind
from claims.states import DELIVERED, USABLE, ClaimState
from core.inputs import valid_ids
from core.times import utc_moment
from dra.manifests import spec_hash
from inventory.models import Pod, ResourceClaim, ResourceClaimTemplate
from notify.models import NoticeKind
from teams.models import User

DELETED, DELETING, REPLACED, REPLACED_AND_EDITED = "deleted", "deleting", "replaced", "replaced-edited"
EDITED, UNLABELED, GENERATED_DIFFER, OVER_USE = "edited", "unlabeled", "generated-differ", "over-use"

TITLES: Mapping[str, str] = {
    DELETED: "%(claim)s was deleted by somebody else",
    DELETING: "%(claim)s is being deleted by somebody else",
    REPLACED: "%(claim)s was deleted and recreated by somebody else",
    REPLACED_AND_EDITED: "%(claim)s was recreated with another specification",
    EDITED: "%(claim)s differs from what was approved",
    UNLABELED: "%(claim)s lost its Dragoman label",
    GENERATED_DIFFER: "Claims of %(claim)s differ from what was approved",
}


@dataclass(frozen=True, slots=True)
class Drift:
    """
    The drift of a claim. `code` is stable and for programs, `text` has whole sentences.

    `about` identifies the object, so that the same drift is reported once; "" is never reported.
    """

    code: str
    text: str
    about: str = ""

    @property
    def is_notified(self) -> bool:
        """
        Whether people are notified: of changes by others, but not of a team that uses more than it requested.
        """
        return self.code in TITLES and bool(self.about)


def find_drift(claim: Claim, seen: Observation) -> Drift | None:
    """Return the drift of a delivered claim, None without any."""
    if claim.state == ClaimState.FAILED:
        return _drift_of_failed(claim, seen)
    if claim.state not in USABLE or seen.written is None:
        return None
    return _object_drift(claim, seen, seen.written) or _generated_drift(claim, seen)


def notify_drift(claim: Claim, drift: Drift) -> None:
    """Notify the owner of the claim and the platform admins, once for each drift."""
    people = {claim.requested_by, *User.objects.filter(is_superuser=True, is_active=True)}
    notify_of(
        claim,
        people,
        kind=NoticeKind.CHANGE,
        key=f"drift:{claim.pk}:{drift.code}:{drift.about}",
        title=TITLES[drift.code] % {"claim": claim},
        body=drift.text,
        important=True,
    )


# Reasons of the pod condition DisruptionTarget. A pod that somebody deletes has no such condition.
EVICTED = "EvictionByEvictionAPI"
DELETED_BY_SOMEBODY = ""  # Kubernetes gives no reason
DISRUPTIONS: Mapping[str, str] = {
    "DeletionByDeviceTaintManager": "one of its devices has a NoExecute taint, so it is broken or drained.",
    "DeletionByTaintManager": "its node has a NoExecute taint, often because it is not ready.",
    "PreemptionByScheduler": "a pod of higher priority took its place.",
    EVICTED: "somebody evicted it, for example to drain its node.",
    "TerminationByKubelet": "its node ran out of memory or disk, or shuts down.",
    "DeletionByPodGC": "its node does not exist any more.",
}


@dataclass(frozen=True, slots=True)
class Disruption:
    """
    A pod that Kubernetes ends. `names` are "namespace/name" of its claims and templates.

    `reason` and `message` are those of the condition DisruptionTarget.
    """

    pod: str
    uid: str
    namespace: str
    names: frozenset[str]
    reason: str
    message: str = ""


def notify_disruptions(cluster_id: UUID, disruptions: Iterable[Disruption]) -> None:
    """Tell the owners of the claims that the pods use, once per pod."""
    for disruption in disruptions:
        ids = valid_ids(owner_labels(cluster_id, disruption.names))
        here = Claim.objects.filter(cluster=cluster_id, namespace=disruption.namespace, state__in=DELIVERED)
        why = DISRUPTIONS.get(disruption.reason, f"the cluster gives the reason {disruption.reason}.")
        for claim in here.filter(pk__in=ids).select_related("requested_by"):
            _notify_disruption(claim, disruption, why)


def notify_deleted_pods(cluster_id: UUID, deleted: Iterable[Disruption]) -> None:
    """
    Tell the owners of claims whose last pod somebody deleted, with kubectl for example, before their end.

    Not by email for those who want only what is important: it was mostly the owner.
    """
    for pod in deleted:
        ids = valid_ids(owner_labels(cluster_id, pod.names))
        here = Claim.objects.filter(cluster=cluster_id, namespace=pod.namespace, state__in=USABLE)
        due = here.filter(pk__in=ids, expires_at__gt=timezone.now())
        claims = list(due.select_related("requested_by", "cluster", "team"))
        seen = observe(claims) if claims else {}
        for claim in claims:
            if seen[claim.pk].users or claim.expires_at is None:
                continue
            notify_of(
                claim,
                kind=NoticeKind.CHANGE,
                key=f"pod-deleted:{claim.pk}:{pod.uid}",
                title=f"The pod {pod.pod} of {claim} was deleted, and no pod replaces it",
                body=f"The claim ends on {utc_moment(claim.expires_at)} and holds no device without a pod. "
                "Start a pod again, or release the claim.",
            )


def notify_eviction(claim: Claim, pod: Pod) -> None:
    """Tell the owner of an ended claim, and of other claims that the pod uses, that the portal evicted it."""
    names = frozenset(f"{pod.namespace}/{name}" for name in (*pod.claims, *pod.templates))
    disruption = Disruption(pod.name, pod.uid, pod.namespace, names, EVICTED)
    ids = {*valid_ids(owner_labels(claim.cluster_id, names)), claim.pk}
    here = Claim.objects.filter(cluster=claim.cluster_id, namespace=pod.namespace, state__in=DELIVERED)
    for other in here.filter(pk__in=ids).select_related("requested_by"):
        _notify_disruption(other, disruption, f"{claim} has ended, so its pods are evicted.")


def _notify_disruption(claim: Claim, disruption: Disruption, why: str) -> None:
    over = claim.state == ClaimState.RELEASING
    if over and disruption.reason == EVICTED and claim.evict_at is not None:
        why = "the claim has ended, so its pods are evicted."
    if disruption.message:
        why = f"{why} Kubernetes says: “{disruption.message.strip().rstrip('.')[:300]}.”"
    then = "Start it again, unless a Job or Deployment does. The claim stays."
    notify_of(
        claim,
        kind=NoticeKind.PODS,
        key=f"disrupted:{claim.pk}:{disruption.uid}",
        title=f"Kubernetes stopped the pod {disruption.pod} of {claim}",
        body=f"The reason: {why} {'Its devices are free once it has ended.' if over else then}",
        important=True,
    )


def _drift_of_failed(claim: Claim, seen: Observation) -> Drift | None:
    """The claim failed because its object was deleted: the last entry of its history says so."""
    if not claim.object_uid or not seen.given_up():
        return None
    why = claim.history.order_by("-at", "-pk").values_list("reason", flat=True).first() or ""
    return Drift(DELETED, why, claim.object_uid)


def _object_drift(
    claim: Claim, seen: Observation, row: ResourceClaim | ResourceClaimTemplate
) -> Drift | None:
    named: dict[str, Any] = {
        "kind": delivery_kind(claim.delivery).kind, "name": claim.name, "cluster": claim.cluster,
    }  # fmt: skip
    if row.gone_at is not None:
        # It may be recreated within seconds; people are notified when it is certain.
        return Drift(DELETED, _deletion_text(named, seen), row.uid if seen.holders or seen.given_up() else "")
    if "deletionTimestamp" in row.raw.get("metadata", {}):
        text = (
            "Somebody other than the portal is deleting %(kind)s %(name)s; it goes when its pods have ended."
        )
        return Drift(DELETING, text % named, row.uid)
    seen_hash = mirrored_spec_hash(row)
    same, hashes = seen_hash == claim.spec_hash, {"seen": seen_hash[:8], "mine": claim.spec_hash[:8]}
    if claim.object_uid and row.uid != claim.object_uid:
        return _recreation_drift(named | hashes, f"{row.uid}:{seen_hash[:8]}", same=same)
    if not same:
        text = (
            "%(kind)s %(name)s differs from what was approved: its spec is %(seen)s, "
            "approved was %(mine)s. Release this claim and request it again."
        )
        return Drift(EDITED, text % (named | hashes), f"{row.uid}:{seen_hash[:8]}")
    if row.owner != str(claim.pk):
        text = (
            "%(kind)s %(name)s lost its Dragoman label. The portal still finds it by its "
            "UID; policies and reports that use the label do not."
        )
        return Drift(UNLABELED, text % named, f"{row.uid}:{row.owner[:36]}")
    return None


def mirrored_spec_hash(row: ResourceClaim | ResourceClaimTemplate) -> str:
    """Return the hash of the spec of an object, hex SHA-256 of `dra.manifests`."""
    spec = row.raw.get("spec") or {}
    return spec_hash(spec.get("spec") or {} if isinstance(row, ResourceClaimTemplate) else spec)


def _deletion_text(named: Mapping[str, Any], seen: Observation) -> str:
    if seen.holders:
        text = (
            "%(kind)s %(name)s was deleted in %(cluster)s by somebody other than the portal; "
            "its pods keep running."
        )
    else:
        text = (
            "%(kind)s %(name)s was deleted in %(cluster)s by somebody other than the portal. "
            "Unless it is recreated now, this claim ends."
        )
    return text % named


def _recreation_drift(named: Mapping[str, Any], about: str, *, same: bool) -> Drift:
    if same:
        text = (
            "%(kind)s %(name)s was deleted and recreated by somebody other than the portal. It asks for "
            "what was approved, but it is another object. Release this claim and request it again, or have a "
            "platform admin accept the new object."
        )
        return Drift(REPLACED, text % named, about)
    text = (
        "%(kind)s %(name)s was deleted and recreated by somebody other than the portal, and "
        "differs from what was approved: its spec is %(seen)s, approved was %(mine)s. Release this claim "
        "and request it again."
    )
    return Drift(REPLACED_AND_EDITED, text % named, about)


def _generated_drift(claim: Claim, seen: Observation) -> Drift | None:
    """Compare the claims that Kubernetes created from a template."""
    if claim.delivery != Delivery.TEMPLATE:
        return None
    strange = {
        row.name: mirrored_spec_hash(row)[:8]
        for row in seen.holders
        if mirrored_spec_hash(row) != claim.spec_hash
    }
    if others := sorted(strange):
        names = ", ".join(others[:3]) + (" …" if len(others) > 3 else "")
        text = (
            f"1 claim of this template differs from what was approved: {names}. "
            "It was made while another template had its name; it goes with its pod."
            if len(others) == 1
            else f"{len(others)} claims of this template differ from what was approved: {names}. "
            "They were made while another template had its name; they go with their pods."
        )
        # Reported once per spec: pods and their names change all the time.
        about = ",".join(sorted(set(strange.values())))
        return Drift(GENERATED_DIFFER, text, about[:80])
    count = len(seen.holders)
    if count <= claim.parallel:
        return None
    text = f"{count} claims exist at once; requested and charged to the quota: {claim.parallel}."
    return Drift(OVER_USE, text)
