"""
What the exporters of a cluster count: energy and errors since the reading before, and XID and ECC events.

The series of a GPU are merged first: a second exporter, or one that was restarted, reports the same GPU. A
counter of the driver begins at 0 when the driver is loaded or the node starts: a value below the last one is
what was counted since then. That may also be a reading that went wrong, as is a value that no GPU reaches in
the time. So the value before is kept until the next reading says which of both goes on. Nothing is said of a
first reading, nor of a time in which nobody read: what was counted in it belongs to no five minutes.
"""

from __future__ import annotations

from collections import defaultdict
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
    MOST_WATTS,
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


# What a GPU counts in a second at most; a longer step is a reading that went wrong.
PER_SECOND: Mapping[str, float] = {
    ENERGY: MOST_WATTS * MILLIJOULES,
    ECC_CORRECTED: 10_000,
    ECC_UNCORRECTED: 1,
    ROWS_REMAPPED: 1,
    REMAP_FAILED: 1,
}
RATED = [(place, metric, PER_SECOND[metric]) for place, metric in enumerate(COUNTERS) if metric != XID]


class Doubt(NamedTuple):
    """A value that does not follow the last one, when it was read, and what was counted of it already."""

    value: float
    at: float
    booked: float


class Reading(NamedTuple):
    """
    Counters of one GPU at an instant (Unix seconds), in the order of `COUNTERS`; None is not counted. `moved`
    is when its energy moved last: an exporter may repeat a value. `doubts` has the values in doubt by metric.
    """

    at: float
    values: list[float | None]
    moved: float | None = None
    doubts: Mapping[str, tuple[float, float, float]] = {}


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


def step(
    last: float, doubt: Doubt | None, value: float, at: float, elapsed: float, per_second: float
) -> tuple[float | None, float, Doubt | None]:
    """
    Return what was counted since `last`, `elapsed` seconds ago, with the value and the doubt to go on from.

    None is not known: what goes on from a value in doubt has counted from there.
    """
    booked = doubt.booked if doubt else 0.0
    if 0 <= value - last <= per_second * elapsed:
        return max(value - last - booked, 0.0), value, None
    if doubt and 0 <= value - doubt.value <= per_second * (at - doubt.at):
        return value - doubt.value, value, None
    since = at - doubt.at if doubt else elapsed
    counted = value if value < last and value <= per_second * since else None
    return counted, last, Doubt(value, at, booked + (counted or 0.0))


def follow(
    earlier: Mapping[str, Reading], measured: Mapping[SeriesKey, Measurement], at: float
) -> tuple[dict[str, Reading], list[Counted]]:
    """
    Complete measurements at an instant (Unix seconds) with the energy and errors since the earlier readings.
    Return the new readings by GPU, and what happened to devices.
    """
    series: dict[str, list[SeriesKey]] = defaultdict(list)
    for key, measurement in measured.items():
        if measurement.counters:
            series[identity(key)].append(key)
    readings: dict[str, Reading] = {}
    events: list[Counted] = []
    for gpu, keys in series.items():
        counters = merged([measured[key].counters for key in keys])
        values = [counters.get(metric) for metric in COUNTERS]
        before = earlier.get(gpu)
        if before is None:
            readings[gpu] = Reading(at, values, at)
            continue
        readings[gpu], since = _followed(before, values, at)
        # A series with the labels of a device says best which one it is.
        key = max(keys, key=lambda one: bool(one.device))
        events += happened(key, since, before, values)
        if at - before.at <= BUCKET.total_seconds():
            for key in keys:
                count(measured[key], since)
    return readings, events


def merged(series: list[Mapping[str, float]]) -> Mapping[str, float]:
    """Return the counters of all series of a GPU, of each the largest: a restarted exporter begins at 0."""
    if len(series) == 1:
        return series[0]
    metrics = {metric for counters in series for metric in counters}
    return {metric: max(counters.get(metric, 0.0) for counters in series) for metric in metrics}


def _followed(
    before: Reading, values: list[float | None], at: float
) -> tuple[Reading, dict[str, float | None]]:
    """
    Return the reading to go on from, and what was counted by metric. What a reading lacks is compared with
    the one before it.
    """
    elapsed = at - before.at
    longest = max(elapsed, BUCKET.total_seconds())
    kept = [then if value is None else value for value, then in zip(values, before.values, strict=True)]
    since: dict[str, float | None] = dict.fromkeys(COUNTERS)
    moved, doubts = before.at if before.moved is None else before.moved, {}
    for place, metric, per_second in RATED:
        last, value = before.values[place], values[place]
        known = before.doubts.get(metric)
        if last is None or value is None:
            if known:
                doubts[metric] = known
            continue
        if value == last and not known:
            since[metric] = 0.0
            continue
        time = min(at - moved, longest) if metric == ENERGY else elapsed
        since[metric], kept[place], doubt = step(
            last, Doubt(*known) if known else None, value, at, time, per_second
        )
        if doubt:
            doubts[metric] = doubt
        elif metric == ENERGY:
            moved = at
    return Reading(at, kept, moved, doubts), since


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
    readings, events = follow(earlier, measured, at)
    CounterReading.objects.bulk_create(
        [CounterReading(cluster_id=cluster_id, readings=kept | readings)],
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
