"""One row per object of a mirrored kind, with the API object in `raw`."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone

from inventory.models.cluster import Cluster


class Mirrored(models.Model):
    """
    The last known state of a Kubernetes object. The row of a deleted object stays, with `gone_at`.

    `raw` is the API object without `metadata.managedFields`; for pods and nodes it has only what the portal
    reads. The UID is the identity: an object that is recreated under the same name is another row. `revision`
    is that of the cluster at the time of the write, so that readers can query only new rows.
    """

    id = models.BigAutoField(primary_key=True)
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)  # `_once` has it
    uid = models.CharField(max_length=64)
    name = models.CharField(max_length=253)
    labels = models.JSONField(default=dict)
    raw = models.JSONField(default=dict)
    resource_version = models.CharField(max_length=40, default="")
    created_at = models.DateTimeField(null=True)  # metadata.creationTimestamp
    seen_at = models.DateTimeField(default=timezone.now)  # of its last change
    gone_at = models.DateTimeField(null=True)
    revision = models.BigIntegerField(default=0)

    class Meta:
        abstract = True
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=["cluster", "uid"], name="%(class)s_once"),)
        indexes: ClassVar[tuple[models.Index, ...]] = (
            models.Index(fields=["cluster", "name"], condition=Q(gone_at=None), name="%(class)s_name"),
            models.Index(fields=["cluster", "revision"], name="%(class)s_rev"),
        )

    def __str__(self) -> str:
        return self.name


class Namespaced(Mirrored):
    namespace = models.CharField(max_length=63)

    class Meta(Mirrored.Meta):
        abstract = True
        indexes: ClassVar[tuple[models.Index, ...]] = (
            models.Index(
                fields=["cluster", "namespace", "name"], condition=Q(gone_at=None), name="%(class)s_name"
            ),
            models.Index(fields=["cluster", "revision"], name="%(class)s_rev"),
        )


class Ownership(models.IntegerChoices):
    """
    Whether an object belongs to a claim of the portal; the sync stores it, from `settings.OBJECT_OWNERSHIP`.

    Readers compare an object themselves if it is not compared yet.
    """

    NOT_COMPARED = 0
    UNMANAGED = 1
    RELATED = 2  # a claim names it, but is over or has another name: it counts as unmanaged use
    MANAGED = 3


class ObjectKey(NamedTuple):
    """The columns that decide who owns an object. Anybody can write the label that `owner` comes from."""

    uid: str
    namespace: str
    name: str
    owner: str


class Owned(Namespaced):
    """An object that a claim may own. `owner` is its id, from label `gpu.dragoman.dev/claim`."""

    owner = models.CharField(max_length=64, blank=True, default="")
    ownership = models.PositiveSmallIntegerField(
        choices=Ownership, default=Ownership.NOT_COMPARED, db_default=Ownership.NOT_COMPARED
    )

    class Meta(Namespaced.Meta):
        abstract = True
        indexes: ClassVar[tuple[models.Index, ...]] = (
            *Namespaced.Meta.indexes,
            models.Index(fields=["owner"], condition=~Q(owner=""), name="%(class)s_owner"),
            models.Index(
                fields=["cluster", "namespace"],
                condition=Q(gone_at=None, ownership__lt=Ownership.MANAGED),
                name="%(class)s_unowned",
            ),
        )


class Namespace(Mirrored):
    """Its labels decide on adminAccess and admission policies."""


class Node(Mirrored):
    """
    `ready` is the Ready condition; `unschedulable` is a cordon, shown as maintenance; `node_pool` is named by
    the first label of NODE_POOL_LABELS that the node has, "" without one. `labels_key` is equal for nodes on
    which prices cannot differ (`dra.price_facts`). `plugin_devices` are GPUs outside DRA: [capacity,
    allocatable] by extended resource.
    """

    node_pool = models.CharField(max_length=63, blank=True, default="")
    labels_key = models.CharField(max_length=32, blank=True, default="")
    ready = models.BooleanField(default=False)
    unschedulable = models.BooleanField(default=False)
    plugin_devices = models.JSONField(default=dict)

    class Meta(Mirrored.Meta):
        indexes: ClassVar[tuple[models.Index, ...]] = (
            *Mirrored.Meta.indexes,
            models.Index(fields=["name", "id"], condition=Q(gone_at=None), name="node_by_name"),  # the list
            models.Index(
                fields=["cluster"],
                condition=Q(gone_at=None) & ~Q(plugin_devices={}),
                name="node_with_plugin",
            ),
        )


class DeviceClass(Mirrored):
    extended_resource = models.CharField(max_length=253, blank=True, default="")

    class Meta(Mirrored.Meta):
        verbose_name_plural = "device classes"


class ResourceSlice(Mirrored):
    """
    Only slices of the newest generation of a pool count, and only if `pool_slices` of them are mirrored.
    """

    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    generation = models.BigIntegerField()
    pool_slices = models.PositiveIntegerField()
    node_name = models.CharField(max_length=253, blank=True, default="")

    class Meta(Mirrored.Meta):
        indexes = (
            *Mirrored.Meta.indexes,
            models.Index(fields=["cluster", "driver", "pool"], condition=Q(gone_at=None), name="slice_pool"),
        )


class DeviceTaintRule(Mirrored):
    """spec.deviceSelector and spec.taint are in `raw`."""


class ResourceClaim(Owned):
    """
    `origin` is who created it.

    `state` is what kubectl shows: pending, allocated, or "allocated,reserved", with "deleted," in front while
    deleting.
    """

    class Origin(models.TextChoices):
        PORTAL = "portal"
        TEMPLATE = "template"
        EXTENDED_RESOURCE = "extended-resource"
        FOREIGN = "foreign"

    state = models.CharField(max_length=40, default="pending")
    origin = models.CharField(max_length=17, choices=Origin, default=Origin.FOREIGN)
    deleting_since = models.DateTimeField(null=True)
    allocated_at = models.DateTimeField(
        null=True
    )  # status.allocation.allocationTimestamp, else when first seen

    class Meta(Owned.Meta):
        indexes = (
            *Owned.Meta.indexes,
            models.Index(fields=["cluster", "state"], condition=Q(gone_at=None), name="resourceclaim_state"),
        )


class ResourceClaimTemplate(Owned):
    """Kubernetes generates the names of its claims."""


class Pod(Namespaced):
    """
    A pod that refers to a ResourceClaim or template, or requests devices by extended resources.

    `claims` are names of ResourceClaims in its namespace; `extended` maps each extended resource to the
    requested number.

    `events_at` is when its Events were last listed (`inventory.events`).
    """

    node_name = models.CharField(max_length=253, blank=True, default="")
    phase = models.CharField(max_length=16, blank=True, default="")
    message = models.TextField(blank=True, default="")  # of the PodScheduled condition while it waits
    claims = models.JSONField(default=list)
    templates = models.JSONField(default=list)
    extended = models.JSONField(default=dict)
    deleting_since = models.DateTimeField(null=True)
    events_at = models.DateTimeField(null=True)

    class Meta(Namespaced.Meta):
        indexes = (
            *Namespaced.Meta.indexes,
            GinIndex(fields=["claims"], name="pod_claims"),
            models.Index(
                fields=["cluster"],
                condition=Q(gone_at=None) & (Q(phase__in=("", "Pending")) | Q(deleting_since__isnull=False)),
                name="pod_moving",
            ),
            models.Index(fields=["cluster", "gone_at"], condition=~Q(gone_at=None), name="pod_gone"),
            models.Index(
                fields=["cluster", "namespace"],
                condition=Q(gone_at=None) & ~Q(extended={}),
                name="pod_extended",
            ),
            models.Index(
                fields=["cluster", "node_name"],
                condition=Q(gone_at=None) & ~Q(extended={}),
                name="pod_extended_on_node",
            ),
        )


class PodEvent(models.Model):
    """
    A Kubernetes Event of a pod: one row per reason and message, the latest few of each pod.

    `count` is the number of occurrences from `first_at` to `last_at`, by the clock of the cluster.
    """

    pod = models.ForeignKey(Pod, models.CASCADE, related_name="events")
    reason = models.CharField(max_length=128)
    message = models.TextField(blank=True, default="")
    source = models.CharField(max_length=253, blank=True, default="")  # "default-scheduler", "kubelet" …
    warning = models.BooleanField(default=True)
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        ordering = ("-last_at", "-pk")

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"
