"""Joins measurements of a source to the claims that hold the devices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from claims.models import Allocation
from inventory.models import Cluster, Device
from usage.samples import Measurement, SeriesKey


@dataclass(frozen=True, slots=True)
class OpenAllocation:
    """An open allocation with its keys. `parent_uuid` is the physical GPU of a partition, else empty."""

    claim_id: UUID
    namespace: str
    object_name: str
    driver: str
    pool: str
    device: str
    uuid: str
    partition: str
    parent_uuid: str


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


def attribute(
    allocations: Iterable[OpenAllocation], measured: Mapping[SeriesKey, Measurement]
) -> list[tuple[OpenAllocation, Measurement]]:
    """
    Return each allocation with its measurement; an ambiguous one is left out.

    DRA labels name claim and device. Without them the UUID decides. A partition is then identified by its
    physical GPU and profile, and only if exactly one of that profile is reported and one is held.
    """
    labeled: dict[tuple[str, ...], Measurement] = {}
    gpus: dict[str, Measurement] = {}
    partitions: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for key, measurement in measured.items():
        if key.claim:
            device = key.namespace, key.claim, key.driver, key.pool, key.device
            labeled[device] = measurement.largest(labeled.get(device, Measurement()))
        elif key.instance:
            partitions[key.uuid, key.profile].append(measurement)
        if key.uuid and not key.instance:
            gpus[key.uuid] = measurement.largest(gpus.get(key.uuid, Measurement()))
    allocations = list(allocations)
    held = Counter((allocation.parent_uuid, allocation.partition) for allocation in allocations)

    def measurement_for(allocation: OpenAllocation) -> Measurement | None:
        device = (
            *(allocation.namespace, allocation.object_name),
            *(allocation.driver, allocation.pool, allocation.device),
        )
        if device in labeled:
            return labeled[device]
        if allocation.uuid and allocation.uuid in gpus:
            return gpus[allocation.uuid]
        partition = allocation.parent_uuid, allocation.partition
        if allocation.parent_uuid and held[partition] == len(partitions.get(partition, ())) == 1:
            return partitions[partition][0]
        return None

    pairs = [(allocation, measurement_for(allocation)) for allocation in allocations]
    return [(allocation, measurement) for allocation, measurement in pairs if measurement is not None]
