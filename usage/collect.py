"""
One collection of a cluster's telemetry: source → measurements → claims that hold the devices → rollups.

A source is a dcgm-exporter, in the text format of Prometheus
(https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format), or the HTTP API of
Prometheus.

Prometheus gets one instant query per metric for all claims of a cluster. `max by` drops pod and container, so
that pods that share a device do not count twice; labels that a scrape renames (`exported_pod`, `Hostname`)
are not used. Prometheus leaves out series without a sample in the last five minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, Sum
from django.utils import timezone

from claims.models import Allocation
from inventory.counts import store_uses
from inventory.models import Cluster, Device, DeviceUtilization, FleetCount
from inventory.states import DeviceUse
from usage.cost import millionths
from usage.counters import advance
from usage.models import Collection
from usage.samples import (
    EVERY,
    KNOWN,
    METRICS,
    OpenAllocation,
    RollupDevice,
    Sample,
    TelemetryUnavailable,
    add_samples,
    attribute,
    bucket_start,
    measurements,
)
from usage.telemetry import device_uses

TIMEOUT = httpx.Timeout(10.0, connect=3.0)
MAX_CHARACTERS = 1024 * 1024 * 1024  # 40,000 GPUs have some 300 million

LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
LINE = re.compile(
    r'(\w+)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:,\s*|(?=\})))*)\})?\s+(\S+)(?:\s+-?\d+)?\s*'
)
ESCAPE = re.compile(r"\\(.)")
UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def read_exporter(url: str) -> list[Sample]:
    """Return the samples of `METRICS` at `url`; raise `TelemetryUnavailable` with a sentence."""
    try:
        with httpx.stream("GET", url, timeout=TIMEOUT) as response:
            response.raise_for_status()
            return list(parse_exposition(limited(response.iter_lines())))
    except httpx.HTTPStatusError as failure:
        raise TelemetryUnavailable.bad_status(failure.response.status_code) from failure
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure


def limited(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; raise ValueError for a response that is larger than any exporter's."""
    characters = 0
    for line in lines:
        characters += len(line)
        if characters > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS} characters")
        yield line


def parse_exposition(lines: Iterable[str]) -> Iterator[Sample]:
    """
    Yield the samples of `METRICS`; raise ValueError for a malformed line of these.

    An exporter has some thirty metrics per device; other metrics are skipped. The regular expressions are ten
    times as fast as prometheus_client.parser; a test compares both. All series of a device have the same
    labels: they are read once, and the samples share them.
    """
    known: dict[str, dict[str, str]] = {}
    for line in lines:
        start = line.find("{")
        name = line[:start] if start > 0 else line.partition(" ")[0]
        if name not in KNOWN:
            continue
        end = line.rfind("}") + 1
        labels = known.get(line[start:end])
        if labels is not None:
            try:
                yield Sample(name, labels, float(line[end:]))
                continue
            except ValueError:
                pass  # a time follows the value, or it is malformed
        text = line[start + 1 : end - 1] if start > 0 and end else ""
        pairs = LABEL.findall(text)
        value = line[end:] if end else line[len(name) :]
        if ",".join(f'{key}="{of_label}"' for key, of_label in pairs) != text or " " in value.strip():
            match = LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"line “{line[:60]}”")
            value = match[3]
        labels = dict(pairs)
        if "\\" in text:
            labels = {key: unescaped(of_label) for key, of_label in labels.items()}
        known[line[start:end]] = labels
        yield Sample(name, labels, float(value))


def unescaped(text: str) -> str:
    """Return the value of a label without its escapes."""
    return ESCAPE.sub(lambda escape: UNESCAPED.get(escape[1], escape[0]), text)


LABELS = (
    "dra_claim_namespace",
    "dra_claim_name",
    "dra_driver_name",
    "dra_pool_name",
    "dra_device_name",
    "dra_mig_device_uuid",
    "UUID",
    "GPU_I_ID",
    "GPU_I_PROFILE",
)


def query_for(metric: str) -> str:
    """Return the PromQL of a metric: per claim, device and partition; per physical GPU without DRA labels."""
    return f"max by ({', '.join(LABELS)}) ({metric})"


def read_prometheus(url: str) -> list[Sample]:
    """Return the samples of `METRICS`; raise `TelemetryUnavailable` with a sentence."""
    series: list[Sample] = []
    try:
        with httpx.Client(timeout=TIMEOUT) as client:
            for metric in METRICS:
                response = client.post(f"{url.rstrip('/')}/api/v1/query", data={"query": query_for(metric)})
                series += parse_response(metric, response_body(response))
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure
    return series


def read_source(cluster: Cluster) -> list[Sample]:
    """Return the samples of a cluster's source; raise `TelemetryUnavailable` with a sentence."""
    if cluster.prometheus_url:
        return read_prometheus(cluster.prometheus_url)
    return read_exporter(cluster.metrics_url)


def response_body(response: httpx.Response) -> dict[str, Any]:
    """Return the decoded body. Prometheus explains a rejected query in the body of a 400 or 422."""
    if response.status_code in (400, 422):
        raise TelemetryUnavailable.refused(str(response.json().get("error", "")))
    if response.status_code != httpx.codes.OK:
        raise TelemetryUnavailable.bad_status(response.status_code)
    body: dict[str, Any] = response.json()
    return body


def parse_response(metric: str, body: dict[str, Any]) -> Iterator[Sample]:
    """Yield the samples of an instant query: `data.result[]` with `metric` and `value: [time, "text"]`."""
    for row in body["data"]["result"]:
        yield Sample(metric, row["metric"], float(row["value"][1]))


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
        series = read_source(cluster)
    except TelemetryUnavailable as failure:
        Collection.objects.filter(cluster=cluster).update(failed_at=now, error=failure.message)
        note_uses(cluster, now)
        return 0
    measured = measurements(series)
    with transaction.atomic():
        advance(cluster.pk, measured, now)
        samples = [
            (holding(allocation), measurement)
            for allocation, measurement in attribute(open_allocations(cluster), measured)
        ]
        attributed = add_samples(now, samples)
        Collection.objects.filter(cluster=cluster).update(
            succeeded_at=now, devices=len(measured), attributed=attributed, failed_at=None, error=""
        )
    note_uses(cluster, now)
    return attributed


def note_uses(cluster: Cluster, now: datetime) -> None:
    """Store which devices are idle or not measured: after each bucket, and once a cluster is counted."""
    noted = FleetCount.objects.filter(cluster=cluster).values_list("uses", flat=True).first()
    if noted == {} or now - bucket_start(now) < EVERY:
        store_uses(cluster.pk, device_uses(cluster.pk, now=now))
        Collection.objects.filter(cluster=cluster).update(idle=idle_kinds(cluster))


def idle_kinds(cluster: Cluster) -> list[tuple[str, str, int]]:
    """Return the idle devices that claims hold, as driver, product and millionths of a device; one query."""
    idle = DeviceUtilization.objects.filter(
        use=DeviceUse.IDLE,
        device__cluster=cluster,
        device__driver=OuterRef("driver"),
        device__pool=OuterRef("pool"),
        device__name=OuterRef("device"),
    )
    held = Allocation.objects.filter(Exists(idle), ended_at=None, claim__cluster=cluster).order_by()
    kinds = held.values_list("driver", "product").annotate(Sum("fraction")).order_by("driver", "product")
    return [(driver, product, millionths(fraction)) for driver, product, fraction in kinds]


def holding(allocation: OpenAllocation) -> RollupDevice:
    return RollupDevice(allocation.claim_id, allocation.driver, allocation.pool, allocation.device)


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
