"""
Celery tasks of the mirror, all on queue `sync`, in a worker with the threads pool.

Any message may be lost or repeated: a second session does not get the lease, and `sync_all` starts resources
without a holder.
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
from inventory.counts import store_counts
from inventory.events import has_due, read_events
from inventory.models import Cluster, Device, ObjectEvent, ResourceSlice
from inventory.sync.list_watch import run_session
from inventory.sync.session import MODELS, QUEUED_FOR, Halted, mirrored_kinds, reserve, stopping, taken
from inventory.sync.session import inspect as inspect_cluster

KEEP = timedelta(days=90)
KEEP_SHORT_LIVED = timedelta(days=7)  # there are thousands of pods and claims; claims have their own history


def prune_history() -> int:
    """Delete rows of objects that were deleted long ago; return the number of rows."""
    now = timezone.now()
    old = now - KEEP
    count = ObjectEvent.objects.filter(at__lt=old).delete()[0]
    count += Device.objects.filter(gone_at__lt=old).delete()[0]
    for plural, model in MODELS.items():
        limit = now - KEEP_SHORT_LIVED if plural in ("pods", "resourceclaims", "resourceslices") else old
        rows = model._default_manager.filter(gone_at__lt=limit)
        if model is ResourceSlice:  # devices of an incomplete pool still refer to old slices
            rows = rows.exclude(Exists(Device.objects.filter(slice=OuterRef("pk"))))
        count += rows.delete()[0]
    return count


INSPECT_EVERY = timedelta(minutes=5)
SYNC_EVERY = 20.0  # seconds, as in portal.celery


@shared_task
def sync_all(*, again: bool = False) -> None:
    """
    Queue a session for each resource without a holder, and inspect clusters from time to time.

    `again` also queues what is queued already (`reserve`).
    """
    for cluster in Cluster.objects.filter(enabled=True).defer("credentials"):
        checked = cluster.checked_at
        if cluster.halt_reason or checked is None or timezone.now() - checked > INSPECT_EVERY:
            inspect.apply_async((str(cluster.pk),), expires=QUEUED_FOR.total_seconds())
        if cluster.halt_reason:
            continue
        busy = taken(cluster.pk, again=again)
        for kind in mirrored_kinds(cluster):
            if kind.plural not in busy and reserve(cluster.pk, kind.plural, again=again):
                queue_session(cluster.pk, kind.plural, after=timedelta(0))
        if has_due(cluster):
            read_pod_events.apply_async((str(cluster.pk),), expires=SYNC_EVERY)


@shared_task
def watch(cluster_id: str, plural: str) -> None:
    """Run one session of a resource, then queue the next."""
    pause = run_session(UUID(cluster_id), plural)
    if pause is not None:
        queue_session(UUID(cluster_id), plural, after=pause)


@shared_task
def inspect(cluster_id: str) -> None:
    """Store what the cluster is and which permissions are missing. The freshness shows a failure."""
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    if cluster is None:
        return
    with suppress(PortalError, Halted), gateway_for(cluster) as gateway:
        inspect_cluster(cluster, gateway)


@shared_task
def read_pod_events(cluster_id: str) -> None:
    """
    Read the Events of pods that wait.

    `Cluster.missing` shows a missing permission; the next `sync_all` repeats any other failure.
    """
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True, halt_reason="").first()
    if cluster is None:
        return
    with suppress(PortalError), gateway_for(cluster) as gateway:
        read_events(cluster, gateway)


@shared_task
def count_fleet() -> None:
    """Count the devices of changed clusters; pages count themselves if the counts are a minute old."""
    store_counts()


@shared_task
def prune() -> None:
    """Delete old rows."""
    prune_history()


def queue_session(cluster_id: UUID, plural: str, *, after: timedelta) -> None:
    pause = after.total_seconds()
    watch.apply_async((str(cluster_id), plural), countdown=pause, expires=pause + QUEUED_FOR.total_seconds())


@worker_ready.connect
def sync_at_start(sender: Any, **_: Any) -> None:
    """Sync all clusters at once, even if the messages of the last worker are lost."""
    if follows_clusters(sender.app):
        sync_all.apply_async(kwargs={"again": True}, expires=QUEUED_FOR.total_seconds())


@worker_shutting_down.connect
def end_sessions(**_: Any) -> None:
    """Let running sessions end within a second and return their leases."""
    stopping.set()


@worker_shutdown.connect
def wake_other_workers(sender: Any, **_: Any) -> None:
    """Queue `sync_all` for the other workers, which otherwise wait for beat."""
    if follows_clusters(sender.app):
        with suppress(OperationalError):
            sync_all.apply_async(retry=False, expires=QUEUED_FOR.total_seconds())


def follows_clusters(app: Celery) -> bool:
    return "sync" in app.amqp.queues.consume_from
