"""
Partitions of the tables of rollups: created ahead, and dropped when their time is over.

Five minutes are partitioned by day, so that the indexes that each collection writes stay in memory, and hours
by month (UTC). A table has a default partition besides, which takes whatever has no partition of its own:
rows of the past that are written late, and new ones if this did not run for days. A partition that is created
later takes its rows from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from usage.models import HourlyRollup, Rollup, StoredDays, StoredHour

log = structlog.get_logger(__name__)

KEEP: Final = timedelta(days=14)  # five minutes; hours show what is older
KEEP_HOURS: Final = timedelta(days=400)  # a year, and the month in which it began
AHEAD: Final = 3  # partitions after the current one

EXISTING = """
SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
WHERE inhparent = %s::regclass ORDER BY child.relname
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A partitioned table. A partition is named after its first day: `usage_rollup_2026_11_26`."""

    model: type[Model]
    monthly: bool
    fillfactor: int

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    def start_of(self, instant: datetime) -> datetime:
        """Return the begin of the partition of an instant."""
        day = instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return day.replace(day=1) if self.monthly else day

    def after(self, start: datetime) -> datetime:
        """Return the begin of the partition after the one that begins at `start`."""
        return self.start_of(start + timedelta(days=32 if self.monthly else 1))

    def partition(self, start: datetime) -> str:
        return f"{self.name}_{start:%Y_%m_%d}"

    def existing(self) -> dict[str, datetime]:
        """Return the begin of each partition by name, without the default one; one query."""
        with connection.cursor() as cursor:
            cursor.execute(EXISTING, [self.name])
            names = [name for (name,) in cursor.fetchall() if name != f"{self.name}_default"]
        return {
            name: datetime.strptime(name.removeprefix(f"{self.name}_"), "%Y_%m_%d").replace(tzinfo=UTC)
            for name in names
        }


FIVE_MINUTES = Table(Rollup, monthly=False, fillfactor=70)
HOURS = Table(HourlyRollup, monthly=True, fillfactor=100)


def maintain(now: datetime) -> None:
    """Create the partitions of the next days and months, and drop those that are too old."""
    for table in (FIVE_MINUTES, HOURS):
        create_ahead(table, now)
    drop_before(FIVE_MINUTES, oldest_needed(now))
    drop_before(HOURS, now - KEEP_HOURS)
    StoredHour.objects.filter(hour__lt=now - KEEP_HOURS).delete()


def oldest_needed(now: datetime) -> datetime:
    """
    Return from when on five minutes are kept: of `KEEP`, and of each day whose utilization or hours are not
    stored yet. Nothing is lost while `usage.daily` or `usage.hourly` does not run.
    """
    stored = StoredDays.objects.values_list("until", flat=True).first()
    first = FIVE_MINUTES.start_of(now - KEEP)
    if stored is None:
        return datetime.min.replace(tzinfo=UTC)
    days = datetime(stored.year, stored.month, stored.day, tzinfo=UTC)
    hours = StoredHour.objects.filter(hour__gte=first - timedelta(hours=1), hour__lt=first)
    return min(first, days) if hours.exists() else min(first - KEEP, days)


def create_ahead(table: Table, now: datetime) -> None:
    """Create the partition of now and the next ones. Of two who do it at once, one does."""
    existing = table.existing()
    for start in starts(table, now):
        if table.partition(start) not in existing:
            try:
                create(table, start)
            except DatabaseError as failure:  # another worker was first, or readers: the next run tries again
                log.warning("partition not created", partition=table.partition(start), why=str(failure))


def starts(table: Table, now: datetime) -> Iterator[datetime]:
    start = table.start_of(now)
    for _ in range(AHEAD + 1):
        yield start
        start = table.after(start)


@transaction.atomic
def create(table: Table, start: datetime) -> None:
    """
    Create one partition with the rows of its time, which waited in the default partition.

    `PARTITION OF` waits for running writers and lets new ones wait, where `ATTACH PARTITION` would fail those
    that have chosen the default partition already. A row that comes before it is an error: the next run.
    """
    name, end = table.partition(start), table.after(start)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE waiting (LIKE {table.name})")
        cursor.execute(
            f"WITH moved AS (DELETE FROM {table.name}_default"  # noqa: S608, names of tables
            " WHERE bucket >= %s AND bucket < %s RETURNING *) INSERT INTO waiting SELECT * FROM moved",
            [start, end],
        )
        cursor.execute(
            f"CREATE TABLE {name} PARTITION OF {table.name} FOR VALUES FROM ('{start.isoformat()}') "
            f"TO ('{end.isoformat()}') WITH (fillfactor = {table.fillfactor})"
        )
        cursor.execute(f"INSERT INTO {name} SELECT * FROM waiting")  # noqa: S608
        cursor.execute("DROP TABLE waiting")


def drop_before(table: Table, instant: datetime) -> int:
    """Drop the partitions that end before an instant, and such rows of the default one; return how many."""
    dropped = 0
    for name, start in table.existing().items():
        if table.after(start) <= instant:
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(f"DROP TABLE {name}")
            except DatabaseError as failure:
                log.warning("partition not dropped", partition=name, why=str(failure))
            else:
                dropped += 1
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table.name}_default WHERE bucket < %s", [table.start_of(instant)])  # noqa: S608
    return dropped
