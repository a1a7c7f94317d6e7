"""
Celery entry points of usage. Each may run any number of times: see `usage.collect.take_slot`.

A lost message costs one sample; beat sends the next after half a minute.
"""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from usage import collect as collecting
from usage.rollups import prune


@shared_task
def collect() -> None:
    """Queue a reading of every cluster: a slow exporter holds up nobody else. Then drop what is old."""
    for cluster_id in collecting.sources():
        # A reading that has not begun when the next one is due is not worth making.
        collect_cluster.apply_async((str(cluster_id),), expires=collecting.EVERY.total_seconds())
    prune(timezone.now())


@shared_task
def collect_cluster(cluster_id: str) -> None:
    collecting.collect(UUID(cluster_id))
