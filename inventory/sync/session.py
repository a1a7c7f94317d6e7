"""
Who may write the mirror of a resource, and whether the cluster is the one that it was: lease, batches,
checks.

Which resources of a cluster are mirrored, and in which table.

Who follows a resource of a cluster: at most one at a time, by a lease on its Freshness row.

A lease, and not an advisory lock: such a lock lives as long as its database connection, and a watch must
hold none while it waits. Taking is a compare-and-set by the clock of the database; a holder that dies is
succeeded when its lease has run out. Every transaction of the holder renews the lease first, so one that
has lost it can write nothing.

A watch as batches of events, read by a thread of its own.

The reader waits for the cluster; the caller waits for the reader, at most so long that it can renew its
lease and hear that the worker is to stop. A burst (one driver change rewrites every slice of a pool)
becomes one batch.

First contact: is this still the cluster it was, what does it serve, and what may the portal do there.
"""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from cluster.kinds import DEVICE_TAINT_RULE_VERSIONS, EVENT, MIRRORED, Kind
from cluster.protocol import Event, Gateway, Permission
from core.errors import violated_constraint
from inventory.models import (
    Cluster,
    DeviceClass,
    DeviceTaintRule,
    Freshness,
    Mirrored,
    Namespace,
    Node,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

MODELS: dict[str, type[Mirrored]] = {
    "namespaces": Namespace,
    "nodes": Node,
    "deviceclasses": DeviceClass,
    "resourceslices": ResourceSlice,
    "devicetaintrules": DeviceTaintRule,
    "resourceclaims": ResourceClaim,
    "resourceclaimtemplates": ResourceClaimTemplate,
    "pods": Pod,
}
# Without them the portal still works, and says on its pages what it cannot see.
OPTIONAL = frozenset({"nodes", "devicetaintrules"})


def mirrored_kinds(cluster: Cluster) -> tuple[Kind, ...]:
    """
    Return the kinds to mirror, in the order of a first sync; taint rules in the version that the cluster
    serves.
    """
    served = cluster.discovery.get("taint_rules")
    rules = tuple(kind for kind in DEVICE_TAINT_RULE_VERSIONS if kind.version == served)
    return (*MIRRORED, *rules)


def mirrored_kind(cluster: Cluster, plural: str) -> Kind | None:
    """Return the kind, or None where the cluster does not serve it (any more)."""
    return next((kind for kind in mirrored_kinds(cluster) if kind.plural == plural), None)


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


BATCH = 500
LINGER = 0.05  # seconds in which a burst is gathered
PATIENCE = 1.0  # seconds after which an empty batch is yielded

# Set when the worker shuts down: every slice ends within PATIENCE and gives its lease back.
stopping = threading.Event()


class Stopping(Exception):
    """The worker shuts down: what is half done is begun again by the next holder."""


def go_on() -> None:
    """Raise `Stopping` when the worker shuts down; asked between the steps of what takes long."""
    if stopping.is_set():
        raise Stopping


class _End:
    """Last word of the reader: the error that ended the watch, or None."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


def batches(gateway: Gateway, kind: Kind, *, version: str, seconds: int) -> Iterator[list[Event]]:
    """
    Yield events in batches, empty ones while nothing happens, until the watch ends or the worker stops.

    Raise what the gateway raised, after the events that came before it.
    """
    events: queue.Queue[Event | _End] = queue.Queue(maxsize=4 * BATCH)
    reader = threading.Thread(
        target=_read, args=(events, gateway, kind, version, seconds), daemon=True, name=f"watch-{kind.plural}"
    )
    reader.start()
    # The server ends a watch on time; a connection that died without a word must not hold the slice for ever.
    deadline = time.monotonic() + seconds + 15
    while not stopping.is_set() and time.monotonic() < deadline:
        batch, end = _gather(events)
        yield batch
        if end and not stopping.is_set():  # what breaks while everything is being stopped is no failure
            if end.error:
                raise end.error
            return


def _read(
    events: "queue.Queue[Event | _End]", gateway: Gateway, kind: Kind, version: str, seconds: int
) -> None:
    try:
        for event in gateway.watch(kind, resource_version=version, seconds=seconds):
            events.put(event, timeout=60)
    except Exception as error:
        events.put(_End(error))
    else:
        events.put(_End(None))


def _gather(events: "queue.Queue[Event | _End]") -> tuple[list[Event], _End | None]:
    batch: list[Event] = []
    wait = PATIENCE
    while len(batch) < BATCH:
        try:
            item = events.get(timeout=wait)
        except queue.Empty:
            break
        if isinstance(item, _End):
            return batch, item
        batch.append(item)
        wait = LINGER
    return batch, None


class Halted(Exception):
    """The sync of this cluster stands still until a person has looked; `Cluster.halted_because` says why."""


def check_identity(cluster_id: UUID, gateway: Gateway) -> None:
    """
    Raise `Halted` if the credentials lead to another cluster than the mirror is of.

    A foreign listing would close every row of the mirror, so it is asked before each listing and each watch.
    """
    uid = gateway.identity()
    clusters = Cluster.objects.filter(pk=cluster_id)
    cluster = clusters.only("name", "uid", "halted_because").get()
    if not cluster.uid:
        _note_identity(cluster, uid)
    if cluster.uid == uid:
        if cluster.halted_because:
            clusters.update(halted_because="")
        return
    because = (
        f"The credentials of {cluster.name} lead to another cluster: its kube-system "
        f"namespace has uid {uid}, and the mirror is of {cluster.uid}. Nothing is "
        "synchronised until the credentials lead back."
    )
    _halt(cluster, because)


def _note_identity(cluster: Cluster, uid: str) -> None:
    """Keep the uid at first contact; a cluster that is mirrored already is not mirrored a second time."""
    try:
        with transaction.atomic():
            Cluster.objects.filter(pk=cluster.pk, uid="").update(uid=uid)
    except IntegrityError as error:
        if violated_constraint(error) != "cluster_uid_once":
            raise
        twin = Cluster.objects.exclude(pk=cluster.pk).only("name").get(uid=uid)
        _halt(
            cluster,
            (
                f"{cluster.name} is the cluster that is mirrored as {twin.name} already: its "
                f"kube-system namespace has the same uid {uid}. Nothing is synchronised under this "
                "name."
            ),
        )
    cluster.refresh_from_db(fields=["uid"])


def _halt(cluster: Cluster, because: str) -> NoReturn:
    clusters = Cluster.objects.filter(pk=cluster.pk)
    clusters.exclude(halted_because=because).update(halted_because=because)
    raise Halted(because)


def inspect(cluster: Cluster, gateway: Gateway) -> None:
    """Record version, kinds and missing permissions. Raise `Halted`, or what the gateway raises."""
    check_identity(cluster.pk, gateway)
    found = gateway.discover()
    discovery = {
        "taint_rules": found.taint_rules.version if found.taint_rules else None,
        "kinds": sorted(found.kinds),
    }
    cluster.version, cluster.discovery, cluster.simulated = found.version, discovery, found.simulated
    wanted = [(verb, kind) for kind in mirrored_kinds(cluster) for verb in ("list", "watch")]
    cluster.missing = [
        f"{verb} {kind.plural}"
        for verb, kind in (*wanted, ("list", EVENT))
        if not gateway.allowed(Permission(verb, kind.plural, kind.group))
    ]
    Cluster.objects.filter(pk=cluster.pk).update(
        version=cluster.version,
        discovery=discovery,
        simulated=cluster.simulated,
        missing=cluster.missing,
        checked_at=Now(),
    )
    # What the cluster no longer serves must not be shown as stale for ever.
    kinds = [kind.plural for kind in mirrored_kinds(cluster)]
    Freshness.objects.filter(cluster=cluster).exclude(resource__in=kinds).delete()
