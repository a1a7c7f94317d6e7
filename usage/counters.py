"""
What the exporters of a cluster count: energy and errors since the reading before, and XID and ECC events.

A counter of the driver begins at 0 when the driver is loaded or the node starts: a value below the last one
is what was counted since then. Nothing is said of a first reading, nor of a time in which nobody read: what
was counted in it belongs to no five minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from dra.pools import DeviceKey
from inventory.models import Device, HardwareEvent
from usage.models import CounterReading
from usage.samples import (
    BUCKET,
    COUNTERS,
    ECC_CORRECTED,
    ECC_UNCORRECTED,
    ENERGY,
    REMAP_FAILED,
    ROWS_REMAPPED,
    XID,
    Measurement,
    SeriesKey,
)

FORGET = timedelta(days=7)  # a GPU that was not read for so long
MILLIJOULES = 1000
Kind = HardwareEvent.Kind
EVENTS = {ECC_UNCORRECTED: Kind.ECC, ROWS_REMAPPED: Kind.REMAPPED, REMAP_FAILED: Kind.REMAP_FAILED}


class Reading(NamedTuple):
    """Counters of one GPU at an instant (Unix seconds), in the order of `COUNTERS`; None is not counted."""

    at: float
    values: list[float | None]


class Counted(NamedTuple):
    """An event of the device of a series."""

    key: SeriesKey
    kind: HardwareEvent.Kind
    code: int  # of an XID, else how many


def identity(key: SeriesKey) -> str:
    """Return the key of a GPU or partition, which it keeps when a claim or a pod gets it."""
    if key.board:
        return key.board
    return f"{key.uuid}/{key.instance}" if key.uuid else f"{key.driver}/{key.pool}/{key.device}"


def difference(earlier: float | None, value: float | None) -> float | None:
    """Return what was counted since then; a counter that began again has counted its value."""
    if earlier is None or value is None:
        return None
    return value - earlier if value >= earlier else value


def advance(cluster_id: UUID, measured: Mapping[SeriesKey, Measurement], now: datetime) -> None:
    """
    Complete measurements with the energy and errors since the last reading; store the new reading and what
    happened to devices. Two queries, in the transaction of the caller, which is alone (`collect.take_slot`).
    """
    stored = CounterReading.objects.filter(cluster=cluster_id).values_list("readings", flat=True).first()
    earlier = {gpu: Reading(*reading) for gpu, reading in (stored or {}).items()}
    at = now.timestamp()
    oldest = at - FORGET.total_seconds()
    kept = {gpu: reading for gpu, reading in earlier.items() if reading.at >= oldest}
    events: list[Counted] = []
    for key, measurement in measured.items():
        if not measurement.counters:
            continue
        gpu, values = identity(key), [measurement.counters.get(metric) for metric in COUNTERS]
        before = earlier.get(gpu)
        # What one reading lacks is compared with the one before.
        last = before.values if before else values
        kept[gpu] = Reading(
            at, [then if value is None else value for value, then in zip(values, last, strict=True)]
        )
        if before is None:
            continue
        since = dict(zip(COUNTERS, map(difference, before.values, values), strict=True))
        events += happened(key, since, before, values)
        if at - before.at > BUCKET.total_seconds():
            continue
        count(measurement, since)
    CounterReading.objects.bulk_create(
        [CounterReading(cluster_id=cluster_id, readings=kept)],
        update_conflicts=True,
        unique_fields=["cluster"],
        update_fields=["readings"],
    )
    store_events(cluster_id, events, now)


def count(measurement: Measurement, since: Mapping[str, float | None]) -> None:
    """Complete a measurement with the energy and errors that were counted, by metric."""
    energy, corrected, uncorrected = since[ENERGY], since[ECC_CORRECTED], since[ECC_UNCORRECTED]
    measurement.energy_joules = None if energy is None else energy / MILLIJOULES
    measurement.ecc_corrected = None if corrected is None else int(corrected)
    measurement.ecc_uncorrected = None if uncorrected is None else int(uncorrected)


def count_since(earlier: Measurement | None, measurement: Measurement) -> None:
    """Complete a measurement with what was counted since an earlier one of the same device."""
    before = earlier.counters if earlier else {}
    values = measurement.counters
    count(measurement, {metric: difference(before.get(metric), values.get(metric)) for metric in COUNTERS})


def happened(
    key: SeriesKey, since: Mapping[str, float | None], before: Reading, values: list[float | None]
) -> Iterator[Counted]:
    """
    Yield the events between two readings. An XID is the last one: the same code twice in a row is one event,
    unless it was cleared between them.
    """
    for metric, kind in EVENTS.items():
        if count := int(since[metric] or 0):
            yield Counted(key, kind, count)
    place = COUNTERS.index(XID)
    code = values[place]
    if code and code != before.values[place]:
        yield Counted(key, Kind.XID, int(code))


def store_events(cluster_id: UUID, events: list[Counted], now: datetime) -> None:
    """
    Store each event with the devices that it concerns. A series without DRA labels names a physical GPU: its
    partitions are concerned too, or those of the profile that the series names.
    """
    if not events:
        return
    uuids = {event.key.uuid for event in events if event.key.uuid}
    mirrored = Device.objects.filter(
        Q(uuid__in=uuids) | Q(parent_uuid__in=uuids), cluster=cluster_id, gone_at=None
    ).values_list("driver", "pool", "name", "uuid", "parent_uuid", "partition")
    devices = list(mirrored)
    rows = {}
    for event in events:
        for driver, pool, name in concerned(event.key, devices):
            code, count = (event.code, 1) if event.kind is Kind.XID else (None, event.code)
            row = HardwareEvent(
                cluster_id=cluster_id, driver=driver, pool=pool, device=name,
                kind=event.kind, code=code, count=count, at=now.astimezone(UTC),
            )  # fmt: skip
            rows[driver, pool, name, event.kind] = row
    HardwareEvent.objects.bulk_create(rows.values(), ignore_conflicts=True)


def concerned(key: SeriesKey, devices: Iterable[tuple[str, ...]]) -> list[DeviceKey]:
    if key.device:
        return [(key.driver, key.pool, key.device)]
    return [
        (driver, pool, name)
        for driver, pool, name, uuid, parent, partition in devices
        if key.uuid in (uuid, parent) and (not key.instance or partition == key.profile)
    ]
