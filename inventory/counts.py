"""
How many devices each cluster has by product and state, stored after the mirror has changed.

Counting 40,000 devices takes longer than a page may, so `inventory.tasks.count_fleet` stores the counts of
changed clusters. `fleet_counts` returns them while they are current or less than a minute old, and counts
otherwise.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from core.prepared import PreparedObjects
from dra.devices import describe
from dra.pools import DeviceKey
from inventory import fleet_history, price_bases
from inventory.fleet_history import GPU
from inventory.models import Cluster, Device, DeviceUtilization, FleetCount, Node, NodeCount
from inventory.models.device import IS_GPU, DeviceQuerySet
from inventory.plugin_devices import count_plugin_devices
from inventory.states import DeviceState, DeviceUse

MAX_AGE = timedelta(minutes=1)


class DeviceGroup(NamedTuple):
    """A number of devices that have these columns in common."""

    product: str
    is_whole: bool
    state: DeviceState
    devices: int
    is_gpu: bool = True


# Reading.


def fleet_counts(cluster: Cluster | None = None, *, with_places: bool = False) -> dict[UUID, FleetCount]:
    """
    Return the counts of each cluster, or of one, by cluster; one query while they are stored.

    Counts by node pool and namespace may be long: they are read only `with_places`.
    """
    if cluster is not None:
        rows = STORED_COUNTS_OF_ONE.objects(cluster.pk)
    else:
        rows = (STORED_COUNTS_WITH_PLACES if with_places else STORED_COUNTS).objects()
    since = timezone.now() - MAX_AGE
    counts: dict[UUID, FleetCount | None] = {}
    for row in rows:
        stored: FleetCount | None = getattr(row, "fleet_count", None)
        if stored is not None:
            stored.is_current = stored.revision == row.revision
        usable = stored and (stored.is_current or stored.counted_at > since)
        counts[row.pk] = stored if usable else None
    missing = [pk for pk, stored in counts.items() if stored is None]
    counted = count_devices(missing) if missing else {}
    return {pk: stored or counted[pk] for pk, stored in counts.items()}


def counted_at(counts: Iterable[FleetCount]) -> datetime | None:
    """Return since when the mirror may have more than the oldest of these counts; None if all are current."""
    return min((row.counted_at for row in counts if not row.is_current), default=None)


PLACES = ("node_pools", "namespaces")


def _stored_counts(*, with_places: bool = False) -> QuerySet[Cluster]:
    unread = () if with_places else [f"fleet_count__{name}" for name in PLACES]
    clusters = Cluster.objects.order_by("name").select_related("fleet_count")
    return clusters.defer("credentials", "discovery", *unread)


STORED_COUNTS: PreparedObjects[Cluster] = PreparedObjects(_stored_counts)
STORED_COUNTS_WITH_PLACES: PreparedObjects[Cluster] = PreparedObjects(
    lambda: _stored_counts(with_places=True)
)
STORED_COUNTS_OF_ONE: PreparedObjects[Cluster] = PreparedObjects(
    lambda pk: _stored_counts().filter(pk=pk), UUID
)


def device_groups(counts: Iterable[FleetCount]) -> list[tuple[UUID, DeviceGroup]]:
    return [(row.cluster_id, DeviceGroup(*group)) for row in counts for group in row.groups]


def with_device_counts(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Set `device_count` and `held_count` of each cluster."""
    clusters, counts = list(clusters), fleet_counts()
    for cluster in clusters:
        groups = [group for _cluster, group in device_groups([counts[cluster.pk]])]
        cluster.device_count = sum(group.devices for group in groups)
        cluster.held_count = sum(group.devices for group in groups if group.state == DeviceState.IN_USE)
    return clusters


# Counting.


def count_devices(clusters: Collection[UUID]) -> dict[UUID, FleetCount]:
    """Count the devices of these clusters, in a fixed number of queries."""
    # The revision is read first: what is written meanwhile has a newer one, and is counted again.
    revisions = Cluster.objects.filter(pk__in=clusters).order_by().values_list("pk", "revision")
    counts = {pk: FleetCount(cluster_id=pk, revision=revision) for pk, revision in revisions}
    devices = Device.objects.present().filter(cluster__in=list(counts))
    for pk, *shape in _whole_shapes(devices):
        counts[pk].whole_shapes.append(shape)
    _count_groups(devices, counts)
    numbers = (
        devices.order_by()
        .values("cluster")
        .annotate(gpus=Count(GPU, filter=IS_GPU, distinct=True), nodes=Count("node_name", distinct=True))
    )
    for row in numbers:
        counts[row["cluster"]].gpus, counts[row["cluster"]].nodes = row["gpus"], row["nodes"]
    for pk, rows in count_plugin_devices(list(counts)).items():
        counts[pk].plugin_devices = rows
    return counts


COUNTED_BY = {
    "groups": ("product", "is_whole"),
    "node_pools": ("node__node_pool",),
    "namespaces": ("held_by__namespace",),
}


def _count_groups(devices: DeviceQuerySet, counts: Mapping[UUID, FleetCount]) -> None:
    """Set the numbers of devices of COUNTED_BY, each by state; one query reads the devices once for all."""
    columns = ("cluster", "state", "is_gpu", *chain.from_iterable(COUNTED_BY.values()))
    numbers: Counter[tuple[UUID, str, tuple[Any, ...], tuple[bool, ...]]] = Counter()
    shown = devices.annotate(is_whole=is_whole(counts.values()), is_gpu=IS_GPU)
    for *values, number in shown.count_by(*columns):
        row = dict(zip(columns, values, strict=True))
        for name, by in COUNTED_BY.items():
            other: tuple[bool, ...] = (False,) if name != "node_pools" and not row["is_gpu"] else ()
            numbers[row["cluster"], name, (*(row[column] for column in by), row["state"]), other] += number
    for (pk, name, group, other), number in sorted(numbers.items(), key=lambda item: repr(item[0])):
        getattr(counts[pk], name).append([*group, number, *other])


def is_whole(counts: Iterable[FleetCount]) -> Q:
    """Return the condition of a whole GPU: no parent, or the only partition, which takes all of its GPU."""
    others = Device.objects.present().filter(
        Q(node_name__gt="") | Q(pool=OuterRef("pool")),
        ~Q(pk=OuterRef("pk")),
        cluster=OuterRef("cluster"),
        node_name=OuterRef("node_name"),
        parent_uuid=OuterRef("parent_uuid"),
    )
    takes_all = Q(pk__in=[])
    for row in counts:
        for driver, product, partition in row.whole_shapes:
            takes_all |= Q(cluster=row.cluster_id, driver=driver, product=product, partition=partition)
    return Q(parent_uuid="") | (takes_all & Q(~Exists(others)))


def _whole_shapes(devices: DeviceQuerySet) -> list[tuple[UUID, str, str, str]]:
    """Return which partitions, by (cluster, driver, product, partition), take all of their GPU."""
    named = ("cluster", "driver", "product", "partition")
    one_of_each = devices.exclude(parent_uuid="").order_by(*named).distinct(*named)
    return [
        (cluster, driver, product, partition)
        for cluster, driver, product, partition, attributes, capacity, counters in one_of_each.values_list(
            *named, "attributes", "capacity", "counters"
        )
        if describe(
            driver, {"attributes": attributes, "capacity": capacity, "consumesCounters": counters}
        ).fraction
        == 1
    ]


# Writing.


def store_counts(*, changed_only: bool = True) -> int:
    """
    Count clusters, by default those that have changed since, and return how many counts differed.

    What a count found is recorded in the history of the fleet too.
    """
    clusters = Cluster.objects.order_by()
    if changed_only:
        clusters = clusters.exclude(fleet_count__revision=F("revision"))
    differing = 0
    for pk in clusters.values_list("pk", flat=True):
        for row in count_devices([pk]).values():
            differing += row.values() != _stored_values(pk)
            columns = {"revision": row.revision, "counted_at": row.counted_at, **row.values()}
            FleetCount.objects.update_or_create(cluster_id=pk, defaults=columns)
            price_bases.record(pk)
            fleet_history.record(pk, fleet_history.count_parts(pk), now=row.counted_at)
        differing += store_node_counts(pk)
    return differing


def with_figures(nodes: QuerySet[Node]) -> QuerySet[Node]:
    """Annotate the numbers of devices of each node: `device_count`, `held_count` and `free_count`."""
    here = Device.objects.present().filter(node=OuterRef("pk")).order_by()

    def number(devices: DeviceQuerySet) -> Coalesce:
        return Coalesce(Subquery(devices.values("node").annotate(count=Count("*")).values("count")), 0)

    return nodes.annotate(
        device_count=number(here),
        held_count=number(here.in_state(DeviceState.IN_USE)),
        free_count=number(here.in_state(DeviceState.FREE)),
    )


# Devices of each node of a cluster, counted in one pass over its devices.
NODE_COUNTS = """
SELECT node.id, coalesce(counted.devices, 0), coalesce(counted.held, 0), coalesce(counted.free, 0)
FROM inventory_node node LEFT JOIN ({}) AS counted(id, devices, held, free) ON counted.id = node.id
WHERE node.cluster_id = %s AND node.gone_at IS NULL
"""
STORE_NODE_COUNTS = """
INSERT INTO inventory_nodecount AS old (node_id, devices, held, free) {} ORDER BY node.id
ON CONFLICT (node_id) DO UPDATE SET devices = EXCLUDED.devices, held = EXCLUDED.held, free = EXCLUDED.free
WHERE (old.devices, old.held, old.free) <> (EXCLUDED.devices, EXCLUDED.held, EXCLUDED.free)
"""


def _node_counts(cluster_id: UUID) -> tuple[str, tuple[Any, ...]]:
    devices = Device.objects.present().filter(cluster=cluster_id).exclude(node=None).order_by()
    states = devices.with_state().values("node")
    counted = states.annotate(
        devices=Count("pk"),
        held=Count("pk", filter=Q(state=DeviceState.IN_USE)),
        free=Count("pk", filter=Q(state=DeviceState.FREE)),
    )
    text, values = counted.values_list("node", "devices", "held", "free").query.sql_with_params()
    return NODE_COUNTS.format(text), (*values, cluster_id)


def store_node_counts(cluster_id: UUID) -> int:
    """Store the counts of the nodes of a cluster that differ; return how many did."""
    text, values = _node_counts(cluster_id)
    with connection.cursor() as cursor:
        cursor.execute(STORE_NODE_COUNTS.format(text), values)
        return int(cursor.rowcount)


def find_differences() -> int:
    """Count all clusters, change nothing, and return how many stored counts differ."""
    clusters = list(Cluster.objects.values_list("pk", flat=True))
    differing = sum(row.values() != _stored_values(pk) for pk, row in count_devices(clusters).items())
    stored = {row[0]: row for row in NodeCount.objects.values_list("node", "devices", "held", "free")}
    with connection.cursor() as cursor:
        for pk in clusters:
            cursor.execute(*_node_counts(pk))
            differing += sum(stored.get(row[0]) != row for row in cursor.fetchall())
    return differing


def store_uses(cluster_id: UUID, uses: Mapping[DeviceKey, tuple[DeviceUse, datetime]]) -> None:
    """
    Store which held devices of a cluster are idle or not measured, and since when; the rest is in use.

    A row that says the same of the same holder keeps its time.
    """
    held = Device.objects.present().filter(cluster=cluster_id).exclude(held_by=None).order_by()
    rows: dict[UUID, DeviceUtilization] = {}
    for pk, held_by, driver, pool, name in held.values_list("pk", "held_by", "driver", "pool", "name"):
        if use := uses.get((driver, pool, name)):
            rows[pk] = DeviceUtilization(device_id=pk, held_by_id=held_by, use=use[0], since=use[1])
    stored = DeviceUtilization.objects.filter(device__cluster=cluster_id)
    with transaction.atomic():
        kept = {row.pk: row for row in stored.filter(pk__in=rows)}
        stored.exclude(pk__in=rows).delete()
        DeviceUtilization.objects.bulk_create(
            [row for pk, row in rows.items() if pk not in kept or not row.says_same(kept[pk])],
            update_conflicts=True,
            unique_fields=["device"],
            update_fields=["held_by", "use", "since"],
        )
        counted = Counter(row.use for row in rows.values())
        FleetCount.objects.filter(cluster=cluster_id).update(
            uses={use.value: counted[use] for use in DeviceUse}
        )


def _stored_values(cluster_id: UUID) -> dict[str, Any] | None:
    stored = FleetCount.objects.filter(cluster=cluster_id).first()
    return stored.values() if stored else None
