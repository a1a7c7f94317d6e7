"""One collection of a cluster's telemetry: source → measurements → claims that hold the devices → rollups."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from claims.models import Allocation
from inventory.models import Cluster, Device
from usage import sources as telemetry_sources
from usage.models import Collection
from usage.rollups import DeviceHolding, add_samples
from usage.samples import OpenAllocation, TelemetryUnavailable, attribute, measurements

EVERY = timedelta(seconds=30)
MIN_DISTANCE = EVERY / 2  # two collections closer than this would count one moment twice


def sources() -> list[UUID]:
    """Return the clusters that have telemetry to read."""
    measured = Cluster.objects.filter(enabled=True).exclude(metrics_url="", prometheus_url="")
    return list(measured.values_list("pk", flat=True))


def take_slot(cluster_id: UUID, now: datetime) -> bool:
    """
    Return whether this run may count samples, by compare-and-set on the time of the last run.

    Of a repeated message, a late worker and a second beat, only one gets the slot. A run that dies after this
    loses one of ten samples of a bucket and counts none twice.
    """
    Collection.objects.get_or_create(cluster_id=cluster_id)
    slot = Collection.objects.filter(
        Q(sampled_at=None) | Q(sampled_at__lt=now - MIN_DISTANCE), cluster_id=cluster_id
    )
    return bool(slot.update(sampled_at=now))


def collect(cluster_id: UUID) -> int:
    """
    Read and store the telemetry of one cluster; return the number of held devices that were measured.

    Samples get the current time, however late the message was. The failure of a source is stored for pages
    to show and not raised: the next run tries again.
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
            telemetry_sources.read_prometheus(cluster.prometheus_url)
            if cluster.prometheus_url
            else telemetry_sources.read_exporter(cluster.metrics_url)
        )
    except TelemetryUnavailable as failure:
        Collection.objects.filter(cluster=cluster).update(failed_at=now, error=failure.message)
        return 0
    measured = measurements(series)
    samples = [
        (holding(allocation), measurement)
        for allocation, measurement in attribute(open_allocations(cluster), measured)
    ]
    with transaction.atomic():
        attributed = add_samples(now, samples)
        Collection.objects.filter(cluster=cluster).update(
            succeeded_at=now, devices=len(measured), attributed=attributed, failed_at=None, error=""
        )
    return attributed


def holding(allocation: OpenAllocation) -> DeviceHolding:
    return DeviceHolding(allocation.claim_id, allocation.driver, allocation.pool, allocation.device)


def open_allocations(cluster: Cluster) -> list[OpenAllocation]:
    """Return what claims hold in `cluster` now. Only the mirror knows the physical GPU of a partition."""
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
