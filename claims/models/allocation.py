"""Which claim held which device, from when to when: the ground that cost stands on."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from claims.models.claim import Claim
from core.ids import uuid7


class Allocation(models.Model):
    """
    One device, or a share of one, held by a claim from an instant to an instant by the cluster's clock.

    `product`, `partition`, `uuid` and `memory_bytes` are copied from the device, which may change or vanish
    later. `fraction` is the part of a physical device, 0 < fraction ≤ 1, that a partition or share makes up.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="allocations")
    object_uid = models.CharField(max_length=64)  # of the ResourceClaim that holds it
    object_name = models.CharField(max_length=253)
    request = models.CharField(max_length=127)  # "req" or "req/sub"
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    share_id = models.CharField(max_length=64, blank=True, default="")
    node_name = models.CharField(max_length=253, blank=True, default="")
    product = models.CharField(max_length=120, blank=True, default="")
    partition = models.CharField(max_length=64, blank=True, default="")
    uuid = models.CharField(max_length=80, blank=True, default="")
    memory_bytes = models.BigIntegerField(null=True)
    fraction = models.DecimalField(max_digits=9, decimal_places=6, default=1)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("started_at", "device")
        constraints = (
            models.UniqueConstraint(
                fields=["object_uid", "driver", "pool", "device", "share_id"],
                condition=Q(ended_at=None),
                name="allocation_open_once",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(ended_at__gte=F("started_at")),
                name="allocation_ends_after_start",
            ),
            models.CheckConstraint(condition=Q(fraction__gt=0, fraction__lte=1), name="allocation_fraction"),
        )
        indexes = (
            models.Index(fields=["claim"], condition=Q(ended_at=None), name="allocation_open"),
            models.Index(fields=["driver", "pool", "device", "-started_at"], name="allocation_device"),
        )

    def __str__(self) -> str:
        return f"{self.device} of {self.pool}"
