"""Clusters, how fresh the mirror of each of their resources is, and the history of mirrored objects."""

from __future__ import annotations

import re
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_ipv6_address
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from core.models import uuid7
from inventory.states import EndPolicy

# One label is enough: inside a cluster a Service has no domain, as in http://prometheus:9090.
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HOST = re.compile(rf"{LABEL}(\.{LABEL})*\.?", re.ASCII | re.IGNORECASE)


def validate_http_url(url: str) -> None:
    """Raise ValidationError unless it is an http or https URL with a host, which may be a single label."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
        if ":" in host:
            validate_ipv6_address(host)
        is_valid = ":" in host or bool(HOST.fullmatch(host))
    except (ValueError, ValidationError):
        is_valid = False
    if not is_valid or parts.scheme not in ("http", "https") or re.search(r"\s", url):
        raise ValidationError("Enter a URL such as http://prometheus:9090.", code="invalid")


class Cluster(models.Model):
    """
    A Kubernetes cluster that the portal mirrors.

    `uid` is the uid of its `kube-system` namespace and identifies it: credentials that suddenly lead to
    another cluster set `halt_reason`, which stops its sync and leaves the mirror as it was.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=80, blank=True, default="")
    uid = models.CharField(max_length=64, blank=True, default="", editable=False)
    credentials = models.BinaryField(editable=False)  # encrypted, see cluster.credentials
    credentials_expire_at = models.DateTimeField(null=True, editable=False)  # None: they do not say it
    version = models.CharField(max_length=32, blank=True, default="", editable=False)  # "v1.37.1"
    discovery = models.JSONField(default=dict, editable=False)  # optional kinds and their versions
    simulated = models.BooleanField(default=False)
    read_only = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)
    write_quotas = models.BooleanField(default=False)  # the portal enforces quotas there as ResourceQuota
    # Of claims whose profile names none (decision 14).
    end_policy = models.CharField(max_length=5, choices=EndPolicy, default=EndPolicy.RUN)
    prometheus_url = models.CharField(max_length=200, blank=True, default="", validators=[validate_http_url])
    # Of a dcgm-exporter, where there is no Prometheus.
    metrics_url = models.CharField(max_length=200, blank=True, default="", validators=[validate_http_url])
    halt_reason = models.TextField(blank=True, default="", editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)  # of version, discovery and `missing`
    missing = models.JSONField(default=list, editable=False)  # permissions, as "watch nodes"
    revision = models.BigIntegerField(default=0, editable=False)  # grows with every change of its mirror
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    freshness: ClassVar[models.Manager[Freshness]]
    device_count: int  # of `inventory.counts.with_device_counts`
    held_count: int

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(
                fields=["uid"],
                condition=~models.Q(uid=""),
                name="cluster_uid_once",
                violation_error_message="This cluster is known already, under another name.",
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_writable(self) -> bool:
        """Return whether the portal may create, change and delete objects in the cluster now."""
        return self.enabled and not self.read_only and not self.halt_reason


class Freshness(models.Model):
    """
    The age of the mirror of one resource of one cluster.

    `seen_at` is the time of the last response or event, a bookmark included; `error` is the message of the
    last failure, empty after a success. A resource that was never listed has no `listed_at`. `holder` and
    `held_until` are the lease of the worker that follows the resource, see `inventory.sync.session`.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="freshness")
    resource = models.CharField(max_length=40)  # plural, as in the API: "resourceslices"
    resource_version = models.CharField(max_length=40, blank=True, default="")
    listed_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    failures = models.PositiveIntegerField(default=0)  # in a row
    holder = models.CharField(max_length=40, blank=True, default="")
    held_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ("resource",)
        verbose_name_plural = "freshness"
        constraints = (models.UniqueConstraint(fields=["cluster", "resource"], name="freshness_once"),)

    def __str__(self) -> str:
        return f"{self.resource} of {self.cluster}"


class FleetCount(models.Model):
    """
    How many devices a cluster had when its mirror had this revision.

    `groups` are lists of product, whether it is a whole GPU, state, and number of devices; `node_pools` and
    `namespaces` are lists of the pool of the node, or the namespace of the holder, each None without one,
    state, and number. `whole_shapes` are partitions that take all of their GPU, as driver, product and
    partition. `plugin_devices` are GPUs outside DRA, as lists of extended resource, nodes, capacity,
    allocatable and number that running pods requested. `uses` are the numbers of held devices by `DeviceUse`,
    as of the last collection of telemetry.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="fleet_count")
    revision = models.BigIntegerField()
    counted_at = models.DateTimeField(default=timezone.now)
    gpus = models.PositiveIntegerField(default=0)
    nodes = models.PositiveIntegerField(default=0)
    groups = models.JSONField(default=list)
    node_pools = models.JSONField(default=list)
    namespaces = models.JSONField(default=list)
    whole_shapes = models.JSONField(default=list)
    plugin_devices = models.JSONField(default=list)
    uses = models.JSONField(default=dict)
    is_current = True  # whether the mirror has not changed since, as `fleet_counts` found

    def __str__(self) -> str:
        return f"devices of {self.cluster} at revision {self.revision}"

    def values(self) -> dict[str, Any]:
        names = ("gpus", "nodes", "groups", "node_pools", "namespaces", "whole_shapes", "plugin_devices")
        return {name: getattr(self, name) for name in names}


class FleetSpan(models.Model):
    """
    How many GPUs of one product a cluster had from `started_at` to `ended_at`; null is still.

    `parts` are millionths of GPUs, as a partition that an unmanaged claim holds is a fraction of its GPU. The
    spans of one cluster, driver, product, price basis and use follow each other without overlap; a gap had
    none. The basis is that of whole GPUs, whatever their partitions.
    """

    class Use(models.TextChoices):
        AVAILABLE = "available", "available"  # held by claims of the portal, or free
        UNMANAGED = "unmanaged", "held by unmanaged claims"
        OUT_OF_SERVICE = "out-of-service", "out of service"

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    driver = models.CharField(max_length=63)
    product = models.CharField(max_length=120, blank=True)
    basis = models.ForeignKey(
        "inventory.PriceBasis", models.RESTRICT, null=True, related_name="+", db_index=False
    )
    use = models.CharField(max_length=14, choices=Use)
    parts = models.BigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["cluster", "driver", "product", "basis", "use"],
                condition=Q(ended_at=None),
                nulls_distinct=False,
                name="fleetspan_one_open",
            ),
        )
        indexes = (models.Index(fields=["ended_at", "started_at"], name="fleetspan_in"),)

    def __str__(self) -> str:
        return f"{self.parts / 10**6:g} {self.product} {self.get_use_display()}"


class ObjectEvent(models.Model):
    """One entry of the history of a mirrored object or device."""

    class Change(models.TextChoices):
        APPEARED = "appeared"
        CHANGED = "changed"
        GONE = "gone"

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=40)  # "Node", "Device", "ResourceSlice" …
    name = models.CharField(max_length=400)  # "ns/name"; "driver/pool/device" for a device
    uid = models.CharField(max_length=64, blank=True, default="")
    change = models.CharField(max_length=8, choices=Change)
    detail = models.JSONField(default=dict)  # what changed: {"field": [before, after]}
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at", "-pk")
        indexes = (
            models.Index(fields=["cluster", "kind", "name", "-at"], name="objectevent_of"),
            models.Index(fields=["cluster", "at", "id"], name="objectevent_latest"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.change}"
