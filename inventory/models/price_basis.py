"""What the price of devices depends on, kept for as long as anything was ever billed by it."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID, uuid5

from django.db import models

from dra.price_facts import PriceFacts
from inventory.models.cluster import Cluster

NAMESPACE = UUID("3c1f6a0e-0c0d-4d5b-8c34-6f5a3f0b7d21")


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
        return uuid5(NAMESPACE, "\n".join(map(str, self)))


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
