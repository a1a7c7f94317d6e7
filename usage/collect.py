"""One collection of a cluster's telemetry: source → measurements → claims that hold the devices → rollups."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, Sum
from django.db.models.functions import Greatest
from django.utils import timezone

from claims.models import Allocation
from inventory.counts import store_uses
from inventory.models import Cluster, DeviceUtilization, FleetCount
from inventory.states import DeviceUse
from usage.attribution import OpenAllocation, join, open_allocations
from usage.cost import millionths
from usage.counters import advance
from usage.inexact import note_inexact
from usage.models import CollectedBucket, Collection
from usage.samples import EVERY, RollupDevice, add_samples, bucket_start, measurements
from usage.sources import TelemetryUnavailable, read_source
from usage.telemetry import device_uses

MIN_DISTANCE = EVERY / 2  # two collections closer than this would count one moment twice


def sources(*, with_history: bool = False) -> list[UUID]:
    """Return the clusters that have telemetry to read, or only those of which Prometheus keeps it."""
    measured = Cluster.objects.filter(enabled=True).exclude(metrics_url="", prometheus_url="")
    if with_history:
        measured = measured.exclude(prometheus_url="")
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
        series, problem = read_source(cluster)
    except TelemetryUnavailable as failure:
        Collection.objects.filter(cluster=cluster).update(failed_at=now, error=failure.message)
        note_uses(cluster, now)
        return 0
    measured = measurements(series)
    with transaction.atomic():
        advance(cluster.pk, measured, now)
        joined = join(open_allocations(cluster), measured)
        note_inexact(joined)
        samples = [
            (holding(one.allocation), one.measurement) for one in joined if one.measurement is not None
        ]
        attributed = add_samples(now, samples)
        note_bucket(cluster, now, attributed)
        Collection.objects.filter(cluster=cluster).update(
            succeeded_at=now, devices=len(measured), attributed=attributed, failed_at=None, error=problem
        )
    note_uses(cluster, now)
    return attributed


def note_bucket(cluster: Cluster, now: datetime, attributed: int) -> None:
    """Store that the bucket of `now` has measurements; one without is a gap that `usage.catch_up` fills."""
    bucket = CollectedBucket.objects.filter(cluster=cluster, bucket=bucket_start(now))
    if not bucket.update(attributed=Greatest("attributed", attributed)):
        CollectedBucket.objects.create(cluster=cluster, bucket=bucket_start(now), attributed=attributed)


def note_uses(cluster: Cluster, now: datetime) -> None:
    """Store which devices are idle or not measured: after each bucket, and once a cluster is counted."""
    noted = FleetCount.objects.filter(cluster=cluster).values_list("uses", flat=True).first()
    if noted == {} or now - bucket_start(now) < EVERY:
        store_uses(cluster.pk, device_uses(cluster.pk, now=now))
        Collection.objects.filter(cluster=cluster).update(idle=idle_kinds(cluster))


def idle_kinds(cluster: Cluster) -> list[tuple[str, str, str | None, int]]:
    """
    Return the idle devices that claims hold, as driver, product, price basis and millionths of a device; one
    query.
    """
    idle = DeviceUtilization.objects.filter(
        use=DeviceUse.IDLE,
        device__cluster=cluster,
        device__driver=OuterRef("driver"),
        device__pool=OuterRef("pool"),
        device__name=OuterRef("device"),
    )
    held = Allocation.objects.filter(Exists(idle), ended_at=None, claim__cluster=cluster).order_by()
    kind = ("driver", "product", "basis_id")
    sums = held.values_list(*kind).annotate(Sum("fraction")).order_by(*kind)
    return [
        (driver, product, str(basis) if basis else None, millionths(fraction))
        for driver, product, basis, fraction in sums
    ]


def holding(allocation: OpenAllocation) -> RollupDevice:
    return RollupDevice(allocation.claim_id, allocation.driver, allocation.pool, allocation.device)
