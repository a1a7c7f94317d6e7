"""
Celery tasks of usage. Each may run any number of times (`usage.collect.take_slot`).

A lost message costs one sample; beat sends the next one after half a minute.
"""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from inventory.dra_health import EVERY as HEALTH_EVERY
from inventory.hardware_events import prune_events
from usage import catch_up as gaps
from usage import collect as collection
from usage import daily, dra_health, hourly, oversized, partitions, saved_reports
from usage.alerts import services as alerts
from usage.idle import escalation
from usage.samples import EVERY
from usage.tracking import runs


@shared_task
def collect() -> None:
    """Queue a collection per cluster, so that a slow exporter delays no other."""
    for cluster_id in collection.sources():
        # A collection that has not begun when the next one is due is dropped.
        collect_cluster.apply_async((str(cluster_id),), expires=EVERY.total_seconds())


@shared_task
def store_hours() -> None:
    """Store the hours that are over, then create partitions of rollups ahead and drop old ones."""
    now = timezone.now()
    hourly.store(now)
    partitions.maintain(now)
    prune_events(now)


@shared_task
def catch_up() -> None:
    """Queue, for each cluster with Prometheus, the filling of gaps of the last day."""
    for cluster_id in collection.sources(with_history=True):
        catch_up_cluster.apply_async((str(cluster_id),), expires=60)
    gaps.prune(timezone.now())


@shared_task
def catch_up_cluster(cluster_id: str) -> None:
    gaps.catch_up(UUID(cluster_id))


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
        read_dra_health_of.apply_async((str(cluster_id),), expires=HEALTH_EVERY.total_seconds())


@shared_task
def read_dra_health_of(cluster_id: str) -> None:
    dra_health.read(UUID(cluster_id))


@shared_task
def follow_alerts() -> None:
    """Open and resolve alerts, and notify of new ones."""
    alerts.follow(timezone.now())


@shared_task
def mail_reports() -> None:
    """Mail monthly reports once the last month is stored; the next run sends what was left."""
    saved_reports.mail_reports(timezone.now())


@shared_task
def check_sizes() -> None:
    """Store for each claim that holds devices whether a cheaper profile would have been enough."""
    oversized.check_sizes(timezone.now())


@shared_task
def follow_runs() -> None:
    """Queue a search of each tracking server, so that a slow one delays no other."""
    for server_id in runs.servers():
        follow_runs_of.apply_async((str(server_id),), expires=runs.EVERY.total_seconds())


@shared_task
def follow_runs_of(server_id: str) -> None:
    runs.follow(UUID(server_id), now=timezone.now())


@shared_task
def collect_cluster(cluster_id: str) -> None:
    collection.collect(UUID(cluster_id))
