"""
Celery entry points of quotas. Beat starts `tend` every minute, which repairs whatever message was lost.
"""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from claims.quotas import requests, resource_quota_sync
from inventory.models import Cluster


@shared_task
def write_team(team_id: str) -> None:
    """Bring the ResourceQuotas of a team in line: its quota, or what counts against it, has changed."""
    resource_quota_sync.write_teams([UUID(team_id)])


@shared_task
def write_cluster(cluster_id: str) -> None:
    """Look at the ResourceQuotas of a cluster now."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None and resource_quota_sync.is_writable(cluster):
        resource_quota_sync.write_cluster(cluster)


@shared_task
def tend() -> None:
    """End what has had its time, tell people of it, and bring all ResourceQuotas in line."""
    requests.end_overdue(timezone.now())
    requests.tell_of_ends(timezone.now())
    resource_quota_sync.write_all()
