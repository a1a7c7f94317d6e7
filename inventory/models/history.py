"""What came, changed and went, so that nothing that vanished is lost."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from inventory.models.cluster import Cluster


class ObjectEvent(models.Model):
    """One line of history of one mirrored object or device."""

    class What(models.TextChoices):
        APPEARED = "appeared"
        CHANGED = "changed"
        GONE = "gone"

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=40)  # "Node", "Device", "ResourceSlice" …
    name = models.CharField(max_length=400)  # "ns/name"; "driver/pool/device" for a device
    uid = models.CharField(max_length=64, blank=True, default="")
    what = models.CharField(max_length=8, choices=What)
    detail = models.JSONField(default=dict)  # what changed: {"field": [before, after]}
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at", "-pk")
        indexes = (models.Index(fields=["cluster", "kind", "name", "-at"], name="objectevent_of"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.what}"
