"""Devices of the newest complete generation of every pool, one row each, and what their price depends on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid5

from django.contrib.postgres.indexes import GinIndex
from django.core.checks import CheckMessage
from django.db import models
from django.db.models import Case, Exists, Expression, F, OuterRef, Q, Value, When
from django.db.models.functions import Concat, Lower
from django.utils import timezone

from core.models import uuid7
from dra.devices import GPU_DRIVERS, VENDORS
from dra.price_facts import PriceFacts
from inventory.models.cluster import Cluster
from inventory.models.mirror import Node, ResourceClaim, ResourceSlice
from inventory.states import LOOKS, DeviceState, DeviceStateStyle, DeviceUse, Holder


class StoredColumn(models.GeneratedField):
    """A generated column whose model check needs no connection: PostgreSQL 12 and later store it."""

    def _check_supported(self, databases: object) -> list[CheckMessage]:
        return []


class NodesAreMirrored(Expression):
    """Whether the cluster of the device has nodes in the mirror. Built late: here no model is loaded."""

    conditional = True

    def resolve_expression(self, *args: Any, **options: Any) -> Any:
        nodes = Node.objects.filter(cluster=OuterRef("cluster"), gone_at=None)
        return Exists(nodes).resolve_expression(*args, **options)


NODE_IS_GONE = Q(node=None) & ~Q(node_name="") & Q(NodesAreMirrored(output_field=models.BooleanField()))
STATES: dict[DeviceState, Q] = {
    DeviceState.IN_USE: Q(held_by__isnull=False),
    DeviceState.UNHEALTHY: Q(condition="unhealthy"),
    DeviceState.INCOMPLETE: Q(pool_complete=False),
    DeviceState.TAINTED: Q(condition="tainted"),
    DeviceState.NOT_READY: Q(node__ready=False) | NODE_IS_GONE,
    DeviceState.CORDONED: Q(node__unschedulable=True),
    DeviceState.BLOCKED: Q(blocked=True),
}


def gpu_where(name: str, of: str = "") -> Q:
    """Return `dra.devices.is_gpu` of rows, read through `of`, with the device's name in the column `name`."""
    known = Q((f"{of}memory_bytes__isnull", False)) & ~Q((f"{of}product__in", ["", F(f"{of}{name}")]))
    of_gpus, of_vendors = (Q((f"{of}driver__in", sorted(names))) for names in (GPU_DRIVERS, VENDORS))
    return of_gpus | (~of_vendors & known)


IS_GPU = gpu_where("name")

# A `DeviceState`: the first that applies in `STATES` wins, so every device has one state and the totals add
# up. A held device is in use, whatever else is wrong with it.
STATE = Case(
    *(When(condition, then=Value(state)) for state, condition in STATES.items()),
    default=Value(DeviceState.FREE),
    output_field=models.CharField(),
)
# What was measured of an earlier holder says nothing.
CURRENT_USE = Q(utilization__held_by=F("held_by"))


class DeviceQuerySet(models.QuerySet["Device"]):
    def present(self) -> Self:
        return self.filter(gone_at=None)

    def with_state(self) -> Self:
        """Annotate `state`, which joins the node."""
        return self.annotate(state=STATE)

    def gpus(self) -> Self:
        """Return GPUs and parts of them: no network interface, no IMEX channel, nothing else."""
        return self.filter(IS_GPU)

    def with_use(self, *, visible: bool = True) -> Self:
        """
        Annotate `use`, a `DeviceUse`, "" for a device that is in use or not held, or if it is not `visible`.

        Only platform admins see how busy the devices of other teams are.
        """
        use = Case(When(CURRENT_USE, then=F("utilization__use")), default=Value(""))
        return self.annotate(use=use if visible else Value(""))

    def in_use(self, use: str) -> Self:
        return self.filter(CURRENT_USE, utilization__use=use)

    def in_state(self, *states: str) -> Self:
        """Return the devices in one of these states, by conditions for which PostgreSQL has statistics."""
        wanted = Q(pk__in=[])
        before = Q()
        for state, condition in STATES.items():
            if state in states:
                wanted |= before & condition
            before &= ~condition
        return self.filter(wanted | before if DeviceState.FREE in states else wanted)

    def count_by(self, *fields: str) -> Iterator[tuple[Any, ...]]:
        """Yield a tuple per combination of these fields ("state" is one), the number of devices last."""
        groups = self.with_state().order_by().values(*fields).annotate(devices=models.Count("pk"))
        for group in groups:
            yield (*(group[field] for field in fields), group["devices"])

    def for_list(self) -> Self:
        """Load everything that a row shows; reading anything else raises instead of querying."""
        return (
            self.select_related("cluster", "held_by")
            .defer("attributes", "capacity", "counters", "search", "cluster__credentials", "held_by__raw")
            .with_state()
            .fetch_mode(models.FETCH_RAISE)
        )


class Device(models.Model):
    """
    A device, identified by (cluster, driver, pool, name).

    Nodes that share the name of a pool may publish devices of equal names: each has its row, with the node in
    its key. Kubernetes takes them for one device, so while one of them is held the others are `blocked`.

    `dra.devices.describe` reads `product`, `memory_bytes`, `uuid`, `partition` and `parent_uuid`; unknown is
    empty or null, never 0. `taints` joins those of the slice and of DeviceTaintRules, each with its `source`.
    `pool_complete` is False while slices of the newest generation are missing: Kubernetes then allocates none
    of them. `condition` summarizes the taints. `held_by` is one claim that holds it; a shareable device may
    have more.
    """

    class Condition(models.TextChoices):
        GOOD = "good", "good"
        TAINTED = "tainted", "tainted"
        UNHEALTHY = "unhealthy", "unhealthy"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="devices", db_index=False)
    slice = models.ForeignKey(ResourceSlice, models.CASCADE, related_name="devices")
    node = models.ForeignKey(Node, models.SET_NULL, null=True, related_name="devices", db_index=False)
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    name = models.CharField(max_length=63)
    node_name = models.CharField(max_length=253, blank=True, default="")
    product = models.CharField(max_length=120, blank=True, default="")
    kind = models.CharField(max_length=32, blank=True, default="")  # the driver's `type`: gpu, mig, vfio …
    partition = models.CharField(max_length=64, blank=True, default="")  # MIG profile or partition type
    uuid = models.CharField(max_length=80, blank=True, default="")
    parent_uuid = models.CharField(max_length=80, blank=True, default="")
    memory_bytes = models.BigIntegerField(null=True)
    attributes = models.JSONField(default=dict)
    capacity = models.JSONField(default=dict)
    counters = models.JSONField(default=list)  # consumesCounters of the slice
    taints = models.JSONField(default=list)
    condition = models.CharField(max_length=9, choices=Condition, default=Condition.GOOD)
    shareable = models.BooleanField(default=False)
    blocked = models.BooleanField(default=False)  # other partitions use what it needs; see above
    pool_complete = models.BooleanField(default=True)
    classes = models.JSONField(default=list)  # names of DeviceClasses whose selectors it meets
    held_by = models.ForeignKey("inventory.ResourceClaim", models.SET_NULL, null=True, related_name="devices")
    # The searched text, lower-case: comparing one text is several times as fast as seven columns. See
    # `inventory.device_search`.
    search = StoredColumn(
        expression=Lower(
            Concat(
                *("name", Value(" "), "node_name", Value(" "), "pool", Value(" "), "product", Value(" ")),
                *("uuid", Value(" "), "parent_uuid", Value(" "), "partition"),
            )
        ),
        output_field=models.TextField(),
        db_persist=True,
    )
    appeared_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)
    gone_at = models.DateTimeField(null=True)

    objects = DeviceQuerySet.as_manager()

    class Meta:
        ordering = ("node_name", "name")
        constraints = (
            models.UniqueConstraint(
                fields=["cluster", "driver", "pool", "name", "node_name"], name="device_once"
            ),
        )
        indexes = (
            models.Index(
                fields=["node_name", "name", "id"],
                include=["search"],
                condition=Q(gone_at=None),
                name="device_by_node",
            ),
            models.Index(
                fields=["product", "partition", "id"], condition=Q(gone_at=None), name="device_by_product"
            ),
            models.Index(
                fields=["product", "cluster", "node_name", "pool", "name"],
                condition=Q(gone_at=None),
                name="device_on_map",
            ),
            models.Index(
                fields=["node"],
                include=["held_by", "condition", "pool_complete", "blocked", "gone_at"],
                name="device_of_node",
            ),
            models.Index(
                fields=["cluster", "parent_uuid"],
                condition=Q(gone_at=None) & ~Q(parent_uuid=""),
                name="device_of_gpu",
            ),
            models.Index(
                fields=["cluster", "pool"],
                condition=Q(gone_at=None) & ~Q(counters=[]),
                name="device_counting",
            ),
            GinIndex(fields=["classes"], name="device_classes"),
        )

    state: str  # of `with_state`
    holder: Holder | None  # of `inventory.holders.name_holders`

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"

    @property
    def look(self) -> DeviceStateStyle:
        return LOOKS[getattr(self, "use", "") or self.state]

    @property
    def short_partition(self) -> str:
        """Return the part of a partition's name that tells its size: "2g" of "2g.20gb"."""
        return self.partition.partition(".")[0]


class SliceText(models.Model):
    """
    The words of the devices of a ResourceSlice that can be searched, lower-case and each once.

    A slice without devices has no row. `inventory.device_search.store_texts` is the only writer.
    """

    slice = models.OneToOneField(ResourceSlice, models.CASCADE, primary_key=True, related_name="device_text")
    text = models.TextField()

    def __str__(self) -> str:
        return f"{self.slice_id}: {self.text[:40]}"


class NodeCount(models.Model):
    """
    How many devices a node had when its cluster was counted last; lists are sorted by it.

    `free` are those in the state `DeviceState.FREE`. `inventory.counts.store_node_counts` is the only
    writer.
    """

    node = models.OneToOneField(Node, models.CASCADE, primary_key=True, related_name="count")
    devices = models.PositiveIntegerField()
    held = models.PositiveIntegerField()
    free = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.node_id}: {self.free} free of {self.devices}"


class DeviceUtilization(models.Model):
    """
    A held device that is idle, or of which nothing is measured; other devices have no row.

    `held_by` is its holder at that time. `inventory.counts.store_uses` is the only writer.
    """

    device = models.OneToOneField(Device, models.CASCADE, primary_key=True, related_name="utilization")
    held_by = models.ForeignKey(ResourceClaim, models.CASCADE, related_name="+")
    use = models.CharField(max_length=12, choices=DeviceUse)
    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.device_id}: {self.use}"

    def says_same(self, other: DeviceUtilization) -> bool:
        return (self.held_by_id, self.use) == (other.held_by_id, other.use)


class HardwareEvent(models.Model):
    """
    What the exporter reported of a device at `at`, when it was read: an XID with its `code`, or `count`
    errors of memory. It stays when the device is gone. `usage.counters` is the only writer.
    """

    class Kind(models.TextChoices):
        XID = "xid", "XID"
        ECC = "ecc", "uncorrected ECC error"
        REMAPPED = "remapped", "row of memory remapped"
        REMAP_FAILED = "remap-failed", "row of memory not remapped"

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    at = models.DateTimeField()
    kind = models.CharField(max_length=12, choices=Kind)
    code = models.PositiveIntegerField(null=True)
    count = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("-at", "kind")
        constraints = (
            models.UniqueConstraint(
                fields=["cluster", "driver", "pool", "device", "at", "kind"], name="hardwareevent_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.device} {self.kind} {self.code or self.count}"


# Price bases: kept for as long as anything was ever billed by them.

PRICE_BASES = UUID("3c1f6a0e-0c0d-4d5b-8c34-6f5a3f0b7d21")


class BasisKey(NamedTuple):
    """What makes devices of a cluster alike for a price; `labels_key` is that of their node, "" without."""

    cluster: UUID
    driver: str
    product: str
    partition: str
    labels_key: str

    @property
    def pk(self) -> UUID:
        """The id of the row: devices that are alike have it, whether or not the row exists."""
        return uuid5(PRICE_BASES, "\n".join(map(str, self)))


class PriceBasis(models.Model):
    """
    Devices of one cluster that are alike for a price: what an expression of a rate reads.

    Never changed, but for `devices`, the number of those that are mirrored now. `inventory.price_bases` is
    the only writer; `labels_key` is that of `node_labels`.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    driver = models.CharField(max_length=63)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
    labels_key = models.CharField(max_length=32, blank=True)
    capacity_type = models.CharField(max_length=9, blank=True)
    node_labels = models.JSONField(default=dict)
    devices = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.product} {self.partition} {self.capacity_type}".strip()

    def facts(self, cluster: str) -> PriceFacts:
        """Return what expressions read; `cluster` is the name of its cluster."""
        return PriceFacts(
            cluster, self.driver, self.product, self.partition, self.capacity_type, self.node_labels
        )
