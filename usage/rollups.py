"""Rollups of five minutes: samples of many devices are written by one statement, and old rows pruned."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import connection

from usage.models import Rollup
from usage.samples import Measurement

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
class DeviceHolding:
    """A device that a claim holds: the subject of a rollup."""

    claim_id: UUID
    driver: str
    pool: str
    device: str


def bucket_start(instant: datetime) -> datetime:
    """Return the start of the bucket of `instant`."""
    return EPOCH + (instant - EPOCH) // BUCKET * BUCKET


def add_samples(at: datetime, samples: Iterable[tuple[DeviceHolding, Measurement]]) -> int:
    """
    Add one sample per device to its bucket in one statement; return the number of devices.

    A claim that holds a device through two shares holds one device: its largest values count. Rows are
    written in the order of their key, so that two writers cannot deadlock.
    """
    by_holding: dict[DeviceHolding, Measurement] = {}
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
