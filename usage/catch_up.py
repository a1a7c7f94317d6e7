"""
Fills gaps of telemetry from the history of Prometheus, after a worker or Prometheus was away.

A bucket in which nothing was measured although claims held devices is read again with `query_range`. Its
sampling is that of live collection: the same queries, at ten instants 30 s apart, each evaluated as an
instant query at that time would be (with the same look-back of five minutes), joined with the allocations
that were open then, and added by the same `usage.samples.add_samples`.

A bucket in which only some of the held devices were measured, as a node was away or a claim was mirrored
late, is read again once, an hour after its end: until then agents write late and the mirror catches up.

Rows that exist stay as they are, so a repeated run changes nothing. What Prometheus does not have stays a
gap. It is asked for again each hour for a day if nothing was measured; devices that have no telemetry at all
cost one more reading of a bucket, not one each hour. An exporter has no history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import httpx
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from claims.models import Allocation
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Cluster, Device
from usage.attribution import COLUMNS, Joined, OpenAllocation, join, with_mirror
from usage.collect import holding
from usage.counters import Reading, follow
from usage.daily import forget_from
from usage.inexact import note_inexact
from usage.models import CollectedBucket, Collection, Rollup
from usage.samples import (
    BUCKET,
    EVERY,
    EXPECTED,
    METRICS,
    Measurement,
    RollupDevice,
    Series,
    SeriesKey,
    add_samples,
    bucket_start,
    measurements,
)
from usage.sources import TelemetrySource, TelemetryUnavailable, ask, opened, queries, query, series

REACH = timedelta(days=1)
AGAIN = timedelta(hours=1)  # until a bucket that lacks measurements is asked for again
MIDDLE = BUCKET / 2  # a device that was held then was held for half of a bucket, or longer
BUCKETS_AT_ONCE = 12
SAMPLES_AT_ONCE = 500_000  # in memory


class HeldSpan(NamedTuple):
    """An allocation and when it was held; `ended_at` is None while it is."""

    allocation: OpenAllocation
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class History:
    """
    The last day of a cluster's telemetry, in buckets of five minutes: those to which measurements were added,
    those without any, and those that have some but lack devices since they were read again.
    """

    filled: int
    missing: int
    partial: int


def catch_up(cluster_id: UUID) -> int:
    """
    Fill some of the buckets of a cluster that lack measurements, the newest first; return the number of added
    rows.

    Nothing happens while the source does not respond to live collection. A source that fails in between ends
    the run, and the next one goes on.
    """
    now = timezone.now()
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).exclude(prometheus_url="").first()
    responds = Collection.objects.filter(cluster_id=cluster_id, failed_at=None, succeeded_at__gt=now - BUCKET)
    if cluster is None or not responds.exists():
        return 0
    missing = held_buckets(cluster, missing_buckets(cluster, now), now=now)
    buckets = sorted({*missing, *partial_buckets(cluster, now)}, reverse=True)[:BUCKETS_AT_ONCE]
    if not buckets:
        return 0
    spans = held_spans(cluster, min(buckets), max(buckets) + BUCKET)
    at_once = max(1, SAMPLES_AT_ONCE // (EXPECTED * len(METRICS) * max(1, len(spans))))
    added = 0
    try:
        source = opened(cluster)
        for part in in_a_row(buckets[:at_once]):
            measured = read_history(source, part[-1], part[0] + BUCKET)
            added += sum(fill(cluster, bucket, spans, measured, now=now) for bucket in part)
    except TelemetryUnavailable:
        pass  # live collection meets the same and says so
    return added


def in_a_row(buckets: Iterable[datetime]) -> list[list[datetime]]:
    """Return the buckets, which are sorted from the newest on, in groups without a gap."""
    groups: list[list[datetime]] = []
    for bucket in buckets:
        if groups and groups[-1][-1] - BUCKET == bucket:
            groups[-1].append(bucket)
        else:
            groups.append([bucket])
    return groups


def missing_buckets(cluster: Cluster, now: datetime) -> list[datetime]:
    """Return the buckets of the last day without a measurement that are due to be asked for, newest first."""
    first = bucket_start(now - REACH) + BUCKET
    end = bucket_start(now) - BUCKET  # the last one may still get a late sample of a live collection
    done = set(
        CollectedBucket.objects.filter(cluster=cluster, bucket__gte=first)
        .filter(Q(attributed__gt=0) | Q(tried_at__gt=now - AGAIN))
        .values_list("bucket", flat=True)
    )
    return [
        bucket
        for number in range((end - first) // BUCKET)
        if (bucket := end - (number + 1) * BUCKET) not in done
    ]


def held_buckets(cluster: Cluster, buckets: list[datetime], *, now: datetime) -> list[datetime]:
    """Return those buckets in which claims held devices; the others count as asked for."""
    if not buckets:
        return []
    times = held_times(cluster, min(buckets), max(buckets) + BUCKET)
    held = [bucket for bucket in buckets if was_held(times, bucket)]
    CollectedBucket.objects.bulk_create(
        (
            CollectedBucket(cluster=cluster, bucket=bucket, tried_at=now)
            for bucket in sorted(set(buckets) - set(held))
        ),
        update_conflicts=True,
        unique_fields=("cluster", "bucket"),
        update_fields=("tried_at",),
    )
    return held


def partial_buckets(cluster: Cluster, now: datetime) -> list[datetime]:
    """
    Return some buckets with measurements, newest first, in which other devices were held without any.

    Each bucket is compared once, an hour after its end, and not while the mirror is stale: claims that it
    does not have yet cannot be compared. One without such devices counts as compared from then on.
    """
    due = CollectedBucket.objects.filter(
        cluster=cluster,
        bucket__gt=bucket_start(now - REACH),
        bucket__lte=now - AGAIN - BUCKET,
        attributed__gt=0,
        tried_at=None,
    )
    buckets = list(due.order_by("-bucket").values_list("bucket", flat=True)[:BUCKETS_AT_ONCE])
    if not buckets or any(age.is_stale for age in ages(OF_DEVICES, cluster=cluster)):
        return []
    partial = [bucket for bucket in buckets if lacks_devices(cluster, bucket)]
    due.filter(bucket__in=set(buckets) - set(partial)).update(tried_at=now)
    return partial


def lacks_devices(cluster: Cluster, bucket: datetime) -> bool:
    """Return whether a device that was held in the middle of a bucket has no measurement in it."""
    key = ("claim", "driver", "pool", "device")
    measured = Rollup.objects.filter(bucket=bucket, **{name: OuterRef(name) for name in key})
    held = Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=bucket + MIDDLE),
        claim__cluster=cluster,
        started_at__lte=bucket + MIDDLE,
    )
    return held.filter(~Exists(measured)).exists()


def held_times(cluster: Cluster, start: datetime, end: datetime) -> list[tuple[datetime, datetime | None]]:
    """Return from when until when allocations of `cluster` lasted that overlap this time."""
    held = Allocation.objects.filter(claim__cluster=cluster, started_at__lt=end).order_by()
    overlapping = held.filter(Q(ended_at=None) | Q(ended_at__gt=start))
    return list(overlapping.values_list("started_at", "ended_at").distinct())


def was_held(times: Sequence[tuple[datetime, datetime | None]], bucket: datetime) -> bool:
    return any(started < bucket + BUCKET and (ended is None or ended > bucket) for started, ended in times)


def held_spans(cluster: Cluster, start: datetime, end: datetime) -> list[HeldSpan]:
    """Return what claims held in `cluster` from `start` to `end`, with the mirror of today."""
    held = Allocation.objects.filter(claim__cluster=cluster, started_at__lt=end)
    rows = list(held.filter(Q(ended_at=None) | Q(ended_at__gt=start)).values(*COLUMNS))
    allocations = with_mirror(cluster, rows, Device.objects.filter(cluster=cluster), gone_pods=True)
    return [
        HeldSpan(allocation, row["started_at"], row["ended_at"])
        for allocation, row in zip(allocations, rows, strict=True)
    ]


def fill(
    cluster: Cluster,
    bucket: datetime,
    spans: Sequence[HeldSpan],
    measured: Mapping[datetime, Mapping[SeriesKey, Measurement]],
    *,
    now: datetime,
) -> int:
    """Add the rows of one bucket that do not exist, and store what it lacks then; return their number."""
    held = [
        span
        for span in spans
        if span.started_at < bucket + BUCKET and (span.ended_at is None or span.ended_at > bucket)
    ]
    with transaction.atomic():
        rows = Rollup.objects.filter(claim__cluster=cluster, bucket=bucket)
        present = set(map(RollupDevice._make, rows.values_list("claim_id", "driver", "pool", "device")))
        added: set[RollupDevice] = set()
        every: list[Joined] = []
        for at in (bucket + number * EVERY for number in range(EXPECTED)):
            open_then = [
                span.allocation
                for span in held
                if span.started_at <= at and (span.ended_at is None or at < span.ended_at)
            ]
            joined = join(open_then, measured.get(at, {}))
            every.extend(joined)
            new = [
                (holding(one.allocation), one.measurement)
                for one in joined
                if one.measurement is not None and holding(one.allocation) not in present
            ]
            add_samples(at, new)
            added.update(device for device, _ in new)
        note_inexact(every)
        middle = bucket + MIDDLE
        held_then = {
            holding(span.allocation)
            for span in held
            if span.started_at <= middle and (span.ended_at is None or middle < span.ended_at)
        }
        CollectedBucket.objects.update_or_create(
            cluster=cluster,
            bucket=bucket,
            defaults={
                "tried_at": now,
                "filled": len(added),
                "attributed": len(added) + len(present),
                "lacking": len(held_then - present - added),
            },
        )
        if added:
            forget_from(bucket, now=now)
    return len(added)


def read_history(
    source: TelemetrySource, start: datetime, end: datetime
) -> dict[datetime, dict[SeriesKey, Measurement]]:
    """
    Return what was measured at each `EVERY` from `start` to before `end`. Raises TelemetryUnavailable.

    One instant more is read, for the energy and errors that were counted up to the first.
    """
    times = {
        "start": str((start - EVERY).timestamp()),
        "end": str((end - EVERY).timestamp()),
        "step": f"{EVERY.total_seconds():g}",
    }
    read: dict[datetime, list[Series]] = defaultdict(list)

    def request(client: httpx.Client) -> None:
        for metric, promql in queries(source).items():
            body = query(client, source, "query_range", query=promql, **times)
            for row in body["data"]["result"]:
                for at, value in row["values"]:
                    moment = datetime.fromtimestamp(float(at), UTC)
                    read[moment].append(series(metric, row["metric"], float(value)))

    ask(source, request)
    measured = {at: measurements(of_instant) for at, of_instant in read.items()}
    earlier: dict[str, Reading] = {}
    for at in sorted(measured):
        readings, _events = follow(earlier, measured[at], at.timestamp())
        earlier |= readings
    return measured


def history(cluster: Cluster, now: datetime) -> History:
    """Return how many buckets of the last day were filled, and how many lack measurements of held devices."""
    first, end = bucket_start(now - REACH) + BUCKET, bucket_start(now) - BUCKET
    rows = CollectedBucket.objects.filter(cluster=cluster, bucket__gte=first, bucket__lt=end)
    measured = set(rows.filter(attributed__gt=0).values_list("bucket", flat=True))
    times = held_times(cluster, first, end)
    missing = sum(
        was_held(times, bucket)
        for number in range((end - first) // BUCKET)
        if (bucket := first + number * BUCKET) not in measured
    )
    partial = rows.filter(attributed__gt=0, lacking__gt=0)
    return History(rows.filter(filled__gt=0).count(), missing, partial.count())


def prune(now: datetime) -> int:
    """Delete what is known of buckets that are not filled any more; return their number."""
    return CollectedBucket.objects.filter(bucket__lt=now - 2 * REACH).delete()[0]
