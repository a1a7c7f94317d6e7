"""Tasks that quotas queue after a commit. `claims.tasks.maintain_quotas` repairs a lost message."""

from contextlib import suppress
from functools import partial
from uuid import UUID

from celery import shared_task
from django.core.cache import cache
from django.db import transaction
from redis.exceptions import RedisError

from claims.quotas import resource_quota_rounds
from core.transactions import queue
from inventory.models import Cluster

QUEUED_FOR = 30  # seconds; then a lost message blocks no other


def queue_team(team_id: UUID) -> None:
    """
    Queue `write_team` after the commit, unless it is queued and has not begun.

    So an action on 200 claims of a team, each in its own transaction, counts the team a few times, not 200.
    """
    transaction.on_commit(partial(_queue_once, str(team_id)))


def _queue_once(team_id: str) -> None:
    is_queued = False
    with suppress(RedisError):
        is_queued = not cache.add(_mark(team_id), 1, QUEUED_FOR)
    if not is_queued:
        queue(write_team, team_id)


def _mark(team_id: str) -> str:
    return f"quotas:queued:{team_id}"


@shared_task
def write_team(team_id: str) -> None:
    """Write the ResourceQuotas of a team that differ after a change of its quota or use."""
    with suppress(RedisError):
        cache.delete(_mark(team_id))  # before anything is read: later changes are queued again
    resource_quota_rounds.write_teams([UUID(team_id)])


@shared_task
def write_cluster(cluster_id: str) -> None:
    """Write the ResourceQuotas of a cluster that differ."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None and cluster.is_writable:
        resource_quota_rounds.write_cluster(cluster)
