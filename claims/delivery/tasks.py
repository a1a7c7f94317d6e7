"""
Celery entry points. Each takes ids, reads the rows, and may run any number of times.

`sweep`, which beat starts every 15 seconds, repairs lost messages; the next sweep repairs a lost one. It
handles what changed, what is due, and a slice of the rest (`claims.delivery.changes`).
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import batched
from typing import Any
from uuid import UUID

from celery import Task, shared_task
from django.db.models import Exists, OuterRef, Q, TextField
from django.db.models.functions import Cast

from claims.delivery import changes, eviction, reconcile
from claims.delivery import deliver as delivery
from claims.models import Claim, Delivery
from claims.observation.drift import notify_deleted_pods, notify_disruptions
from claims.observation.observations import owner_labels
from claims.quotas import resource_quota_rounds
from claims.states import DELIVERED, FINAL, ClaimState
from cluster.protocol import Unreachable
from core.inputs import valid_ids
from inventory.models import ResourceClaim, ResourceClaimTemplate

SWEEP_SECONDS = 15.0  # as in portal.celery
RECONCILE_SECONDS = 10.0  # then the remaining changes wait for the next message or sweep
COMPLETED_AT_ONCE = 200  # claims whose devices became known
MAX_RETRIES = 6  # about a minute with back-off; then the sweep takes over


type AnyTask = Task[Any, Any]


def run_with_retries(task: AnyTask, work: Callable[[str], None], claim_id: str, *, patient: bool) -> None:
    """Retry with back-off while the cluster cannot be reached, then leave the rest to the sweep."""
    try:
        work(claim_id)
    except Unreachable as error:
        if patient and task.request.retries < MAX_RETRIES:
            raise task.retry(exc=error, countdown=2**task.request.retries, max_retries=MAX_RETRIES) from error


@shared_task(bind=True)
def deliver(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Create the object of an approved claim."""
    run_with_retries(self, delivery.deliver, claim_id, patient=patient)


@shared_task(bind=True)
def remove(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Delete the object of a claim that is releasing or over."""
    run_with_retries(self, delivery.remove, claim_id, patient=patient)


@shared_task(bind=True)
def evict(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Evict the pods of an ended claim whose time has come."""
    run_with_retries(self, delivery.evict, claim_id, patient=patient)


@shared_task(bind=True)
def label(self: AnyTask, claim_id: str, *, patient: bool = True) -> None:
    """Write the portal's labels on the object of an adopted claim, or restore them."""
    run_with_retries(self, delivery.label, claim_id, patient=patient)


@shared_task
def sweep() -> None:
    """Queue again what a lost message or a dead worker left behind, and reconcile what is left."""
    for claim_id in Claim.objects.filter(state=ClaimState.APPROVED).values_list("pk", flat=True):
        queue_once(deliver, claim_id)
    for claim_id in claims_to_remove():
        queue_once(remove, claim_id)
    errors: list[Exception] = []
    with _collecting(errors):
        for claim_id in eviction.claims_to_evict():
            queue_once(evict, claim_id)
    for cluster_id in changes.ensure_rows():
        with _collecting(errors):
            _reconcile_changes(cluster_id)
    with _collecting(errors), ExitStack() as slices:
        followed, over = changes.due_claims()
        followed |= slices.enter_context(changes.slice_of_claims())
        for model in (ResourceClaim, ResourceClaimTemplate):
            over |= slices.enter_context(changes.slice_of_objects(model))
        _remove_leftovers(over - followed)
        _reconcile(sorted(followed))
    for claim_id in reconcile.claims_with_unknown_devices(COMPLETED_AT_ONCE):
        with _collecting(errors):
            reconcile.reconcile_claim(claim_id)
    _raise(errors)


@shared_task
def reconcile_cluster(cluster_id: str) -> None:
    """Reconcile the claims affected by changes in the mirror of a cluster."""
    changes.ensure_rows()
    _reconcile_changes(UUID(cluster_id))


@shared_task
def reconcile_objects(cluster_id: str, names: list[str]) -> None:
    """Reconcile the claims of these objects, each named "namespace/name", changed or not."""
    _reconcile(valid_ids(owner_labels(UUID(cluster_id), names)))


def _reconcile_changes(cluster_id: UUID) -> None:
    """
    Reconcile the changes of a cluster, for a limited time: after a first listing every claim has changed.

    Claims that fail are due again with the next sweep.
    """
    errors: list[Exception] = []
    deadline = time.monotonic() + RECONCILE_SECONDS
    while time.monotonic() < deadline and (changed := changes.take_changes(cluster_id)):
        with changed.reconciling():
            for batch in batched(sorted(changed.claim_ids), reconcile.BATCH_SIZE):
                with _collecting(errors):
                    _reconcile(batch)
                changed.go_on()
            with _collecting(errors):
                notify_disruptions(cluster_id, changed.disruptions)
                notify_deleted_pods(cluster_id, changed.deleted_pods)
            resource_quota_rounds.write_changed(cluster_id, changed.namespaces)
    _raise(errors)


def _reconcile(claim_ids: Collection[UUID]) -> None:
    """Reconcile these claims with the mirror, and queue what follows."""
    try:
        reconcile.reconcile_claims(claim_ids)
    finally:
        may_need_more = Q(state__in=FINAL) | Q(origin=Claim.Origin.ADOPTED) | Q(replaces__isnull=False)
        if ids := list(Claim.objects.filter(may_need_more, pk__in=claim_ids).values_list("pk", flat=True)):
            release_replaced(ids)
            _remove_leftovers(ids)
            for claim_id in unlabeled_claims(ids):
                queue_once(label, claim_id)


def release_replaced(claim_ids: Collection[UUID]) -> None:
    """Release the predecessors of these claims that hold devices, and queue the deletion of their objects."""
    for claim_id in reconcile.release_predecessors(claim_ids):
        remove.delay(str(claim_id))


@contextmanager
def _collecting(errors: list[Exception]) -> Iterator[None]:
    """Collect the error of one part of the work for the end, so that it does not stop the others."""
    try:
        yield
    except ExceptionGroup as group:
        errors += group.exceptions
    except Exception as error:
        errors.append(error)


def _raise(errors: list[Exception]) -> None:
    if errors:
        raise ExceptionGroup("Claims could not be settled", errors)


def _remove_leftovers(claim_ids: Collection[UUID]) -> None:
    for claim_id in claims_with_leftovers(claim_ids):
        queue_once(remove, claim_id)


def queue_once(task: AnyTask, claim_id: UUID) -> None:
    """Queue a task without retries that expires before the next sweep, so that nothing piles up."""
    task.apply_async((str(claim_id),), {"patient": False}, expires=SWEEP_SECONDS)


def claims_to_remove() -> set[UUID]:
    """
    Return ids of claims that are releasing, without those whose deletion waits only for pods.

    The mirror releases those; asking the cluster about them for days would be useless. Anybody can write a
    label, so only objects in the claim's own namespace are waited for.
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


def unlabeled_claims(claim_ids: Collection[UUID]) -> list[UUID]:
    """Return the ids of adopted claims whose object never got the portal's label."""
    bare = ResourceClaim.objects.filter(gone_at=None, owner="", uid=OuterRef("object_uid"))
    adopted = Claim.objects.filter(pk__in=claim_ids, origin=Claim.Origin.ADOPTED, state__in=DELIVERED)
    return list(adopted.filter(Exists(bare.filter(cluster=OuterRef("cluster")))).values_list("pk", flat=True))


def claims_with_leftovers(claim_ids: Collection[UUID]) -> set[UUID]:
    """
    Return the ids of claims that are over and whose object still exists.

    This happens if a worker creates the object while somebody releases the claim, and dies before it checks
    again.
    """
    over = Claim.objects.filter(state__in=FINAL, pk__in=claim_ids).values_list("pk", flat=True)
    labels = [str(claim_id) for claim_id in over]
    if not labels:
        return set()
    claims = ResourceClaim.objects.filter(changes.HAS_OWNER, changes.OURS, owner__in=labels)
    templates = ResourceClaimTemplate.objects.filter(changes.HAS_OWNER, owner__in=labels)
    return {UUID(owner) for rows in (claims, templates) for owner in rows.values_list("owner", flat=True)}
