"""
Celery tasks of usage. Each may run any number of times (`usage.collect.take_slot`).

A lost message costs one sample; beat sends the next one after half a minute.
"""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from inventory.dra_health import EVERY
from usage import collect as collection
from usage import daily, dra_health
from usage.alerts import services as alerts
from usage.idle import escalation
from usage.samples import prune


@shared_task
def collect() -> None:
    """Queue a collection per cluster, so that a slow exporter delays no other, and prune old rollups."""
    for cluster_id in collection.sources():
        # A collection that has not begun when the next one is due is dropped.
        collect_cluster.apply_async((str(cluster_id),), expires=collection.EVERY.total_seconds())
    prune(timezone.now())


@shared_task
def store_days() -> None:
    """Store the use of past days, and compute a month of them again, another one each hour."""
    now = timezone.now()
    daily.store_days(now=now)
    daily.repair_chunk(int(now.timestamp()) // 3600)


@shared_task
def follow_idle_claims() -> None:
    """Store which claims are idle, and notify owners and leads or release, as the policy says."""
    escalation.follow(timezone.now())


@shared_task
def read_dra_health() -> None:
    """Queue a reading of the DRA health of each cluster that has a Prometheus."""
    for cluster_id in dra_health.sources():
        read_dra_health_of.apply_async((str(cluster_id),), expires=EVERY.total_seconds())


@shared_task
def read_dra_health_of(cluster_id: str) -> None:
    dra_health.read(UUID(cluster_id))


@shared_task
def follow_alerts() -> None:
    """Open and resolve alerts, and notify of new ones."""
    alerts.follow(timezone.now())


@shared_task
def collect_cluster(cluster_id: str) -> None:
    collection.collect(UUID(cluster_id))
