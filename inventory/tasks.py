"""
Celery tasks: keep every mirror current, follow events, forget what is long gone.

How long the mirror remembers what is gone.

Celery entry points of the mirror, all on queue `sync`, in a worker with the threads pool.

Any message may be lost or come twice: a second holder is refused the lease, and `sync_all` starts what
nobody follows.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from celery import Celery, shared_task
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.db.models import Exists, OuterRef
from django.utils import timezone
from kombu.exceptions import OperationalError

from core.errors import PortalError
from inventory.clusters import gateway_for
from inventory.events import has_due, read_events
from inventory.models import Cluster, Device, ObjectEvent, ResourceSlice
from inventory.sync.list_watch import take_turn
from inventory.sync.session import MODELS, QUEUED_FOR, Halted, mirrored_kinds, reserve, stopping
from inventory.sync.session import inspect as inspect_cluster

REMEMBER = timedelta(days=90)
SHORTLY = timedelta(
    days=7
)  # pods and claims come and go by the thousand; the portal's own history is elsewhere


def prune_history() -> int:
    """Delete rows that have been gone for so long, and return how many."""
    now = timezone.now()
    old = now - REMEMBER
    count = ObjectEvent.objects.filter(at__lt=old).delete()[0]
    count += Device.objects.filter(gone_at__lt=old).delete()[0]
    for plural, model in MODELS.items():
        limit = now - SHORTLY if plural in ("pods", "resourceclaims", "resourceslices") else old
        rows = model._default_manager.filter(gone_at__lt=limit)
        if model is ResourceSlice:  # the devices of an incomplete pool still stand on the slices of before
            rows = rows.exclude(Exists(Device.objects.filter(slice=OuterRef("pk"))))
        count += rows.delete()[0]
    return count


INSPECT_EVERY = timedelta(minutes=5)
SYNC_EVERY = 20.0  # seconds, as in portal.celery


@shared_task
def sync_all(*, again: bool = False) -> None:
    """
    Start whatever has no holder, and look at clusters that have not been looked at for a while.

    `again` also starts what is queued already, see `reserve`.
    """
    for cluster in Cluster.objects.filter(enabled=True).defer("credentials"):
        checked = cluster.checked_at
        if cluster.halted_because or checked is None or timezone.now() - checked > INSPECT_EVERY:
            inspect.apply_async((str(cluster.pk),), expires=QUEUED_FOR.total_seconds())
        if cluster.halted_because:
            continue
        for kind in mirrored_kinds(cluster):
            if reserve(cluster.pk, kind.plural, again=again):
                queue_turn(cluster.pk, kind.plural, after=timedelta(0))
        if has_due(cluster):
            read_pod_events.apply_async((str(cluster.pk),), expires=SYNC_EVERY)


@shared_task
def watch(cluster_id: str, plural: str) -> None:
    """Follow one resource for one turn, then queue the next."""
    pause = take_turn(UUID(cluster_id), plural)
    if pause is not None:
        queue_turn(UUID(cluster_id), plural, after=pause)


@shared_task
def inspect(cluster_id: str) -> None:
    """Record what the cluster is and what is missing. A failure shows in the freshness of its resources."""
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    if cluster is None:
        return
    with suppress(PortalError, Halted), gateway_for(cluster) as gateway:
        inspect_cluster(cluster, gateway)


@shared_task
def read_pod_events(cluster_id: str) -> None:
    """
    Read what was said of pods that wait. What the cluster refuses is shown by `Cluster.missing`; whatever
    else fails is tried again by the next `sync_all`.
    """
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True, halted_because="").first()
    if cluster is None:
        return
    with suppress(PortalError), gateway_for(cluster) as gateway:
        read_events(cluster, gateway)


@shared_task
def prune() -> None:
    """Forget what went long ago."""
    prune_history()


def queue_turn(cluster_id: UUID, plural: str, *, after: timedelta) -> None:
    pause = after.total_seconds()
    watch.apply_async((str(cluster_id), plural), countdown=pause, expires=pause + QUEUED_FOR.total_seconds())


@worker_ready.connect
def start_at_once(sender: Any, **_: Any) -> None:
    """Follow every cluster from the first second, whatever became of the messages of the last worker."""
    if follows_clusters(sender.app):
        sync_all.apply_async(kwargs={"again": True}, expires=QUEUED_FOR.total_seconds())


@worker_shutting_down.connect
def end_turns(**_: Any) -> None:
    """Let running turns end within a second and give their leases back."""
    stopping.set()


@worker_shutdown.connect
def hand_over(sender: Any, **_: Any) -> None:
    """Tell the other workers that there is something to follow; without this they hear it from beat."""
    if follows_clusters(sender.app):
        with suppress(OperationalError):
            sync_all.apply_async(retry=False, expires=QUEUED_FOR.total_seconds())


def follows_clusters(app: Celery) -> bool:
    return "sync" in app.amqp.queues.consume_from
