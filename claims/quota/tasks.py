"""
Celery entry points of quotas. Beat starts `tend` every minute, which repairs whatever message was lost.
"""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from claims.quota import clock as quota_clock
from claims.quota import writing as quota_writing
from inventory.models import Cluster


@shared_task
def write_team(team_id: str) -> None:
    """Bring the ResourceQuotas of a team in line: its quota, or what counts against it, has changed."""
    quota_writing.write_teams([UUID(team_id)])


@shared_task
def write_cluster(cluster_id: str) -> None:
    """Look at the ResourceQuotas of a cluster now."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None and quota_writing.is_writable(cluster):
        quota_writing.write_cluster(cluster)


@shared_task
def tend() -> None:
    """End what has had its time, tell people of it, and bring all ResourceQuotas in line."""
    quota_clock.end_overdue(timezone.now())
    quota_clock.tell_of_ends(timezone.now())
    quota_writing.write_all()
