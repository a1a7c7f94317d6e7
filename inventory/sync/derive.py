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
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.postgres.aggregates import BoolOr
from django.db import connection
from django.db.models import Count, Q

from dra.cluster_snapshot import ClusterSnapshot
from dra.node_pools import PoolKey
from dra.pools import DeviceKey, Pool, gather_pools
from inventory.models import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from inventory.sync.pools import (
    join_pools,
    pool_keys,
    pools_meant,
    published,
    refresh_pools,
)
from inventory.sync.rows import Write, update_rows, writing
from inventory.sync.session import Lease, go_on


def refresh_blocked(write: Write, keys: Iterable[PoolKey]) -> None:
    """Update `blocked` in those of these pools whose devices consume counters, or have equal names."""
    keys = set(keys)
    names = {pool for _, pool in keys}
    devices = Device.objects.present().filter(~Q(counters=[]), cluster=write.cluster_id, pool__in=names)
    counting = set(devices.order_by().values_list("driver", "pool").distinct())
    present = Device.objects.present().filter(cluster=write.cluster_id, pool__in=names).order_by()
    by_name = present.values("driver", "pool", "name").annotate(rows=Count("pk"), was=BoolOr("blocked"))
    counting |= set(by_name.filter(Q(rows__gt=1) | Q(was=True)).values_list("driver", "pool"))
    counting &= keys
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
    twins = snapshot.device_index.twins
    taking = {device.name for device in snapshot.devices if device.counters or device.key in twins}
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
SELECT id, driver, pool, name, node_name, held_by_id, shareable FROM inventory_device
WHERE held_by_id = ANY(%s)
UNION
SELECT d.id, d.driver, d.pool, d.name, d.node_name, d.held_by_id, d.shareable
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
    nodes = {claim.pk: _node_of(claim) for claim in claims}
    for pk, driver, pool, name, node_name, holder, shareable in devices:
        key = (driver, pool, name)
        owner = owners.get(key)
        if owner is not None and node_name and nodes[owner] not in ("", node_name):
            owner = None  # it holds the device of this name on another node
        is_there = holder not in nodes or not node_name or nodes[holder] in ("", node_name)
        keeps = holder is not None and is_there and (holder not in held or key in held[holder])
        if keeps and (shareable or owner in (None, holder)):
            continue
        if owner is not None:
            moved.append(Moved(pk, key, owner))
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
    with connection.cursor() as cursor:
        cursor.execute(MOVED_DEVICES, [write.cluster_id, write.cluster_id])
        moved = [Moved(pk, tuple(key), holder) for pk, *key, holder in cursor]
    if wanted is not None:
        moved = [device for device in moved if device.key in wanted and device.holder is not None]
    _save(write, moved)


def _node_of(claim: ResourceClaim) -> str:
    """Return the node that an allocation is bound to by name, "" without one."""
    match (claim.raw.get("status") or {}).get("allocation"):
        case {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"values": [str(name)]}]}]}}:
            return name
    return ""


# The database reads the allocations: sent to Python, thousands of them would take seconds.
HOLDERS = """
SELECT DISTINCT ON (1, 2, 3)
  result->>'driver' AS driver, result->>'pool' AS pool, result->>'device' AS name, claim.id AS holder,
  claim.raw #>> '{status,allocation,nodeSelector,nodeSelectorTerms,0,matchFields,0,values,0}' AS node
FROM inventory_resourceclaim claim
CROSS JOIN LATERAL (SELECT claim.raw #> '{status,allocation,devices,results}' AS results OFFSET 0) allocation
CROSS JOIN LATERAL jsonb_array_elements(
  CASE jsonb_typeof(results) WHEN 'array' THEN results END
) AS result
WHERE claim.cluster_id = %s AND claim.gone_at IS NULL AND result->>'adminAccess' IS DISTINCT FROM 'true'
ORDER BY 1, 2, 3, claim.id
"""
MOVED_DEVICES = f"""
WITH holders AS MATERIALIZED ({HOLDERS})
SELECT d.id, d.driver, d.pool, d.name, holders.holder
FROM inventory_device d LEFT JOIN holders ON holders.driver = d.driver AND holders.pool = d.pool
  AND holders.name = d.name AND (holders.node IS NULL OR d.node_name IN ('', holders.node))
WHERE d.cluster_id = %s AND d.gone_at IS NULL AND d.held_by_id IS DISTINCT FROM holders.holder
"""  # noqa: S608, made of constants


def holders_of_devices(write: Write) -> dict[DeviceKey, int]:
    """Return the claim that holds each device; for shared devices the oldest row."""
    with connection.cursor() as cursor:
        cursor.execute(HOLDERS, [write.cluster_id])
        return {(driver, pool, name): holder for driver, pool, name, holder, _node in cursor}


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
        _join(write, {(row.driver, row.pool) for row in slices}, slices)
    if rules:
        _join(write, pools_meant(write, rules))
    if isinstance(rows[0], DeviceClass):
        _join(write, pool_keys(write))
    if nodes:
        link_nodes(write, nodes)
    if claims:
        refresh_blocked(write, follow_claims(write, claims))


def _join(write: Write, keys: Iterable[PoolKey], written: Iterable[ResourceSlice] = ()) -> None:
    keys = set(keys)
    if added := refresh_pools(write, keys, written=written):
        find_holders(write, added)
    refresh_blocked(write, keys)


class PageJoin:
    """
    Derives devices while the slices of an empty mirror are listed: those of a page are in memory already.

    A pool that is not complete on one page is left to `join_all`.
    """

    def __init__(self) -> None:
        self.joined: set[PoolKey] = set()
        self._begun: set[PoolKey] = set()  # pools with a slice on an earlier page
        self._holders: dict[DeviceKey, int] | None = None

    def join(self, write: Write, rows: Iterable[ResourceSlice]) -> None:
        """Store the devices of the pools that are complete on this page of slices."""
        if self._holders is None:
            self._holders = holders_of_devices(write)
        slices = {row.name: published(row) for row in rows}
        pools: dict[PoolKey, list[Pool]] = defaultdict(list)  # several parts if nodes share the name
        for pool in gather_pools([row.raw for row in slices.values()]):
            pools[pool.driver, pool.name].append(pool)
        self.joined -= pools.keys()  # they span pages
        complete = {
            key: parts[0]
            for key, parts in pools.items()
            if len(parts) == 1 and parts[0].usable and key not in self._begun
        }
        self._begun |= pools.keys()
        self.joined |= complete.keys()
        join_pools(write, complete, complete.values(), slices, first=True, holders=self._holders)


def join_all(lease: Lease, *, first: bool, joined: Collection[PoolKey] = ()) -> None:
    """
    Derive every device of the cluster again, except those of the pools `joined`: a transaction per 100 pools.

    Holders are compared for all devices at the end, in one pass over the claims: after a crash in between, a
    lookup of only the new devices would miss those that the last run added. A first run stores the holders
    with the rows, which is cheaper than an update.
    """
    with writing(lease) as write:
        keys = pool_keys(write)
        left = [key for key in keys if key not in joined]
        holders = holders_of_devices(write) if first and left else {}
    if not keys:
        return
    for start in range(0, len(left), POOLS_AT_ONCE):
        go_on()
        with writing(lease) as write:
            refresh_pools(write, left[start : start + POOLS_AT_ONCE], first=first, holders=holders)
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
