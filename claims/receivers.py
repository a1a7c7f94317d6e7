"""What `claims` does when something below it tells that it has changed, or asks what it does not know."""

from typing import Any
from uuid import UUID

from django.dispatch import receiver

from claims.observed.holders import holders_of
from claims.tasks import reconcile_cluster
from inventory import masking
from inventory.signals import mirror_changed

WATCHED = ("ResourceClaim", "ResourceClaimTemplate", "Pod")

masking.register(holders_of)


@receiver(mirror_changed, dispatch_uid="claims.reconcile")
def look_again(*, cluster_id: UUID, kind: str, names: frozenset[str], **_: Any) -> None:
    """
    Have the claims that these objects belong to looked at; a lost message costs the seconds to the next
    sweep.
    """
    if kind in WATCHED:
        reconcile_cluster.delay(str(cluster_id), sorted(names))
