"""
What other objects change on devices: their rows, classes, taints and nodes, their holders, and which are
blocked.

Blocked devices are held by nobody, but other partitions use the counters of their GPU. A GPU that can be
partitioned in many ways publishes every possible partition as a device (KEP 4815); counting them as free
would promise the same GPU many times.

`Device.held_by` is the claim that holds a device, from `status.allocation` of ResourceClaims. Admin access
holds nothing (KEP 5018). A shareable device has one of its claims, the oldest row first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
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
from inventory.sync.pools import DeviceKey, PoolKey, pool_keys, pools_meant, refresh_pools
from inventory.sync.rows import Write, update_rows, writing
from inventory.sync.session import Lease, go_on


def refresh_blocked(write: Write, keys: Iterable[PoolKey]) -> None:
    """Update `blocked` in those of these pools whose devices consume counters."""
    keys = set(keys)
    names = {pool for _, pool in keys}
    devices = Device.objects.present().filter(~Q(counters=[]), cluster=write.cluster_id, pool__in=names)
    counting = keys & set(devices.order_by().values_list("driver", "pool").distinct())
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


def held_devices(claim: ResourceClaim) -> set[DeviceKey]:
    """Return the devices that this claim holds, without admin access; none once it is gone."""
    return set() if claim.gone_at else _taken((claim.raw.get("status") or {}).get("allocation") or {})


# Two queries, each with its index: by holder, and by name.
DEVICES_OF_CLAIMS = """
SELECT id, driver, pool, name, held_by_id, shareable FROM inventory_device WHERE held_by_id = ANY(%s)
UNION
SELECT d.id, d.driver, d.pool, d.name, d.held_by_id, d.shareable
FROM unnest(%s::text[], %s::text[], %s::text[]) AS taken (driver, pool, name)
JOIN inventory_device d ON d.cluster_id = %s AND d.driver = taken.driver AND d.pool = taken.pool
  AND d.name = taken.name
"""


class Moved(NamedTuple):
    """A device whose holder changed."""

    pk: UUID
    key: DeviceKey
    holder: int | None


def follow_claims(write: Write, claims: Sequence[ResourceClaim]) -> set[PoolKey]:
    """
    Update `held_by` from these claims, which have just been written or closed.

    Return the pools in which a device changed its holder.
    """
    held = {claim.pk: held_devices(claim) for claim in claims}
    owners = {key: pk for pk, keys in sorted(held.items(), reverse=True) for key in keys}
    columns = [list(column) for column in zip(*owners, strict=True)] or [[], [], []]
    with connection.cursor() as cursor:
        cursor.execute(DEVICES_OF_CLAIMS, [list(held), *columns, write.cluster_id])
        devices = cursor.fetchall()
    orphans, moved = [], []
    for pk, driver, pool, name, holder, shareable in devices:
        key = (driver, pool, name)
        keeps = holder is not None and (holder not in held or key in held[holder])
        if keeps and (shareable or key not in owners or owners[key] == holder):
            continue
        if key in owners:
            moved.append(Moved(pk, key, owners[key]))
        elif holder in held:
            moved.append(Moved(pk, key, None))
            if shareable:
                orphans.append(key)
    _save(write, moved)
    if orphans:
        find_holders(write, orphans)
    return {device.key[:2] for device in moved}


def find_holders(write: Write, keys: Iterable[DeviceKey] | None = None) -> None:
    """
    Find the holders of devices that are new to the mirror, or that one of several claims has released.

    Without `keys` all devices of the cluster are compared, and those without a holder are released.
    """
    wanted = None if keys is None else set(keys)
    holders = holders_of_devices(write)
    devices = Device.objects.present().filter(cluster=write.cluster_id)
    if wanted is not None:
        devices = devices.filter(pool__in={pool for _, pool, _ in wanted & holders.keys()})
    moved = []
    for pk, held_by, driver, pool, name in devices.order_by().values_list(
        "pk", "held_by_id", "driver", "pool", "name"
    ):
        key = (driver, pool, name)
        holder = holders.get(key)
        if holder != held_by and (wanted is None or (key in wanted and holder is not None)):
            moved.append(Moved(pk, key, holder))
    _save(write, moved)


def holders_of_devices(write: Write) -> dict[DeviceKey, int]:
    """Return the claim that holds each device; for shared devices the oldest row."""
    allocated = ResourceClaim.objects.filter(
        cluster=write.cluster_id, gone_at=None, raw__status__allocation__isnull=False
    ).order_by("pk")
    holders: dict[DeviceKey, int] = {}
    for pk, allocation in allocated.values_list("pk", "raw__status__allocation").iterator(chunk_size=1000):
        for key in _taken(allocation or {}):
            holders.setdefault(key, pk)
    return holders


def _taken(allocation: dict[str, Any]) -> set[DeviceKey]:
    results = (allocation.get("devices") or {}).get("results") or []
    return {(r["driver"], r["pool"], r["device"]) for r in results if not r.get("adminAccess")}


def _save(write: Write, moved: Sequence[Moved]) -> None:
    update_rows(Device, [{"id": device.pk, "held_by_id": device.holder} for device in moved])
    for device in moved:
        write.touch("Device", "/".join(device.key))


POOLS_AT_ONCE = 100
# After a full listing all devices are derived again, which also repairs what a crash left.
JOINED: frozenset[type[Mirrored]] = frozenset({ResourceSlice, DeviceClass, DeviceTaintRule})


def derive(write: Write, rows: Sequence[Mirrored]) -> None:
    """Update devices after a batch of rows of one kind was written or closed."""
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
    Derive every device of the cluster again, a transaction per hundred pools.

    Holders are compared for all devices at the end, in one pass over the claims: after a crash in between, a
    lookup of only the new devices would miss those that the last run added. A first run stores the holders
    with the rows, which is cheaper than an update.
    """
    with writing(lease) as write:
        keys = pool_keys(write)
        holders = holders_of_devices(write) if first and keys else {}
    if not keys:
        return
    for start in range(0, len(keys), POOLS_AT_ONCE):
        go_on()
        with writing(lease) as write:
            refresh_pools(write, keys[start : start + POOLS_AT_ONCE], first=first, holders=holders)
    with writing(lease) as write:
        find_holders(write)
        refresh_blocked(write, keys)


def link_nodes(write: Write, nodes: Sequence[Node]) -> None:
    """Link devices to the rows of their nodes; a recreated node is another row."""
    here = Device.objects.present().filter(cluster=write.cluster_id)
    here.filter(node__in=[node.pk for node in nodes if node.gone_at]).update(node=None)
    present = {node.name: node.pk for node in nodes if not node.gone_at}
    devices = here.filter(node_name__in=present).values_list("pk", "node_name", "node_id")
    update_rows(
        Device, [{"id": pk, "node_id": present[name]} for pk, name, at in devices if at != present[name]]
    )
