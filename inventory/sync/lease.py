"""
Who follows a resource of a cluster: at most one at a time, by a lease on its Freshness row.

A lease, and not an advisory lock: such a lock lives as long as its database connection, and a watch must hold
none while it waits. Taking is a compare-and-set by the clock of the database; a holder that dies is succeeded
when its lease has run out. Every transaction of the holder renews the lease first, so one that has lost it
can write nothing.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from inventory.models import Freshness

HELD_FOR = timedelta(seconds=30)
QUEUED_FOR = timedelta(seconds=60)  # a message that has not been started by then is written off
QUEUED = "queued"  # the holder of what is not followed yet, but is about to be


class LeaseLost(Exception):
    """Somebody else follows the resource now: stop, and write nothing more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write the mirror of one resource of one cluster."""

    cluster_id: UUID
    resource: str
    holder: str

    def rows(self) -> QuerySet[Freshness]:
        """Return the Freshness row while the lease is held, else nothing."""
        return Freshness.objects.filter(cluster=self.cluster_id, resource=self.resource, holder=self.holder)

    def renew(self) -> None:
        """
        Raise `LeaseLost` if it is somebody else's. Inside a transaction this also keeps others from taking
        it.
        """
        if not self.rows().update(held_until=Now() + HELD_FOR):
            raise LeaseLost(f"{self.resource} of {self.cluster_id}")

    def pass_on(self, *, after: timedelta = timedelta(0)) -> bool:
        """Hand the lease to the message that is about to be queued; return False if it was lost before."""
        return bool(self.rows().update(holder=QUEUED, held_until=Now() + after + QUEUED_FOR))

    def drop(self) -> None:
        self.rows().update(holder="", held_until=None)


def take(cluster_id: UUID, resource: str) -> Lease | None:
    """Return the lease, or None while somebody else has it."""
    lease = Lease(cluster_id, resource, uuid4().hex)
    Freshness.objects.get_or_create(cluster_id=cluster_id, resource=resource)
    free = Q(held_until=None) | Q(held_until__lte=Now()) | Q(holder__in=("", QUEUED))
    taken = Freshness.objects.filter(free, cluster=cluster_id, resource=resource).update(
        holder=lease.holder, held_until=Now() + HELD_FOR
    )
    return lease if taken else None


def reserve(cluster_id: UUID, resource: str, *, again: bool = False) -> bool:
    """
    Mark a resource that nobody follows as queued; return False if somebody does or it is queued already.

    `again` takes no word for it that it is queued: messages are lost with a broker that keeps nothing. One
    too many does no harm, it finds the lease taken.
    """
    Freshness.objects.get_or_create(cluster_id=cluster_id, resource=resource)
    free = Q(held_until=None) | Q(held_until__lte=Now())
    if again:
        free |= Q(holder=QUEUED)
    return bool(
        Freshness.objects.filter(free, cluster=cluster_id, resource=resource).update(
            holder=QUEUED, held_until=Now() + QUEUED_FOR
        )
    )
