"""What quotas queue after a commit. `claims.tasks.maintain_quotas` repairs a lost message."""

from uuid import UUID

from celery import shared_task

from claims.quotas import resource_quota_sync
from inventory.models import Cluster


@shared_task
def write_team(team_id: str) -> None:
    """Write the ResourceQuotas of a team that differ: its quota, or what counts against it, has changed."""
    resource_quota_sync.write_teams([UUID(team_id)])


@shared_task
def write_cluster(cluster_id: str) -> None:
    """Write the ResourceQuotas of a cluster that differ."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None and resource_quota_sync.is_writable(cluster):
        resource_quota_sync.write_cluster(cluster)
