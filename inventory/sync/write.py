"""
One transaction of the mirror: fenced by the lease, serial per cluster, and told to others after it is
committed.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from inventory.models import Cluster, ObjectEvent
from inventory.signals import mirror_changed
from inventory.sync.lease import Lease

logger = logging.getLogger(__name__)

What = ObjectEvent.What


@dataclass(slots=True)
class Write:
    """What one transaction writes. `revision` is that of its rows, and of the cluster if anything changed."""

    lease: Lease
    revision: int
    now: datetime = field(default_factory=timezone.now)
    changed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    events: list[ObjectEvent] = field(default_factory=list)

    @property
    def cluster_id(self) -> UUID:
        return self.lease.cluster_id

    def touch(self, kind: str, name: str) -> None:
        self.changed[kind].add(name)

    def remember(self, kind: str, name: str, what: What, *, uid: str = "", detail: object = None) -> None:
        self.events.append(
            ObjectEvent(
                cluster_id=self.cluster_id,
                kind=kind,
                name=name,
                uid=uid,
                what=what,
                detail=detail or {},
                at=self.now,
            )
        )


@contextmanager
def writing(lease: Lease) -> Iterator[Write]:
    """
    Open the transaction. Raise `LeaseLost` before anything is written.

    The cluster's row is locked throughout: devices are joined from slices, classes, rules, nodes and claims,
    which five holders follow, and each must see what the one before it has written. Others wait longer than a
    page would.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = '60s'")
        lease.renew()
        cluster = Cluster.objects.select_for_update(no_key=True).only("revision").get(pk=lease.cluster_id)
        write = Write(lease, cluster.revision + 1)
        yield write
        ObjectEvent.objects.bulk_create(write.events, batch_size=1000)
        if write.changed:
            Cluster.objects.filter(pk=cluster.pk).update(revision=write.revision)
        for kind, names in write.changed.items():
            transaction.on_commit(partial(tell, lease.cluster_id, kind, frozenset(names)))


def tell(cluster_id: UUID, kind: str, names: frozenset[str]) -> None:
    """
    Send `mirror_changed`.

    A receiver that fails must not stop the mirror: it sweeps, so it will catch up.
    """
    for receiver, answer in mirror_changed.send_robust(None, cluster_id=cluster_id, kind=kind, names=names):
        if isinstance(answer, Exception):
            logger.error("%r failed on a change of %s", receiver, kind, exc_info=answer)
