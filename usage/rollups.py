"""Writes and prunes rollups: many samples of one moment go in by one statement."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import connection

from usage.models import Rollup
from usage.samples import Measurement

BUCKET = timedelta(minutes=5)
KEPT = timedelta(days=100)  # longer than a quarter, so that its report can still show use beside cost
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

# Means are weighted by the samples they stand for; a sample that lacks a value leaves the mean alone.
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
class Measured:
    """A device as held by a claim: what a row of rollups is about."""

    claim_id: UUID
    driver: str
    pool: str
    device: str


def bucket_start(instant: datetime) -> datetime:
    """Return the start of the five minutes that `instant` lies in."""
    return EPOCH + (instant - EPOCH) // BUCKET * BUCKET


def add_samples(at: datetime, samples: Iterable[tuple[Measured, Measurement]]) -> int:
    """
    Add one sample of each device to its bucket, in one statement; return how many.

    A claim may hold a device through two shares: it is still one device, and its largest values count.
    Rows are written in the order of their key, so that two writers never wait for each other in a circle.
    """
    once: dict[Measured, Measurement] = {}
    for measured, reading in samples:
        known = once.get(measured)
        once[measured] = reading if known is None else known.largest(reading)
    rows = sorted(once.items(), key=lambda row: row[0])
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            UPSERT,
            [
                bucket_start(at),
                [measured.claim_id for measured, _ in rows],
                [measured.driver for measured, _ in rows],
                [measured.pool for measured, _ in rows],
                [measured.device for measured, _ in rows],
                [reading.activity for _, reading in rows],
                [reading.memory_bytes for _, reading in rows],
                [reading.power_watts for _, reading in rows],
            ],
        )
    return len(rows)


def prune(now: datetime) -> int:
    """Drop rollups that are older than `KEPT`; return how many."""
    return Rollup.objects.filter(bucket__lt=now - KEPT).delete()[0]
