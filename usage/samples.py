"""
From samples of an exporter to measurements of devices, and to the rollups of claims.

Both sources, a dcgm-exporter and Prometheus, return `Sample`s, which are treated alike. Rollups of five
minutes are written for many devices by one statement; old ones are pruned.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from usage.models import Rollup

MIB = 1024 * 1024

ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # ratio of 0 to 1
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"  # per cent, of the physical GPU, not of a partition
MEMORY = "DCGM_FI_DEV_FB_USED"  # MiB
POWER = "DCGM_FI_DEV_POWER_USAGE"  # W
METRICS = (ACTIVITY, UTILIZATION, MEMORY, POWER)

# DCGM's words for "no value" (dcgm_structs.h: DCGM_INT32_BLANK, DCGM_INT64_BLANK, DCGM_FP64_BLANK and on).
INT32_BLANK, INT32_LAST = 2147483632, 2147483647
FP64_BLANK = 140737488355328.0  # DCGM_INT64_BLANK, 9223372036854775792, lies above it


class Sample(NamedTuple):
    """One value of one metric with its labels, as read."""

    metric: str
    labels: Mapping[str, str]
    value: float


class SeriesKey(NamedTuple):
    """The subject of a series: a device by DRA labels, a physical GPU or partition by DCGM labels."""

    namespace: str = ""
    claim: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    uuid: str = ""
    instance: str = ""  # GPU_I_ID, empty for a physical GPU
    profile: str = ""  # GPU_I_PROFILE
    pod_namespace: str = ""  # these three of AMD's exporter only
    pod: str = ""
    board: str = ""  # node, GPU and partition


@dataclass(slots=True)
class Measurement:
    """Values of one device at one time. None is not measured."""

    activity: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None

    def largest(self, other: Measurement) -> Measurement:
        return Measurement(
            largest(self.activity, other.activity),
            largest(self.memory_bytes, other.memory_bytes),
            largest(self.power_watts, other.power_watts),
        )


def largest[N: (int, float)](*values: N | None) -> N | None:
    return max((value for value in values if value is not None), default=None)


def is_blank(value: float) -> bool:
    return not math.isfinite(value) or value < 0 or value >= FP64_BLANK or INT32_BLANK <= value <= INT32_LAST


def series_key(labels: Mapping[str, str]) -> SeriesKey:
    return SeriesKey(
        namespace=labels.get("dra_claim_namespace", ""),
        claim=labels.get("dra_claim_name", ""),
        driver=labels.get("dra_driver_name", ""),
        pool=labels.get("dra_pool_name", ""),
        device=labels.get("dra_device_name", ""),
        uuid=labels.get("dra_mig_device_uuid") or labels.get("UUID", ""),
        instance=labels.get("GPU_I_ID", ""),
        profile=labels.get("GPU_I_PROFILE", ""),
        pod_namespace=labels.get("amd_namespace", ""),
        pod=labels.get("amd_pod", ""),
        board=labels.get("amd_board", ""),
    )


def measurements(samples: Iterable[Sample]) -> dict[SeriesKey, Measurement]:
    """
    Gather the metrics of each device.

    With several pods on one device, each has a series with the value of the whole device: the largest counts,
    a sum would count twice. Without engine activity, GPU_UTIL replaces it, but only for a physical GPU.
    """
    values: dict[tuple[SeriesKey, str], float] = {}
    for sample in samples:
        if sample.metric not in METRICS or is_blank(sample.value):
            continue
        metric_key = series_key(sample.labels), sample.metric
        values[metric_key] = max(values.get(metric_key, 0.0), sample.value)
    by_key: dict[SeriesKey, Measurement] = defaultdict(Measurement)
    for (key, metric), value in values.items():
        measurement = by_key[key]
        if metric == ACTIVITY:
            measurement.activity = min(value, 1.0)
        elif metric == MEMORY:
            measurement.memory_bytes = round(value * MIB)
        elif metric == POWER:
            measurement.power_watts = value
        elif not key.instance and (key, ACTIVITY) not in values:
            measurement.activity = min(value / 100, 1.0)
    return dict(by_key)


BUCKET = timedelta(minutes=5)
KEEP = timedelta(days=100)  # longer than a quarter, so that its report can still show utilization
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

# Means are weighted by their samples; a sample without a value leaves the mean unchanged.
UPSERT = """
INSERT INTO usage_rollup AS old
  (claim_id, driver, pool, device, bucket, samples, activity, memory_bytes, power_watts)
SELECT claim, driver, pool, device, %s, 1, activity, memory, power
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::bigint[], %s::float8[])
  AS new (claim, driver, pool, device, activity, memory, power)
ON CONFLICT ON CONSTRAINT rollup_once DO UPDATE SET
  samples = old.samples + 1,
  activity = COALESCE((old.activity * old.samples + EXCLUDED.activity) / (old.samples + 1),
                      old.activity, EXCLUDED.activity),
  memory_bytes = GREATEST(old.memory_bytes, EXCLUDED.memory_bytes),
  power_watts = COALESCE((old.power_watts * old.samples + EXCLUDED.power_watts) / (old.samples + 1),
                         old.power_watts, EXCLUDED.power_watts)
"""


@dataclass(frozen=True, slots=True, order=True)
class RollupDevice:
    """A device that a claim holds: the subject of a rollup."""

    claim_id: UUID
    driver: str
    pool: str
    device: str


def bucket_start(instant: datetime) -> datetime:
    """Return the start of the bucket of `instant`."""
    return EPOCH + (instant - EPOCH) // BUCKET * BUCKET


def add_samples(at: datetime, samples: Iterable[tuple[RollupDevice, Measurement]]) -> int:
    """
    Add one sample per device to its bucket in one statement; return the number of devices.

    A claim that holds a device through two shares holds one device: its largest values count. Rows are
    written in the order of their key, so that two writers cannot deadlock.
    """
    by_holding: dict[RollupDevice, Measurement] = {}
    for holding, measurement in samples:
        earlier = by_holding.get(holding)
        by_holding[holding] = measurement if earlier is None else earlier.largest(measurement)
    rows = sorted(by_holding.items(), key=lambda row: row[0])
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            UPSERT,
            [
                bucket_start(at),
                [holding.claim_id for holding, _ in rows],
                [holding.driver for holding, _ in rows],
                [holding.pool for holding, _ in rows],
                [holding.device for holding, _ in rows],
                [measurement.activity for _, measurement in rows],
                [measurement.memory_bytes for _, measurement in rows],
                [measurement.power_watts for _, measurement in rows],
            ],
        )
    return len(rows)


def prune(now: datetime) -> int:
    """Delete rollups older than `KEEP`; return their number."""
    return Rollup.objects.filter(bucket__lt=now - KEEP).delete()[0]
