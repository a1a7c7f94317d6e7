"""
Which claim holds a device: `Device.held_by`, from `status.allocation` of ResourceClaims.

Admin access holds nothing (KEP 5018). Of a shareable device one of its claims is named, the oldest row
first.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from inventory.models import Device, ResourceClaim
from inventory.sync.bulk import update_rows
from inventory.sync.write import Write

type DeviceKey = tuple[str, str, str]  # driver, pool name, device name


def held_devices(claim: ResourceClaim) -> set[DeviceKey]:
    """Return the devices that this claim takes from others; nothing once it is gone."""
    return set() if claim.gone_at else _taken((claim.raw.get("status") or {}).get("allocation") or {})


def follow_claims(write: Write, claims: Sequence[ResourceClaim]) -> set[tuple[str, str]]:
    """
    Bring `held_by` up to date with these claims, which have just been written or closed.

    Return the pools, as (driver, name), in which a device changed hands.
    """
    held = {claim.pk: held_devices(claim) for claim in claims}
    wanted = {key for keys in held.values() for key in keys}
    touched = Q(held_by__in=list(held)) | Q(
        cluster=write.cluster_id,
        name__in={name for *_, name in wanted},
        pool__in={pool for _, pool, _ in wanted},
    )
    fields = ("pk", "driver", "pool", "name", "held_by_id", "shareable")
    owners = {key: pk for pk, keys in sorted(held.items(), reverse=True) for key in keys}
    orphans, moved = [], []
    for device in Device.objects.filter(touched).only(*fields):
        key = (device.driver, device.pool, device.name)
        keeps = device.held_by_id is not None and (
            device.held_by_id not in held or key in held[device.held_by_id]
        )
        if keeps and (device.shareable or key not in owners or owners[key] == device.held_by_id):
            continue
        if key in owners:
            device.held_by_id = owners[key]
        elif device.held_by_id in held:
            device.held_by_id = None
            if device.shareable:
                orphans.append(key)
        else:
            continue
        moved.append(device)
    _save(write, moved)
    if orphans:
        find_holders(write, orphans)
    return {(device.driver, device.pool) for device in moved}


def find_holders(write: Write, keys: Iterable[DeviceKey]) -> None:
    """Look up who holds devices that are new to the mirror, or that one of several claims has let go."""
    wanted = set(keys)
    allocated = ResourceClaim.objects.filter(
        cluster=write.cluster_id, gone_at=None, raw__status__allocation__isnull=False
    ).order_by("pk")
    found: dict[DeviceKey, int] = {}
    for pk, allocation in allocated.values_list("pk", "raw__status__allocation").iterator(chunk_size=1000):
        for key in _taken(allocation or {}) & wanted:
            found.setdefault(key, pk)
    pools = {pool for _, pool, _ in found}
    moved = []
    present = Device.objects.present().filter(cluster=write.cluster_id, pool__in=pools)
    for device in present.only("pk", "driver", "pool", "name", "held_by_id"):
        holder = found.get((device.driver, device.pool, device.name))
        if holder and holder != device.held_by_id:
            device.held_by_id = holder
            moved.append(device)
    _save(write, moved)


def _taken(allocation: dict[str, Any]) -> set[DeviceKey]:
    results = (allocation.get("devices") or {}).get("results") or []
    return {(r["driver"], r["pool"], r["device"]) for r in results if not r.get("adminAccess")}


def _save(write: Write, moved: Sequence[Device]) -> None:
    update_rows(Device, [{"id": device.pk, "held_by_id": device.held_by_id} for device in moved])
    for device in moved:
        write.touch("Device", f"{device.driver}/{device.pool}/{device.name}")
