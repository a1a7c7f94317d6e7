"""
Joins measurements of a source to the claims that hold the devices.

In this order, and what cannot be told apart is left out:

1. driver, pool and device of the DRA labels. Where several claims share a device, the series with the name of
   the claim goes first.
2. `dra_claim_*` without a device, as some scrapes drop labels: for the only device of a claim.
3. the UUID of a device or MIG device.
4. the UUID of the physical GPU and the MIG profile, for GPU instances without DRA labels: if one of that
   profile is reported and one is held. Slices do not say the id of a GPU instance, so equal ones are twins.
5. the pod, for AMD: its exporter names pods, and its driver publishes no UUID. A pod with one AMD device, and
   series of one, is that device; with several it is not known which is which.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from django.db.models import QuerySet

from claims.models import Allocation
from inventory.models import Cluster, Device, Pod
from usage.amd import DRIVER as AMD
from usage.samples import Measurement, SeriesKey


class JoinKey(StrEnum):
    """By what a series was found to belong to a device."""

    DEVICE = "DRA labels of the device"
    CLAIM = "DRA labels of the claim"
    UUID = "UUID"
    INSTANCE = "UUID of the GPU and MIG profile"
    POD = "pod"


class NotJoined(StrEnum):
    """Why a device has no series."""

    NO_SERIES = "no series"
    NO_UUID = "no DRA labels, and the driver publishes no UUID"
    TWINS = "equal MIG profiles on one GPU"
    NO_POD = "no pod uses it"
    SEVERAL = "its pod has several AMD devices"


@dataclass(frozen=True, slots=True)
class OpenAllocation:
    """
    An open allocation with its keys.

    `parent_uuid` is the physical GPU of a partition, else empty. `memory` has the bytes of the device, None
    if unknown or of a share. `pods` are names of the pods that use the claim, read for AMD only.
    """

    claim_id: UUID
    namespace: str
    object_name: str
    driver: str
    pool: str
    device: str
    uuid: str
    partition: str
    parent_uuid: str
    pods: frozenset[str] = frozenset()
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """An allocation with its measurement and the key that found it, or with the reason why there is none."""

    allocation: OpenAllocation
    measurement: Measurement | None = None
    key: JoinKey | None = None
    reason: NotJoined | None = None


def open_allocations(cluster: Cluster) -> list[OpenAllocation]:
    """Return what claims hold in `cluster` now. Only the mirror knows the physical GPU of a partition."""
    held = Device.objects.filter(cluster=cluster, gone_at=None).exclude(held_by=None)
    rows = list(Allocation.objects.filter(claim__cluster=cluster, ended_at=None).values(*COLUMNS))
    return with_mirror(cluster, rows, held)


COLUMNS = (
    *("claim_id", "claim__namespace", "object_name", "driver", "pool", "device", "uuid", "partition"),
    *("memory_bytes", "share_id", "started_at", "ended_at"),
)


def with_mirror(
    cluster: Cluster, rows: list[dict[str, Any]], devices: QuerySet[Device], *, gone_pods: bool = False
) -> list[OpenAllocation]:
    """Return rows of allocations with the physical GPUs and pods of the mirror, gone pods if asked."""
    parents = {
        (driver, pool, name): parent
        for driver, pool, name, parent in devices.exclude(parent_uuid="").values_list(
            "driver", "pool", "name", "parent_uuid"
        )
    }
    pods = pods_by_claim(
        cluster, {row["claim__namespace"] for row in rows if row["driver"] == AMD}, gone=gone_pods
    )
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
            pods=pods.get((row["claim__namespace"], row["object_name"]), frozenset())
            if row["driver"] == AMD
            else frozenset(),
            memory=None if row["share_id"] else row["memory_bytes"],
        )
        for row in rows
    ]


def pods_by_claim(
    cluster: Cluster, namespaces: set[str], *, gone: bool
) -> dict[tuple[str, str], frozenset[str]]:
    """Return the names of the pods that use each ResourceClaim of these namespaces; no query without any."""
    if not namespaces:
        return {}
    users: dict[tuple[str, str], set[str]] = defaultdict(set)
    pods = Pod.objects.filter(cluster=cluster, namespace__in=namespaces)
    if not gone:
        pods = pods.filter(gone_at=None)
    for namespace, name, claims in pods.values_list("namespace", "name", "claims"):
        for claim in claims:
            users[namespace, claim].add(name)
    return {claim: frozenset(names) for claim, names in users.items()}


def join(allocations: Iterable[OpenAllocation], measured: Mapping[SeriesKey, Measurement]) -> list[Joined]:
    """Return each allocation with its measurement and key, or the reason why it has none."""
    allocations = list(allocations)
    index = _Index.of(measured)
    # Devices are counted, not allocations: one or several claims may hold a device through several shares.
    claims = Counter(claim for claim, _ in {(claim_of(one), place_of(one)) for one in allocations})
    instances = Counter(
        instance for instance, _ in {((one.parent_uuid, one.partition), place_of(one)) for one in allocations}
    )
    pods = Counter(
        pod for pod, _ in {((one.namespace, pod), place_of(one)) for one in allocations for pod in one.pods}
    )

    def joined(one: OpenAllocation) -> Joined:
        place, claim = place_of(one), claim_of(one)
        instance = one.parent_uuid, one.partition
        found: tuple[tuple[JoinKey, Measurement | None], ...] = (
            (JoinKey.DEVICE, index.claims_on_devices.get((*claim, *place)) or index.devices.get(place)),
            (JoinKey.CLAIM, index.claims.get(claim) if claims[claim] == 1 else None),
            (JoinKey.UUID, index.gpus.get(one.uuid) if one.uuid else None),
        )
        for key, measurement in found:
            if measurement is not None:
                return Joined(one, measurement.within(one.memory), key)
        if one.parent_uuid and (reported := index.instances.get(instance)):
            if instances[instance] == len(reported) == 1:
                return Joined(one, reported[0].within(one.memory), JoinKey.INSTANCE)
            return Joined(one, reason=NotJoined.TWINS)
        if one.driver == AMD:
            return _by_pod(one, index, pods)
        has_name = one.uuid or one.parent_uuid
        return Joined(one, reason=NotJoined.NO_SERIES if has_name else NotJoined.NO_UUID)

    return [joined(one) for one in allocations]


def place_of(one: OpenAllocation) -> tuple[str, str, str]:
    return one.driver, one.pool, one.device


def claim_of(one: OpenAllocation) -> tuple[str, str]:
    return one.namespace, one.object_name


def _by_pod(one: OpenAllocation, index: _Index, pods: Mapping[tuple[str, str], int]) -> Joined:
    """Join an AMD device by the pods that use it and nothing else; each reports the whole device."""
    if not one.pods:
        return Joined(one, reason=NotJoined.NO_POD)
    boards: dict[str, Measurement] = {}
    for pod in one.pods:
        if pods[one.namespace, pod] > 1:
            return Joined(one, reason=NotJoined.SEVERAL)
        boards |= index.pods.get((one.namespace, pod), {})
    if len(boards) > 1:
        return Joined(one, reason=NotJoined.SEVERAL)
    for measurement in boards.values():
        return Joined(one, measurement.within(one.memory), JoinKey.POD)
    return Joined(one, reason=NotJoined.NO_SERIES)


@dataclass(slots=True)
class _Index:
    """
    The measurements by each key; of several series for one key the largest values count.

    `pods` has the boards that a pod uses.
    """

    devices: dict[tuple[str, ...], Measurement] = field(default_factory=dict)
    claims_on_devices: dict[tuple[str, ...], Measurement] = field(default_factory=dict)
    claims: dict[tuple[str, ...], Measurement] = field(default_factory=dict)
    gpus: dict[str, Measurement] = field(default_factory=dict)
    instances: dict[tuple[str, str], list[Measurement]] = field(default_factory=lambda: defaultdict(list))
    pods: dict[tuple[str, str], dict[str, Measurement]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, measured: Mapping[SeriesKey, Measurement]) -> Self:
        index = cls()
        for key, measurement in measured.items():
            index.add(key, measurement)
        return index

    def add(self, key: SeriesKey, measurement: Measurement) -> None:
        if key.device:
            place = key.driver, key.pool, key.device
            _largest(self.devices, place, measurement)
            _largest(self.claims_on_devices, (key.namespace, key.claim, *place), measurement)
        elif key.claim:
            _largest(self.claims, (key.namespace, key.claim), measurement)
        elif key.instance:
            self.instances[key.uuid, key.profile].append(measurement)
        if key.pod:
            _largest(self.pods[key.pod_namespace, key.pod], key.board, measurement)
        if key.uuid and (not key.instance or key.uuid.startswith("MIG-")):
            _largest(self.gpus, key.uuid, measurement)


def _largest[Key](values: dict[Key, Measurement], key: Key, measurement: Measurement) -> None:
    earlier = values.get(key)
    values[key] = measurement if earlier is None else earlier.largest(measurement)
