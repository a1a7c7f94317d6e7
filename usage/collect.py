"""One reading of a cluster's telemetry: source → readings → the claims that hold the devices → rollups."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from claims.models import Allocation
from inventory.models import Cluster, Device
from usage import sources as exporter
from usage import sources as prometheus
from usage.models import Collection
from usage.rollups import Measured, add_samples
from usage.samples import OpenAllocation, TelemetryUnavailable, attribute, readings

EVERY = timedelta(seconds=30)
APART = EVERY / 2  # two readings closer than this would count one moment twice


def sources() -> list[UUID]:
    """Return the clusters that have telemetry to read."""
    measured = Cluster.objects.filter(enabled=True).exclude(metrics_url="", prometheus_url="")
    return list(measured.values_list("pk", flat=True))


def take_slot(cluster_id: UUID, now: datetime) -> bool:
    """
    Say whether this run may count samples, by compare-and-set on the last one's time.

    A message that comes twice, a worker that is late, two beats: only one of them finds the slot free. A run
    that dies after this loses one sample of ten in a bucket, and counts none twice.
    """
    Collection.objects.get_or_create(cluster_id=cluster_id)
    slot = Collection.objects.filter(
        Q(sampled_at=None) | Q(sampled_at__lt=now - APART), cluster_id=cluster_id
    )
    return bool(slot.update(sampled_at=now))


def collect(cluster_id: UUID) -> int:
    """
    Read the telemetry of one cluster and count it; return how many claimed devices were measured.

    The samples are of now, however late the message came. A source that fails is written down as a sentence
    for pages to show and is not raised: the next run tries again.
    """
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    now = timezone.now()
    if (
        cluster is None
        or not (cluster.metrics_url or cluster.prometheus_url)
        or not take_slot(cluster_id, now)
    ):
        return 0
    try:
        series = (
            prometheus.read_prometheus(cluster.prometheus_url)
            if cluster.prometheus_url
            else exporter.read_exporter(cluster.metrics_url)
        )
    except TelemetryUnavailable as failure:
        Collection.objects.filter(cluster=cluster).update(failed_at=now, error=failure.message)
        return 0
    found = readings(series)
    held = held_in(cluster)
    counted = [(measured(one), reading) for one, reading in attribute(held, found)]
    with transaction.atomic():
        attributed = add_samples(now, counted)
        Collection.objects.filter(cluster=cluster).update(
            succeeded_at=now, devices=len(found), attributed=attributed, failed_at=None, error=""
        )
    return attributed


def measured(held: OpenAllocation) -> Measured:
    return Measured(held.claim_id, held.driver, held.pool, held.device)


def held_in(cluster: Cluster) -> list[OpenAllocation]:
    """Return what claims hold in `cluster` now. The board of a partition is known to the mirror alone."""
    parents = {
        (driver, pool, name): parent
        for driver, pool, name, parent in Device.objects.filter(cluster=cluster, gone_at=None)
        .exclude(parent_uuid="")
        .exclude(held_by=None)
        .values_list("driver", "pool", "name", "parent_uuid")
    }
    columns = ("claim_id", "claim__namespace", "object_name", "driver", "pool", "device", "uuid", "partition")
    rows = Allocation.objects.filter(claim__cluster=cluster, ended_at=None).values(*columns)
    return [
        OpenAllocation(
            claim_id=row["claim_id"],
            namespace=row["claim__namespace"],
            object_name=row["object_name"],
            driver=row["driver"],
            pool=row["pool"],
            device=row["device"],
            uuid=row["uuid"],
            partition=row["partition"],
            parent_uuid=parents.get((row["driver"], row["pool"], row["device"]), ""),
        )
        for row in rows
    ]
