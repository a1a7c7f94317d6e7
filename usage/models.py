"""Rates of devices, and measurements of held devices."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from claims.models import Claim
from core.models import uuid7
from inventory.models import Cluster


class Rate(models.Model):
    """
    Price per hour of a whole matching device from a date on. The most specific rate wins, then the newest.

    Empty `product`, `driver` or null `cluster` match everything; `product` matches by its words, short or in
    full (`dra.devices.vendors.names_product`). A partition costs its fraction of the device.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    title = models.CharField("title", max_length=80)
    cluster = models.ForeignKey(
        Cluster, models.CASCADE, null=True, blank=True, related_name="+", verbose_name="cluster"
    )
    driver = models.CharField("driver", max_length=63, blank=True, default="")
    product = models.CharField("product", max_length=120, blank=True, default="")
    per_hour = models.DecimalField("price per hour", max_digits=12, decimal_places=4)
    currency = models.CharField("currency", max_length=3, default="EUR")
    valid_from = models.DateTimeField("valid from")

    class Meta:
        ordering = ("product", "-valid_from")
        constraints = (
            models.CheckConstraint(condition=Q(per_hour__gte=0), name="rate_not_negative"),
            models.CheckConstraint(condition=Q(currency__regex="^[A-Z]{3}$"), name="rate_currency_iso"),
        )

    def __str__(self) -> str:
        return f"{self.title}: {self.per_hour} {self.currency} / h"


class Rollup(models.Model):
    """
    Five minutes of one device of one claim. A bucket without samples has no row, which is "no telemetry".

    `activity` is the mean of 0 to 1 (DCGM_FI_PROF_GR_ENGINE_ACTIVE, else GPU_UTIL / 100), `memory_bytes` the
    maximum, `power_watts` the mean of the physical GPU. Each is null if the exporter did not publish it.
    """

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="rollups")
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    bucket = models.DateTimeField()  # its start, a multiple of 5 minutes
    samples = models.PositiveIntegerField(default=0)
    activity = models.FloatField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    power_watts = models.FloatField(null=True)

    class Meta:
        ordering = ("bucket",)
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "driver", "pool", "device", "bucket"], name="rollup_once"
            ),
        )
        indexes = (models.Index(fields=["bucket"], name="rollup_bucket"),)

    def __str__(self) -> str:
        return f"{self.device} {self.bucket:%H:%M}"


class Collection(models.Model):
    """
    The result of the last collection of a cluster's telemetry, one row per cluster.

    A run sets `sampled_at` before it reads, so that only one of two concurrent runs counts samples.
    `error` is the message of the last failure, empty after a success.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="collection")
    sampled_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    devices = models.PositiveIntegerField(default=0)  # measured in the last successful collection
    attributed = models.PositiveIntegerField(default=0)  # of these, held by a claim
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"telemetry of {self.cluster}"
