"""
The price bases of the devices of a cluster: what rates with an expression are evaluated on, once for each.

A basis is added when a device like it is counted or held for the first time, and stays: a device that is gone
keeps its price.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Value
from django.db.models.functions import Coalesce

from dra.price_facts import capacity_type, shared_labels
from inventory.models import BasisKey, Device, Node, PriceBasis
from inventory.signals import price_bases_added

LABELS_KEY = Coalesce("node__labels_key", Value(""))


def basis_of(device: Device) -> BasisKey:
    """Return the basis of a device; its node is read if it is not loaded."""
    labels_key = device.node.labels_key if device.node else ""
    return BasisKey(device.cluster_id, device.driver, device.product, device.partition, labels_key)


def add(keys: Iterable[BasisKey]) -> None:
    """Add the bases that do not exist. Receivers of `price_bases_added` run in the same transaction."""
    wanted = {key.pk: key for key in keys}
    known = set(PriceBasis.objects.filter(pk__in=wanted).values_list("pk", flat=True))
    missing = {pk: key for pk, key in wanted.items() if pk not in known}
    if not missing:
        return
    labels = _labels(missing.values())
    rows = []
    for pk, key in missing.items():
        of_node = labels.get((key.cluster, key.labels_key))
        rows.append(
            PriceBasis(
                id=pk,
                cluster_id=key.cluster,
                driver=key.driver,
                product=key.product,
                partition=key.partition,
                labels_key=key.labels_key,
                capacity_type="" if of_node is None else capacity_type(of_node),
                node_labels=of_node or {},
            )
        )
    with transaction.atomic():
        PriceBasis.objects.bulk_create(rows, ignore_conflicts=True)
        price_bases_added.send(sender=PriceBasis, bases=list(missing))


def _labels(keys: Collection[BasisKey]) -> dict[tuple[UUID, str], dict[str, str]]:
    """Return the labels by cluster and key of labels; a node that is gone still says them."""
    nodes = Node.objects.filter(
        cluster__in={key.cluster for key in keys}, labels_key__in={key.labels_key for key in keys} - {""}
    )
    one_of_each = nodes.order_by("cluster", "labels_key").distinct("cluster", "labels_key")
    return {
        (cluster, key): shared_labels(labels, name)
        for cluster, key, labels, name in one_of_each.values_list("cluster", "labels_key", "labels", "name")
    }


def record(cluster_id: UUID) -> None:
    """Add the bases of the devices of a cluster, and store how many devices each has now."""
    present = Device.objects.present().filter(cluster=cluster_id).order_by()
    groups = present.values_list("driver", "product", "partition", LABELS_KEY).annotate(Count("pk"))
    counts = {BasisKey(cluster_id, *kind): number for *kind, number in groups}
    add(counts)
    numbers = {key.pk: number for key, number in counts.items()}
    stored = PriceBasis.objects.filter(cluster=cluster_id).only("devices")
    changed = [row for row in stored if row.devices != numbers.get(row.pk, 0)]
    for row in changed:
        row.devices = numbers.get(row.pk, 0)
    PriceBasis.objects.bulk_update(changed, ["devices"], 1000)
