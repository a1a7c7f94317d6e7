"""
One holder's turn: take the lease, list if that is needed, watch for a while, pass the lease on.

A turn is short so that a worker can be stopped, a changed credential is noticed, and a lost connection that
nobody told us of costs half a minute. What goes wrong is written into Freshness as a sentence; the mirror
stays as it was.
"""

import logging
from datetime import timedelta
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from cluster.backoff import delay
from cluster.errors import Expired
from cluster.kinds import Kind
from cluster.protocol import Gateway
from core.errors import PortalError
from inventory.gateways import gateway_for
from inventory.models import Cluster
from inventory.sync import stream
from inventory.sync.contact import Halted, check_identity
from inventory.sync.lease import Lease, LeaseLost, take
from inventory.sync.listing import list_all, release_connection
from inventory.sync.resources import kind_of
from inventory.sync.watching import follow

logger = logging.getLogger(__name__)

SECONDS = 25  # of watching
CATCHING_UP = 1  # second of it, after a silence: pages are to know at once that the cluster is there again
SILENCE = timedelta(seconds=SECONDS + 10)
LIST_AGAIN_AFTER = timedelta(minutes=30)  # even if all is well: a lost event must not be lost for ever
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 120.0  # seconds after a failure, see cluster.backoff


def take_turn(cluster_id: UUID, plural: str, *, seconds: int = SECONDS) -> timedelta | None:
    """
    Return after what pause the next turn is due, or None if it is nobody's or somebody else's.

    A worker that shuts down gives the lease back and queues nothing: its messages may end with it.
    """
    if stream.stopping.is_set():
        return None
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    kind = kind_of(cluster, plural) if cluster else None
    lease = take(cluster_id, plural) if kind else None
    if cluster is None or kind is None or lease is None:
        return None
    try:
        pause = _turn(lease, cluster, kind, seconds=seconds)
        stream.go_on()
        return pause if lease.pass_on(after=pause) else None
    except LeaseLost:
        logger.warning("lost the lease on %s of %s", plural, cluster)
        return None
    except (Halted, stream.Stopping):
        lease.drop()
        return None
    except BaseException:
        lease.drop()
        raise
    finally:
        release_connection()


def _turn(lease: Lease, cluster: Cluster, kind: Kind, *, seconds: int) -> timedelta:
    try:
        with gateway_for(cluster) as gateway:
            _list_and_watch(lease, gateway, kind, seconds=seconds)
    except Expired:
        lease.rows().update(resource_version="")  # list next time, at once
    except PortalError as error:
        stream.go_on()  # what breaks while everything is being stopped is no failure
        return note_failure(lease, error.message)
    return timedelta(0)


def _list_and_watch(lease: Lease, gateway: Gateway, kind: Kind, *, seconds: int) -> None:
    release_connection()
    check_identity(lease.cluster_id, gateway)
    state = lease.rows().get()
    version = state.resource_version
    if not version or not state.listed_at or timezone.now() - state.listed_at > LIST_AGAIN_AFTER:
        version = list_all(lease, gateway, kind)
    elif not state.seen_at or timezone.now() - state.seen_at > SILENCE:
        seconds = min(seconds, CATCHING_UP)
    follow(lease, gateway, kind, version=version, seconds=seconds)


def note_failure(lease: Lease, sentence: str) -> timedelta:
    """
    Record it and return how long to wait: up to 2 s after the first failure, doubling; holders spread.
    """
    lease.rows().update(error=sentence, failed_at=Now(), failures=F("failures") + 1)
    failures = lease.rows().values_list("failures", flat=True).first() or 1
    return timedelta(seconds=delay(failures - 1, first=FIRST_PAUSE, longest=LONGEST_PAUSE))
