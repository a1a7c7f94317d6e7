"""Clusters, how fresh the mirror of each of their resources is, and the history of mirrored objects."""

from __future__ import annotations

import re
from typing import Any, ClassVar
from urllib.parse import urlsplit

from cryptography import x509
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator, validate_ipv6_address
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from core.addresses import reason_to_refuse_host
from core.models import uuid7
from dra.features import newer_than_known
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
    if reason := reason_to_refuse_host(host):
        raise ValidationError(reason, code="invalid")
    if "@" in parts.netloc:
        raise ValidationError(
            "Give user and password in their own fields, where they are stored encrypted.", code="secret"
        )


NODE_PLACEHOLDERS = {"{node}": "node", "{address}": "192.0.2.1"}  # with what each is validated


def validate_exporters(text: str) -> None:
    """
    Raise ValidationError unless `text` is addresses of exporters with spaces between them.

    In them `{node}` and `{address}` stand for the name and the InternalIP of each node.
    """
    for address in filter(None, text.split(" ")):  # a line break is refused
        for placeholder, example in NODE_PLACEHOLDERS.items():
            address = address.replace(placeholder, example)
        if "{" in address or "}" in address:
            raise ValidationError("Of names in braces there are {node} and {address}.", code="invalid")
        validate_http_url(address)


def validate_certificates(text: str) -> None:
    """Raise ValidationError unless `text` is empty or certificates in PEM."""
    try:
        is_valid = not text or bool(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValidationError(
            "Enter certificates in PEM, from -----BEGIN CERTIFICATE----- on.", code="invalid"
        )


# As Mimir takes it (https://grafana.com/docs/mimir/latest/configure/about-tenant-ids/); "|" joins several.
validate_tenant = RegexValidator(
    r"\A[\w!.*'()|-]*\Z", "Enter letters, digits and !-_.*'(), several tenants joined by |.", flags=re.ASCII
)


MATCHER = r'[a-zA-Z_]\w*(=|!=|=~|!~)"([^"\\\n]|\\.)*"'
validate_matchers = RegexValidator(
    rf"\A({MATCHER}(,\s*{MATCHER})*)?\Z", 'Enter label matchers such as cluster="fra-1".', flags=re.ASCII
)


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
    # Of exporters, where there is no Prometheus: usage.exporters.
    metrics_url = models.CharField(max_length=2000, blank=True, default="", validators=[validate_exporters])
    # Grams of CO₂ per kWh of its site, with cooling if that counts; None: not known, no CO₂ is shown.
    grams_per_kwh = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(5000)]
    )
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
    def newer_than_known(self) -> str:
        """A sentence if its Kubernetes is newer than the rules that predictions follow, else ""."""
        return newer_than_known(self.version)

    @property
    def telemetry_url(self) -> str:
        """Return the address that telemetry is read from: of Prometheus, otherwise of an exporter; or ""."""
        return self.prometheus_url or self.metrics_url

    @property
    def is_writable(self) -> bool:
        """Return whether the portal may create, change and delete objects in the cluster now."""
        return self.enabled and not self.read_only and not self.halt_reason


class TelemetryAccess(models.Model):
    """
    How the portal identifies itself to the telemetry source of a cluster, and whom it trusts there.

    `sealed` is an encrypted `inventory.telemetry_access.TelemetrySecret`. It is sent only to
    `server`, for which it was given; at another address it must be given again. A cluster without a row reads
    its source without a secret.
    """

    class Kind(models.TextChoices):
        NONE = "", "No authentication"
        TOKEN = "token", "Bearer token"
        PASSWORD = "password", "User and password"
        CERTIFICATE = "certificate", "Client certificate"

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="telemetry_access")
    # Only certificates of this CA are trusted; empty: those that the machine trusts.
    authority = models.TextField(blank=True, default="", validators=[validate_certificates])
    # X-Scope-OrgID of Mimir, Cortex and Loki-like gateways; several tenants are joined by "|".
    tenant = models.CharField(max_length=150, blank=True, default="", validators=[validate_tenant])
    # Of the series of this cluster, where one Prometheus has those of several.
    matchers = models.CharField(max_length=200, blank=True, default="", validators=[validate_matchers])
    timeout_seconds = models.PositiveSmallIntegerField(
        default=10, validators=[MinValueValidator(1), MaxValueValidator(60)]
    )
    kind = models.CharField(max_length=11, choices=Kind, blank=True, default=Kind.NONE, editable=False)
    server = models.CharField(max_length=200, blank=True, default="", editable=False)
    sealed = models.BinaryField(default=b"", editable=False)

    class Meta:
        verbose_name_plural = "telemetry access"

    def __str__(self) -> str:
        return f"telemetry access of {self.cluster}"


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

    `groups` are lists of product, whether it is a whole GPU, state, and number of devices, with False behind
    them where these are no GPUs; `node_pools` and
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


class DraHealth(models.Model):
    """
    What a cluster's Prometheus said last about scheduler, ResourceClaim controller and kubelets.

    `figures` maps the keys of `inventory.dra_health.FIGURES` to numbers; None is a series that Prometheus
    does not have. They stay as they were while it cannot be read: `error` says why, "" after a success.
    `waiting_pods` have waited for devices since `waiting_since` at the longest, by the mirror.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="dra_health")
    started_at = models.DateTimeField(null=True)  # of the last reading
    read_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    figures = models.JSONField(default=dict)
    waiting_pods = models.PositiveIntegerField(default=0)
    waiting_since = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"DRA health of {self.cluster}"


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
