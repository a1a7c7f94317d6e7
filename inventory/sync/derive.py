"""What follows from a change of a mirrored kind: device rows, their classes, taints, nodes and holders."""

from collections.abc import Iterable, Sequence

from inventory.models import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from inventory.sync.blocked import refresh_blocked
from inventory.sync.bulk import update_rows
from inventory.sync.holders import find_holders, follow_claims
from inventory.sync.lease import Lease
from inventory.sync.pools import PoolKey, pool_keys, pools_meant, refresh_pools
from inventory.sync.stream import go_on
from inventory.sync.write import Write, writing

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
