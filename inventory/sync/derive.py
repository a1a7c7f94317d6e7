"""
What follows for devices from other objects: who holds them, and which are blocked.

Which devices nobody holds and yet nobody can have: their GPU's counters are taken by other partitions.

A GPU that may be cut in many ways publishes every possible partition as a device (KEP 4815). Counting them
as free would promise the same GPU many times.

Which claim holds a device: `Device.held_by`, from `status.allocation` of ResourceClaims.

Admin access holds nothing (KEP 5018). Of a shareable device one of its claims is named, the oldest row
first.

What follows from a change of a mirrored kind: device rows, their classes, taints, nodes and holders.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q

from dra.cluster_snapshot import ClusterSnapshot
from inventory.models import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from inventory.sync.pools import PoolKey, pool_keys, pools_meant, refresh_pools
from inventory.sync.rows import Write, update_rows, writing
from inventory.sync.session import Lease, go_on


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
        snapshot = ClusterSnapshot(slices=slices[key], claims=[claims[pk] for pk in sorted(held[key])])
        changed += _changes(write, key, snapshot, unheld[key])
    update_rows(Device, changed)


def _changes(
    write: Write, key: PoolKey, snapshot: ClusterSnapshot, unheld: Iterable[tuple[UUID, str, bool]]
) -> list[dict[str, Any]]:
    free = {device.name for device in snapshot.free}
    taking = {device.name for device in snapshot.devices if device.counters}
    changes = []
    for pk, name, was in unheld:
        blocked = name in taking and name not in free
        if blocked != was:
            changes.append({"id": pk, "blocked": blocked})
            write.touch("Device", "/".join((*key, name)))
    return changes


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


POOLS_AT_ONCE = 100
# After a full listing their devices are joined anew, whatever has changed: that also mends what a crash left.
JOINED: frozenset[type[Mirrored]] = frozenset({ResourceSlice, DeviceClass, DeviceTaintRule})


def derive(write: Write, rows: Sequence[Mirrored]) -> None:
    """Follow a batch of rows of one kind that have been written or closed."""
    if not rows:
        return
    slices = [row for row in rows if isinstance(row, ResourceSlice)]
    rules = [row for row in rows if isinstance(row, DeviceTaintRule)]
    nodes = [row for row in rows if isinstance(row, Node)]
    claims = [row for row in rows if isinstance(row, ResourceClaim)]
    if slices:
        _join(write, {(row.driver, row.pool) for row in slices})
    if rules:
        _join(write, pools_meant(write, rules))
    if isinstance(rows[0], DeviceClass):
        _join(write, pool_keys(write))
    if nodes:
        link_nodes(write, nodes)
    if claims:
        refresh_blocked(write, follow_claims(write, claims))


def _join(write: Write, keys: Iterable[PoolKey]) -> None:
    keys = set(keys)
    if added := refresh_pools(write, keys):
        find_holders(write, added)
    refresh_blocked(write, keys)


def join_all(lease: Lease, *, first: bool) -> None:
    """
    Join every device of the cluster anew, a transaction per hundred pools.

    Holders are looked up for all devices at the end, in one pass over the claims: after a crash in between, a
    lookup of what is new would miss what the last run had added.
    """
    with writing(lease) as write:
        keys = pool_keys(write)
    for start in range(0, len(keys), POOLS_AT_ONCE):
        go_on()
        with writing(lease) as write:
            refresh_pools(write, keys[start : start + POOLS_AT_ONCE], first=first)
    with writing(lease) as write:
        devices = Device.objects.present().filter(cluster=write.cluster_id)
        find_holders(write, devices.values_list("driver", "pool", "name"))
        refresh_blocked(write, keys)


def link_nodes(write: Write, nodes: Sequence[Node]) -> None:
    """Tie devices to the rows of their nodes; a node made again under its name is another row."""
    here = Device.objects.present().filter(cluster=write.cluster_id)
    here.filter(node__in=[node.pk for node in nodes if node.gone_at]).update(node=None)
    present = {node.name: node.pk for node in nodes if not node.gone_at}
    devices = here.filter(node_name__in=present).values_list("pk", "node_name", "node_id")
    update_rows(
        Device, [{"id": pk, "node_id": present[name]} for pk, name, at in devices if at != present[name]]
    )
