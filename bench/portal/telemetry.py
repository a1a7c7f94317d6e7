"""
Telemetry: one collection of all devices, the hour made of it, and a year of hours.

The exporter's text is that of a dcgm-exporter with every metric that the portal reads, from memory: what the
network takes is another matter. A year is measured on a slice of devices, since 40,000 have 350 million
hours: the size is that of a row times all of them, and a claim is read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from django.db import connection, transaction
from django.utils import timezone

from bench.measure import Result
from bench.portal.build import NAME
from bench.portal.pages import portal_process, sampled
from bench.portal.rows import execute
from claims.models import Allocation, Claim
from inventory.models import Cluster, Device
from usage import collect, hourly, partitions
from usage.charts import chart_data
from usage.claim_use import devices_of
from usage.models import Collection, HourlyRollup, Rollup, StoredHour
from usage.reports import claim_allocations
from usage.samples import METRICS, hour_start
from usage.series import Range, claim_series
from usage.sources import SourceReading, parse_exposition

CYCLE = 5_000.0  # ms for 40,000 GPUs
SAMPLES = 5
YEAR = timedelta(days=365)
HOURS = YEAR // timedelta(hours=1)
SLICE = 50  # devices of the year that is measured
PAGE = 50.0  # ms
GIB = 2**30

LABELS = (
    'gpu="{number}",UUID="{uuid}",pci_bus_id="00000000:3A:00.0",device="nvidia{number}",'
    'modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",pod="{pod}",namespace="{namespace}",'
    'container="main",dra_claim_name="{claim}",dra_claim_namespace="{namespace}",'
    'dra_driver_name="{driver}",dra_pool_name="{pool}",dra_device_name="{device}"'
)
OTHERS = 12  # metrics of an exporter that the portal does not read

FILL_YEAR = """
INSERT INTO usage_hourlyrollup
  (claim_id, driver, pool, device, bucket, samples, activity, activity_min, activity_max, activity_p95,
   sm_activity, tensor_activity, memory_activity, memory_bytes, memory_p95, memory_total, power_watts,
   energy_joules, temperature, pcie_bytes, nvlink_bytes, ecc_corrected, ecc_uncorrected)
SELECT (%(claims)s)[1 + number], 'gpu.nvidia.com', 'node-' || number / 8, 'gpu-' || number %% 8, at, 120,
  0.6, 0.1, 0.9, 0.8, 0.5, 0.3, 0.2, 40000000000, 39000000000, 85899345920, 400, 1440000, 61, 1e9, 2e9, 0, 0
FROM generate_series(%(start)s::timestamptz, %(end)s::timestamptz - interval '1 hour', interval '1 hour') at,
  generate_series(0, %(devices)s - 1) number
"""

COPY_BUCKET = """
INSERT INTO usage_rollup (bucket, {columns})
SELECT at, {columns} FROM usage_rollup,
  generate_series(%s::timestamptz, %s::timestamptz + interval '59 minutes', interval '5 minutes') at
WHERE bucket = %s AND at >= %s
ON CONFLICT DO NOTHING
"""
SIZE = "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = %s::regclass"


def results(devices: int) -> Iterator[Result]:
    """Yield the lines; the data of the year are taken back."""
    with portal_process(is_worker=True):
        execute("SET statement_timeout = 0")  # that of the portal is too short for what prepares the data
        yield _collection(devices)
        yield _hour(devices)
        yield from _year(devices)
        execute("RESET statement_timeout")


def _exposition() -> list[str]:
    """Return the text of an exporter that sees all devices of the cluster."""
    held = {
        (driver, pool, device): (namespace, claim)
        for driver, pool, device, namespace, claim in Allocation.objects.filter(ended_at=None).values_list(
            "driver", "pool", "device", "claim__namespace", "object_name"
        )
    }
    labels = []
    for number, (driver, pool, device, uuid, node) in enumerate(
        Device.objects.filter(gone_at=None).values_list("driver", "pool", "name", "uuid", "node_name")
    ):
        namespace, claim = held.get((driver, pool, device), ("", ""))
        labels.append(
            LABELS.format(
                **{"number": number % 8, "uuid": uuid, "node": node, "pod": claim, "namespace": namespace},
                **{"claim": claim, "driver": driver, "pool": pool, "device": device},
            )
        )
    metrics = [*METRICS, *(f"DCGM_FI_OTHER_{number}" for number in range(OTHERS))]
    return [
        f"{metric}{{{text}}} {number % 7 / 10}" for number, metric in enumerate(metrics) for text in labels
    ]


def _collection(devices: int) -> Result:
    """Measure what a worker does each half minute: text, measurements, counters, rollups."""
    cluster = Cluster.objects.get(name=NAME)
    Cluster.objects.filter(pk=cluster.pk).update(metrics_url="http://127.0.0.1:1/metrics")
    lines = _exposition()
    clock = iter(range(10_000))
    began = hour_start(timezone.now()) - timedelta(hours=3)

    def once() -> None:
        now = began + next(clock) * timedelta(seconds=30)
        with mock.patch.object(timezone, "now", return_value=now):
            collect.collect(cluster.pk)

    with mock.patch.object(
        collect, "read_source", side_effect=lambda _cluster: SourceReading(parse_exposition(lines).series)
    ):
        once()  # the first one inserts the rows, and stores which devices are idle
        walls, processor = sampled(once, SAMPLES)
    held = Collection.objects.get(cluster=cluster).attributed
    path = "telemetry: one collection"
    note = f"{path}: {len(lines):,} lines of text, {held:,} held devices."
    return Result(path, devices, "worker", walls, budget=CYCLE, processor=processor, rows=held, notes=[note])


def _hour(devices: int) -> Result:
    """Measure an hour of all held devices, which is stored when it ends and once more a day later."""
    first = Rollup.objects.order_by("bucket").values_list("bucket", flat=True)[0]
    names = ", ".join(str(field.column) for field in Rollup._meta.concrete_fields if field.name != "bucket")
    hour = hour_start(first)
    execute(COPY_BUCKET.format(columns=names), [hour, hour, first, hour])
    Rollup.objects.update(samples=10, activities=[0.1, 0.5, 0.3, 0.2, 0.8, 0.9, 0.4, 0.6, 0.7, 0.5])
    execute("ANALYZE usage_rollup")
    walls, processor = sampled(lambda: hourly.store_hour(hour, is_final=False), SAMPLES)
    rows = HourlyRollup.objects.filter(bucket=hour).count()
    path = "telemetry: an hour stored"
    return Result(path, devices, "worker", walls, budget=CYCLE, processor=processor, rows=rows)


def _year(devices: int) -> Iterator[Result]:
    """Measure the size of a year, and what the page of a claim reads of it."""
    end = hour_start(timezone.now()) - timedelta(days=1)
    claims = list(Claim.objects.filter(allocations__ended_at=None).distinct().order_by("pk")[:SLICE])
    with transaction.atomic():
        execute("SET LOCAL statement_timeout = 0")
        _create_months(end)
        before = _size()
        keys = [claim.pk for claim in claims]
        parameters: dict[str, Any] = {"claims": keys, "start": end - YEAR, "end": end, "devices": len(claims)}
        with connection.cursor() as cursor:
            cursor.execute(FILL_YEAR, parameters)
        StoredHour.objects.create(hour=end, is_final=True)
        of_row = (_size() - before) / (len(claims) * HOURS)
        execute("ANALYZE usage_hourlyrollup")
        path = "telemetry: a year of hours, size"
        note = f"{path}: {of_row:.0f} bytes per row with its index, from {len(claims)} devices."
        total = of_row * devices * HOURS / GIB
        yield Result(path, devices, "database", [total], "GiB", rows=devices * HOURS, notes=[note])
        claim = claims[-1]
        claim.allocations.update(started_at=end - YEAR)
        yield _life(devices, claim)
        transaction.set_rollback(True)


def _life(devices: int, claim: Claim) -> Result:
    allocations = claim_allocations(claim)
    now = timezone.now()

    def read() -> None:
        series = claim_series(claim, Range.LIFE, allocations=allocations, now=now)
        chart_data(series, allocations)
        devices_of(claim, allocations)

    walls, processor = sampled(read, 4 * SAMPLES)
    path = "telemetry: a year of a claim read"
    return Result(path, devices, "web", walls, budget=PAGE, processor=processor, rows=HOURS)


def _create_months(end: datetime) -> None:
    month = partitions.HOURS.start_of(end - YEAR)
    while month < end:
        if partitions.HOURS.partition(month) not in partitions.HOURS.existing():
            partitions.create(partitions.HOURS, month)
        month = partitions.HOURS.after(month)


def _size() -> int:
    """Return the bytes of all hours with their indexes."""
    with connection.cursor() as cursor:
        cursor.execute(SIZE, [HourlyRollup._meta.db_table])
        return int(cursor.fetchone()[0])
