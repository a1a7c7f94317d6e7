"""
Celery tasks of usage. Each may run any number of times (`usage.collect.take_slot`).

A lost message costs one sample; beat sends the next one after half a minute.
"""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from usage import collect as collection
from usage import daily, oversized, saved_reports
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
def mail_reports() -> None:
    """Mail monthly reports once the last month is stored; the next run sends what was left."""
    saved_reports.mail_reports(timezone.now())


@shared_task
def check_sizes() -> None:
    """Store for each claim that holds devices whether a cheaper profile would have been enough."""
    oversized.check_sizes(timezone.now())


@shared_task
def collect_cluster(cluster_id: str) -> None:
    collection.collect(UUID(cluster_id))
