"""What `claims` does when something below it tells that it has changed, or asks what it does not know."""

from typing import Any
from uuid import UUID

from django.db.models.signals import post_save
from django.dispatch import receiver

from claims.approvals import notices
from claims.delivery.reconcile import holders_of
from claims.delivery.tasks import reconcile_cluster
from claims.models import Claim, Transition
from claims.quotas.tasks import write_team
from claims.signals import request_returned
from core.queueing import after_commit
from inventory import masking
from inventory.signals import mirror_changed

WATCHED = ("ResourceClaim", "ResourceClaimTemplate", "Pod")

masking.register(holders_of)


@receiver(mirror_changed, dispatch_uid="claims.delivery.reconcile")
def look_again(*, cluster_id: UUID, kind: str, names: frozenset[str], **_: Any) -> None:
    """
    Have the claims that these objects belong to looked at; a lost message costs the seconds to the next
    sweep.
    """
    if kind in WATCHED:
        reconcile_cluster.delay(str(cluster_id), sorted(names))


@receiver(post_save, sender=Transition, dispatch_uid="claims.quotas.write")
def write_quotas(*, instance: Transition, **_: Any) -> None:
    """
    Have the clusters told what the team may hold in each of them now that a claim was made or has moved. A
    lost message costs the time to the next `claims.quotas.tasks.tend`.
    """
    if instance.old != instance.new:
        after_commit(write_team, str(instance.claim.team_id))


@receiver(request_returned, dispatch_uid="claims.approvals.asked")
def ask_again(*, claim: Claim, **_: Any) -> None:
    """Tell those who decide that a request waits for them anew."""
    notices.asked(claim)
