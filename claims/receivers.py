"""What `claims` does when the mirror or a claim changes."""

from typing import Any
from uuid import UUID

from django.dispatch import receiver

from claims.approvals import notices
from claims.delivery.tasks import reconcile_cluster
from claims.models import Claim
from claims.quotas.tasks import write_team
from claims.signals import claim_state_changed, request_returned
from core.transactions import after_commit
from inventory.signals import mirror_changed

WATCHED = ("ResourceClaim", "ResourceClaimTemplate", "Pod")


@receiver(mirror_changed, dispatch_uid="claims.delivery.reconcile")
def queue_reconcile(*, cluster_id: UUID, kind: str, names: frozenset[str], **_: Any) -> None:
    """Reconcile the claims that own or use these objects. The next sweep repairs a lost message."""
    if kind in WATCHED:
        reconcile_cluster.delay(str(cluster_id), sorted(names))


@receiver(claim_state_changed, dispatch_uid="claims.quotas.write")
def queue_quota_sync(*, claim: Claim, **_: Any) -> None:
    """
    Write the ResourceQuotas of the team after the commit. `claims.tasks.maintain_quotas` repairs a lost
    message.
    """
    after_commit(write_team, str(claim.team_id))


@receiver(request_returned, dispatch_uid="claims.approvals.asked")
def notify_approvers(*, claim: Claim, **_: Any) -> None:
    """Notify the approvers that a request waits for them again."""
    notices.notify_deciders(claim)
