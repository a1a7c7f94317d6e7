"""
Measurements as they are read, and to which open allocation each belongs.

What goes wrong between the portal and a source of telemetry.

From series of an exporter to readings of devices, and from devices to the claims that hold them.

Pure. Both sources, a dcgm-exporter and Prometheus, end in `Series`; from there on they are treated alike.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self
from uuid import UUID

from core.errors import PortalError


class TelemetryUnavailable(PortalError):
    """No answer, or not one in the format. The message names no address, which may hold a password."""

    code = "telemetry-unavailable"
    status = 503
    title = "Telemetry cannot be read"

    @classmethod
    def bad_status(cls, status: int) -> Self:
        return cls(f"The source of telemetry answered with status {status}.")

    @classmethod
    def unreachable(cls, failure: Exception) -> Self:
        kind = type(failure).__name__
        return cls(f"The source of telemetry cannot be reached ({kind}).")

    @classmethod
    def malformed(cls, failure: Exception) -> Self:
        return cls(f"The source of telemetry did not answer in its format: {str(failure)[:200]}.")

    @classmethod
    def refused(cls, why: str) -> Self:
        return cls(f"Prometheus refused the query: {why[:200]}.")


MIB = 1024 * 1024

ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # ratio of 0 to 1
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"  # per cent; of the whole board, so nothing about a partition
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
    """What a series is about: a device by the labels of DRA, a board or partition by those of DCGM."""

    namespace: str = ""
    claim: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    uuid: str = ""
    instance: str = ""  # GPU_I_ID, empty for a whole board
    profile: str = ""  # GPU_I_PROFILE


@dataclass(slots=True)
class Measurement:
    """What was measured on one device at one time. None is not measured."""

    activity: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None

    def largest(self, other: "Measurement") -> "Measurement":
        return Measurement(
            most(self.activity, other.activity),
            most(self.memory_bytes, other.memory_bytes),
            most(self.power_watts, other.power_watts),
        )


def most[N: (int, float)](one: N | None, other: N | None) -> N | None:
    return max((value for value in (one, other) if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class OpenAllocation:
    """An open allocation with what it is joined by. `parent_uuid` is the board of a partition, else empty."""

    claim_id: UUID
    namespace: str
    object_name: str
    driver: str
    pool: str
    device: str
    uuid: str
    partition: str
    parent_uuid: str


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
    )


def readings(series: Iterable[Sample]) -> dict[SeriesKey, Measurement]:
    """
    Gather the metrics of each device.

    Several pods on one device give one series each with the value of the whole device: the largest counts, a
    sum would count twice. Activity is that of the engine; utilization stands in for it on whole boards alone.
    """
    largest: dict[tuple[SeriesKey, str], float] = {}
    for one in series:
        if one.metric not in METRICS or is_blank(one.value):
            continue
        at = series_key(one.labels), one.metric
        largest[at] = max(largest.get(at, 0.0), one.value)
    found: dict[SeriesKey, Measurement] = defaultdict(Measurement)
    for (key, metric), value in largest.items():
        reading = found[key]
        if metric == ACTIVITY:
            reading.activity = min(value, 1.0)
        elif metric == MEMORY:
            reading.memory_bytes = round(value * MIB)
        elif metric == POWER:
            reading.power_watts = value
        elif not key.instance and (key, ACTIVITY) not in largest:
            reading.activity = min(value / 100, 1.0)
    return dict(found)


def attribute(
    held: Iterable[OpenAllocation], found: Mapping[SeriesKey, Measurement]
) -> list[tuple[OpenAllocation, Measurement]]:
    """
    Give every allocation its reading; one that cannot be told for sure gets none.

    The labels of DRA name claim and device. Where the exporter sets none, the UUID decides; a partition is
    then known by its board and profile, and only where one of that profile is reported and one is held.
    """
    labelled: dict[tuple[str, ...], Measurement] = {}
    boards: dict[str, Measurement] = {}
    partitions: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for key, reading in found.items():
        if key.claim:
            place = key.namespace, key.claim, key.driver, key.pool, key.device
            labelled[place] = reading.largest(labelled.get(place, Measurement()))
        elif key.instance:
            partitions[key.uuid, key.profile].append(reading)
        if key.uuid and not key.instance:
            boards[key.uuid] = reading.largest(boards.get(key.uuid, Measurement()))
    everything = list(held)
    holders = Counter((one.parent_uuid, one.partition) for one in everything)

    def of(one: OpenAllocation) -> Measurement | None:
        seen = labelled.get((one.namespace, one.object_name, one.driver, one.pool, one.device))
        if seen is None and one.uuid:
            seen = boards.get(one.uuid)
        board = one.parent_uuid, one.partition
        if seen is None and one.parent_uuid and holders[board] == len(partitions.get(board, ())) == 1:
            return partitions[board][0]
        return seen

    return [(one, seen) for one in everything if (seen := of(one)) is not None]
