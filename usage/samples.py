"""
From samples of an exporter to measurements of devices, and to the rollups of claims.

Both sources, exporters and Prometheus, return `Series`, which are treated alike. Rollups of five minutes are
written for many devices by one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from usage.models import StoredHour

MIB = 1024 * 1024

# The fields of dcgm-exporter (https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv);
# the last three lines of activity and NVLink are off in some of its settings. Ratios are of 0 to 1.
ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # ratio: the engine of graphics or compute is busy
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"  # per cent, of the physical GPU, not of a partition
SM_ACTIVITY = "DCGM_FI_PROF_SM_ACTIVE"  # ratio, mean over the multiprocessors
TENSOR_ACTIVITY = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"  # ratio
MEMORY_ACTIVITY = "DCGM_FI_PROF_DRAM_ACTIVE"  # ratio of the memory bandwidth
MEMORY, MEMORY_FREE, MEMORY_RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
MEMORY_TOTAL = "DCGM_FI_DEV_FB_TOTAL"  # in few settings of dcgm-exporter; AMD's exporter has its like
POWER = "DCGM_FI_DEV_POWER_USAGE"  # W of the physical GPU; memory is in MiB
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"  # °C
PCIE_SENT, PCIE_RECEIVED = "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"  # bytes/s, gauges
NVLINK_SENT, NVLINK_RECEIVED = "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"  # the same
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"  # mJ since the driver was loaded, of the physical GPU
ECC_CORRECTED = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"  # single-bit errors since the driver was loaded
ECC_UNCORRECTED = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"  # double-bit errors since then
ROWS_REMAPPED = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"  # rows of memory replaced after such an error, ever
REMAP_FAILED = "DCGM_FI_DEV_ROW_REMAP_FAILURE"  # 1 if a row could not be replaced
XID = "DCGM_FI_DEV_XID_ERRORS"  # the code of the last error, 0 without one
METRICS = (
    *(ACTIVITY, UTILIZATION, MEMORY, POWER),
    *(SM_ACTIVITY, TENSOR_ACTIVITY, MEMORY_ACTIVITY, MEMORY_FREE, MEMORY_RESERVED, TEMPERATURE),
    *(PCIE_SENT, PCIE_RECEIVED, NVLINK_SENT, NVLINK_RECEIVED),
    *(ENERGY, ECC_CORRECTED, ECC_UNCORRECTED, ROWS_REMAPPED, REMAP_FAILED, XID),
)
COUNTERS = (ENERGY, ECC_CORRECTED, ECC_UNCORRECTED, ROWS_REMAPPED, REMAP_FAILED, XID)

# What a GPU can have at most, in the unit of each metric; the least is 0. Anything else is not measured: a
# reading that went wrong, and DCGM's words for "no value" (dcgm_structs.h: DCGM_INT32_BLANK is 2147483632,
# DCGM_FP64_BLANK 140737488355328, DCGM_INT64_BLANK 9223372036854775792; the next values are blanks too).
INT32_BLANK, INT32_LAST = 2147483632, 2147483647
MOST_WATTS = 2_000  # of one physical GPU
MOST: Mapping[str, float] = {
    **dict.fromkeys((ACTIVITY, SM_ACTIVITY, TENSOR_ACTIVITY, MEMORY_ACTIVITY), 1.0),
    UTILIZATION: 100.0,
    **dict.fromkeys((MEMORY, MEMORY_FREE, MEMORY_RESERVED, MEMORY_TOTAL), 4 * 1024 * 1024),  # 4 TiB
    POWER: MOST_WATTS,
    TEMPERATURE: 150.0,
    **dict.fromkeys((PCIE_SENT, PCIE_RECEIVED), 5e11),
    **dict.fromkeys((NVLINK_SENT, NVLINK_RECEIVED), 5e12),
    ENERGY: 1e14,  # 2 kW for 19 months
    **dict.fromkeys((ECC_CORRECTED, ECC_UNCORRECTED), 2147483631.0),
    ROWS_REMAPPED: 1e6,
    REMAP_FAILED: 1.0,
    XID: 65535.0,
}
ROUNDED = 1.05  # a driver may publish the memory of a device in other units than the exporter


class Series(NamedTuple):
    """What was read with the same labels: values by metric. A device may have several, one for each pod."""

    labels: Mapping[str, str]
    values: Mapping[str, float]


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
    """
    Values of one device at one time. None is not measured.

    Activities are shares of 0 to 1, PCIe and NVLink bytes per second in both directions together. Power,
    energy and errors are those of the physical GPU, also of a partition. `counters` has what the exporter
    counts by metric; from it `usage.counters` finds the energy and errors since the reading before.
    """

    activity: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    sm_activity: float | None = None
    tensor_activity: float | None = None
    memory_activity: float | None = None
    memory_total: int | None = None
    temperature: float | None = None  # °C
    pcie_bytes: float | None = None
    nvlink_bytes: float | None = None
    energy_joules: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    counters: Mapping[str, float] = field(default_factory=dict)

    def largest(self, other: Measurement) -> Measurement:
        values = {name: largest(getattr(self, name), getattr(other, name)) for name in VALUES}
        counters = {
            metric: max(self.counters.get(metric, 0.0), other.counters.get(metric, 0.0))
            for metric in {*self.counters, *other.counters}
        }
        return Measurement(**values, counters=counters)

    def within(self, memory: int | None) -> Measurement:
        """Return it without memory that a device of so many bytes cannot have; None is not known."""
        most = None if memory is None else memory * ROUNDED
        if most is None or max(self.memory_bytes or 0, self.memory_total or 0) <= most:
            return self
        used, total = (
            None if value is None or value > most else value
            for value in (self.memory_bytes, self.memory_total)
        )
        return replace(self, memory_bytes=used, memory_total=total)


VALUES = tuple(one.name for one in fields(Measurement) if one.name != "counters")


def largest[N: (int, float)](*values: N | None) -> N | None:
    return max((value for value in values if value is not None), default=None)


def is_plausible(metric: str, value: float) -> bool:
    """Return whether a GPU can have this value, and it is not one of DCGM's blanks; never for NaN."""
    return 0 <= value <= MOST[metric] and not INT32_BLANK <= value <= INT32_LAST


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


def measurements(series: Iterable[Series]) -> dict[SeriesKey, Measurement]:
    """
    Gather the metrics of each device.

    With several pods on one device, each has a series with the value of the whole device: the largest counts,
    a sum would count twice. Without engine activity, GPU_UTIL replaces it, but only for a physical GPU.
    """
    by_key: dict[SeriesKey, dict[str, float]] = {}
    for labels, read in series:
        values = by_key.setdefault(series_key(labels), {})
        for metric, value in read.items():
            if metric in KNOWN and is_plausible(metric, value) and value > values.get(metric, -1.0):
                values[metric] = value
    return {key: measurement_of(values, key) for key, values in by_key.items() if values}


KNOWN = MOST.keys()


def measurement_of(values: Mapping[str, float], key: SeriesKey) -> Measurement:
    """Return the measurement of the values of one device by metric."""
    get = values.get
    activity, used, free, total = get(ACTIVITY), get(MEMORY), get(MEMORY_FREE), get(MEMORY_TOTAL)
    if total is None and used is not None and free is not None:
        total = used + free + get(MEMORY_RESERVED, 0.0)  # older drivers do not report what is reserved
    if used is not None and total is not None and used > total:
        used = None
    if activity is None and not key.instance and UTILIZATION in values:
        activity = values[UTILIZATION] / 100
    return Measurement(
        activity=activity,
        memory_bytes=None if used is None else round(used * MIB),
        power_watts=get(POWER),
        sm_activity=get(SM_ACTIVITY),
        tensor_activity=get(TENSOR_ACTIVITY),
        memory_activity=get(MEMORY_ACTIVITY),
        memory_total=None if total is None else round(total * MIB),
        temperature=get(TEMPERATURE),
        pcie_bytes=both(get(PCIE_SENT), get(PCIE_RECEIVED)),
        nvlink_bytes=both(get(NVLINK_SENT), get(NVLINK_RECEIVED)),
        counters={metric: values[metric] for metric in COUNTERS if metric in values},
    )


def both(sent: float | None, received: float | None) -> float | None:
    return None if sent is None or received is None else sent + received


EVERY = timedelta(seconds=30)  # between two samples
BUCKET = timedelta(minutes=5)
EXPECTED = BUCKET // EVERY  # samples in a bucket
SLOT = EVERY / 2  # no two collections are closer, so each has a slot of its own
HOUR = timedelta(hours=1)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

MEANS = (
    *("activity", "sm_activity", "tensor_activity", "memory_activity"),
    *("power_watts", "pcie_bytes", "nvlink_bytes"),
)
MAXIMA = ("memory_bytes", "memory_total", "temperature")
SUMS = ("energy_joules", "ecc_corrected", "ecc_uncorrected")
INTEGERS = {
    "memory_bytes": "bigint",
    "memory_total": "bigint",
    "ecc_corrected": "int",
    "ecc_uncorrected": "int",
}


def upsert() -> str:
    """
    Return the statement that adds one sample to the rows of one bucket.

    Means are weighted by their samples; a sample without a value leaves the mean unchanged. A row whose slot
    was counted before stays as it is.
    """
    columns = (*MEANS, *MAXIMA, *SUMS)
    later = {name: f"(old.{name} * old.samples + EXCLUDED.{name}) / (old.samples + 1)" for name in MEANS}
    later |= {name: f"GREATEST(old.{name}, EXCLUDED.{name})" for name in MAXIMA}
    later |= {name: f"old.{name} + EXCLUDED.{name}" for name in SUMS}
    changes = ", ".join(
        f"{name} = COALESCE({new}, old.{name}, EXCLUDED.{name})" for name, new in later.items()
    )
    types = ", ".join(f"%({name})s::{INTEGERS.get(name, 'float8')}[]" for name in columns)
    names = ", ".join(columns)
    return f"""
INSERT INTO usage_rollup AS old
  (claim_id, driver, pool, device, bucket, samples, slots, activities, activity_min, activity_max, {names})
SELECT claim, driver, pool, device, %(bucket)s, 1, %(slot)s,
       array_remove(ARRAY[activity]::real[], NULL), activity, activity, {names}
FROM unnest(%(claim)s::uuid[], %(driver)s::text[], %(pool)s::text[], %(device)s::text[], {types})
  AS new (claim, driver, pool, device, {names})
ON CONFLICT (claim_id, driver, pool, device, bucket) DO UPDATE SET
  samples = old.samples + 1, slots = old.slots | EXCLUDED.slots,
  activities = old.activities || EXCLUDED.activities,
  activity_min = LEAST(old.activity_min, EXCLUDED.activity_min),
  activity_max = GREATEST(old.activity_max, EXCLUDED.activity_max), {changes}
WHERE old.slots & EXCLUDED.slots = 0
"""  # noqa: S608, names of columns


UPSERT = upsert()


class RollupDevice(NamedTuple):
    """A device that a claim holds: the subject of a rollup."""

    claim_id: UUID
    driver: str
    pool: str
    device: str


def bucket_start(instant: datetime) -> datetime:
    """Return the start of the bucket of `instant`."""
    return EPOCH + (instant - EPOCH) // BUCKET * BUCKET


def hour_start(instant: datetime) -> datetime:
    return EPOCH + (instant - EPOCH) // HOUR * HOUR


def add_samples(at: datetime, samples: Iterable[tuple[RollupDevice, Measurement]]) -> int:
    """
    Add one sample per device to its bucket in one statement; return the number of devices.

    A claim that holds a device through two shares holds one device: its largest values count. Rows are
    written in the order of their key, so that two writers cannot deadlock. A sample that was added before
    changes nothing, so a repeated call is harmless. Samples of the past are taken until their hour is final
    (`usage.hourly`): then 0 is returned.
    """
    by_holding: dict[RollupDevice, Measurement] = {}
    for holding, measurement in samples:
        earlier = by_holding.get(holding)
        by_holding[holding] = measurement if earlier is None else earlier.largest(measurement)
    rows = sorted(by_holding.items(), key=lambda row: row[0])
    if not rows or not reopen(hour_start(at)):
        return 0
    bucket = bucket_start(at)
    parameters: dict[str, Any] = {"bucket": bucket, "slot": 1 << (at - bucket) // SLOT}
    for number, name in enumerate(("claim", "driver", "pool", "device")):
        parameters[name] = [holding[number] for holding, _ in rows]
    for name in (*MEANS, *MAXIMA, *SUMS):
        values = [getattr(measurement, name) for _, measurement in rows]
        # `unnest` fills a shorter array with NULL: a metric that nobody publishes costs nothing.
        parameters[name] = "{}" if values.count(None) == len(values) else array_of(values)
    with connection.cursor() as cursor:
        cursor.execute(UPSERT, parameters)
    return len(rows)


def array_of(values: Iterable[float | None]) -> str:
    """Return an array of numbers as PostgreSQL reads it, in half the time that psycopg takes for a list."""
    return "{" + ",".join(["NULL" if value is None else repr(value) for value in values]) + "}"


def reopen(hour: datetime) -> bool:
    """Return whether samples of an hour are taken; if it is stored already, it is stored again."""
    stored = StoredHour.objects.filter(hour=hour)
    is_final = stored.values_list("is_final", flat=True).first()
    if is_final is False:
        stored.filter(is_final=False).delete()
    return not is_final
