"""
When availability is computed: PAUSE after a change of the mirror, and after a change of the catalogue.

`claims.tasks.repair_availability` repairs lost messages. Both are on queue `sync`, which one process serves:
each process that computes keeps a snapshot of the cluster.
"""

import time
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import worker_ready

from claims.catalogue import availability
from claims.catalogue.lint import enabled_clusters
from core.transactions import after_commit
from inventory.models import Cluster
from inventory.tasks import follows_clusters

PAUSE = 5.0  # seconds between the first change of a mirror and the computation, which includes later changes
EXPIRES = 60.0  # seconds after which a message that no worker received is void
# Mirrored kinds on which availability depends.
RELEVANT = frozenset({"ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaim", "Node"})

_due: dict[UUID, float] = {}  # by cluster: when the computation that is queued begins, on the monotonic clock


@shared_task
def refresh_availability(cluster_id: str) -> None:
    """Compute what a cluster has for every profile."""
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).defer("credentials").first()
    if cluster is not None:
        availability.refresh(cluster)


@worker_ready.connect
def refresh_at_start(sender: Any, **_: Any) -> None:
    """Compute at once in a new installation, and what changed while no worker ran."""
    if follows_clusters(sender.app):
        sender.app.send_task("claims.tasks.refresh_waits", expires=EXPIRES)
        for cluster_id in enabled_clusters().values_list("pk", flat=True):
            refresh_availability.apply_async((str(cluster_id),), expires=EXPIRES)


def mirror_has_changed(cluster_id: UUID, kind: str) -> None:
    """Queue a computation, unless this process has queued one that has yet to begin."""
    now = time.monotonic()
    if kind in RELEVANT and now >= _due.get(cluster_id, 0.0):
        refresh_availability.apply_async((str(cluster_id),), countdown=PAUSE, expires=PAUSE + EXPIRES)
        _due[cluster_id] = now + PAUSE


def catalogue_has_changed() -> None:
    """Queue a computation for every cluster after the commit."""
    for cluster_id in enabled_clusters().values_list("pk", flat=True):
        after_commit(refresh_availability, str(cluster_id))
