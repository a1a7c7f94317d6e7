"""
Celery entry points. Each takes ids, looks at the rows, and may run any number of times.

Lost messages are repaired by `sweep`, which beat starts every 15 seconds; a lost `sweep` by the next one.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from celery import Task, shared_task
from django.db.models import Exists, OuterRef, Q, TextField
from django.db.models.functions import Cast

from claims.delivery import deliver as delivery
from claims.delivery import reconcile
from claims.models import Claim, Delivery
from claims.observation.observations import valid_ids
from claims.quotas import resource_quota_sync
from claims.states import DELIVERED, FINAL, ClaimState
from cluster.errors import Unreachable
from inventory.models import ResourceClaim, ResourceClaimTemplate

SWEEP_SECONDS = 15.0  # as in portal.celery
MAX_RETRIES = 6  # with back-off about a minute; then it is left to the sweep


type AnyTask = Task[Any, Any]


def run_with_retries(task: AnyTask, work: Callable[[str], None], claim_id: str, *, patient: bool) -> None:
    """Try again with back-off while the cluster cannot be reached, and in the end leave it to the sweep."""
    try:
        work(claim_id)
    except Unreachable as error:
        if patient and task.request.retries < MAX_RETRIES:
            raise task.retry(exc=error, countdown=2**task.request.retries, max_retries=MAX_RETRIES) from error


@shared_task(bind=True)
def deliver(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Make the object of an approved claim exist."""
    run_with_retries(self, delivery.deliver, claim_id, patient=patient)


@shared_task(bind=True)
def remove(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Delete the object of a claim that is releasing or over."""
    run_with_retries(self, delivery.remove, claim_id, patient=patient)


@shared_task(bind=True)
def label(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Write the portal's labels on the object of an adopted claim, or put them back."""
    run_with_retries(self, delivery.label, claim_id, patient=patient)


@shared_task
def sweep() -> None:
    """Queue again what a lost message or a dead worker left behind, and believe the mirror anew."""
    for claim_id in Claim.objects.filter(state=ClaimState.APPROVED).values_list("pk", flat=True):
        queue_once(deliver, claim_id)
    for claim_id in {*claims_to_remove(), *claims_with_leftovers()}:
        queue_once(remove, claim_id)
    for claim_id in unlabeled_claims():
        queue_once(label, claim_id)
    try:
        reconcile.reconcile_all()
    finally:
        release_replaced()


def release_replaced() -> None:
    """Delete the objects of claims whose successors hold devices; the sweep repairs what a message lost."""
    for claim_id in reconcile.release_predecessors():
        remove.delay(str(claim_id))


def queue_once(task: AnyTask, claim_id: UUID) -> None:
    """Queue a task that does not retry and is void when the next sweep comes, so that nothing piles up."""
    task.apply_async((str(claim_id),), {"patient": False}, expires=SWEEP_SECONDS)


def claims_to_remove() -> set[UUID]:
    """
    Return ids of claims that are releasing, but not those for whose pods the cluster only waits.

    Those are released by what the mirror sees; to ask the cluster about them for days would be of no use. A
    label can be written by anybody: only objects in the claim's own place are waited for.
    """
    place = {"cluster": OuterRef("cluster"), "namespace": OuterRef("namespace")}
    own = {**place, "owner": OuterRef("label"), "gone_at": None}
    leaving = ResourceClaim.objects.filter(**own, name=OuterRef("name"), deleting_since__isnull=False)
    generated = ResourceClaim.objects.filter(**own, origin=ResourceClaim.Origin.TEMPLATE)
    template = ResourceClaimTemplate.objects.filter(**own, name=OuterRef("name"))
    waited = Q(Exists(leaving), delivery=Delivery.CLAIM) | Q(
        Exists(generated), ~Exists(template), delivery=Delivery.TEMPLATE
    )
    releasing = Claim.objects.filter(state=ClaimState.RELEASING).annotate(label=Cast("pk", TextField()))
    return {*releasing.filter(~waited).values_list("pk", flat=True)}


def unlabeled_claims() -> list[UUID]:
    """Return ids of adopted claims on whose object the portal's label was never written."""
    bare = ResourceClaim.objects.filter(gone_at=None, owner="", uid=OuterRef("object_uid"))
    adopted = Claim.objects.filter(origin=Claim.Origin.ADOPTED, state__in=DELIVERED)
    return list(adopted.filter(Exists(bare.filter(cluster=OuterRef("cluster")))).values_list("pk", flat=True))


def claims_with_leftovers() -> set[UUID]:
    """
    Return ids of claims that are over and whose object is still there.

    It happens when a worker writes the object while somebody releases the claim, and dies before it looks
    again.
    """
    standing = Q(gone_at=None) & ~Q(owner="")
    claims = ResourceClaim.objects.filter(
        standing, deleting_since=None, origin=ResourceClaim.Origin.PORTAL
    ).values_list("owner", flat=True)
    templates = ResourceClaimTemplate.objects.filter(standing).values_list("owner", flat=True)
    over = Claim.objects.filter(state__in=FINAL, pk__in=valid_ids({*claims, *templates}))
    return {*over.values_list("pk", flat=True)}


@shared_task
def reconcile_cluster(cluster_id: str, names: list[str]) -> None:
    """Believe what the mirror of a cluster says about these objects, each named "namespace/name"."""
    reconcile.reconcile_named(cluster_id, names)
    release_replaced()
    resource_quota_sync.write_changed(UUID(cluster_id), names)
