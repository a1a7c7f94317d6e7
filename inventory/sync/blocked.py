"""
Which devices nobody holds and yet nobody can have: their GPU's counters are taken by other partitions.

A GPU that may be cut in many ways publishes every possible partition as a device (KEP 4815). Counting them
as free would promise the same GPU many times.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from dra.picture import Picture
from inventory.models import Device, ResourceClaim, ResourceSlice
from inventory.sync.bulk import update_rows
from inventory.sync.write import Write

type PoolKey = tuple[str, str]  # driver, pool name


def refresh_blocked(write: Write, keys: Iterable[PoolKey]) -> None:
    """Bring `blocked` up to date in those of these pools whose devices consume counters."""
    keys = set(keys)
    names = {pool for _, pool in keys}
    devices = Device.objects.present().filter(cluster=write.cluster_id, pool__in=names)
    counting = keys & set(devices.exclude(counters=[]).values_list("driver", "pool").distinct())
    if not counting:
        return
    here = {"cluster": write.cluster_id, "pool__in": {pool for _, pool in counting}, "gone_at": None}
    slices: dict[PoolKey, list[Any]] = defaultdict(list)
    for driver, pool, raw in ResourceSlice.objects.filter(**here).values_list("driver", "pool", "raw"):
        slices[driver, pool].append(raw)
    held: dict[PoolKey, set[int]] = defaultdict(set)
    unheld: dict[PoolKey, list[tuple[UUID, str, bool]]] = defaultdict(list)
    columns = ("driver", "pool", "pk", "name", "blocked", "held_by_id")
    for driver, pool, pk, name, blocked, holder in Device.objects.filter(**here).values_list(*columns):
        if holder is not None:
            held[driver, pool].add(holder)
        elif (driver, pool) in counting:
            unheld[driver, pool].append((pk, name, blocked))
    claims = dict(ResourceClaim.objects.filter(pk__in=set().union(*held.values())).values_list("pk", "raw"))
    changed = []
    for key in sorted(counting):
        picture = Picture(slices=slices[key], claims=[claims[pk] for pk in sorted(held[key])])
        changed += _changes(write, key, picture, unheld[key])
    update_rows(Device, changed)


def _changes(
    write: Write, key: PoolKey, picture: Picture, unheld: Iterable[tuple[UUID, str, bool]]
) -> list[dict[str, Any]]:
    free = {device.name for device in picture.free}
    taking = {device.name for device in picture.devices if device.counters}
    changes = []
    for pk, name, was in unheld:
        blocked = name in taking and name not in free
        if blocked != was:
            changes.append({"id": pk, "blocked": blocked})
            write.touch("Device", "/".join((*key, name)))
    return changes
