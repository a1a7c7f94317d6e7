"""
What a watch session needs: the mirrored kinds, the lease, batches of events, and the check of the cluster.

At most one worker follows a resource of a cluster, by a lease on its Freshness row. An advisory lock would
live as long as its database connection, and a watch holds none while it waits. The lease is taken by
compare-and-set on the clock of the database; when a holder dies, it expires. Every transaction of the holder
first renews the lease, so a holder that has lost it writes nothing.

A separate thread reads the watch, so that the caller can renew its lease and stop in time. A burst (one
driver change rewrites all slices of a pool) becomes one batch.
"""

import math
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from cluster.protocol import (
    DEVICE_TAINT_RULE_VERSIONS,
    EVENT,
    MIRRORED,
    RESOURCE_SLICE,
    Event,
    Gateway,
    Kind,
    Permission,
)
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
# The portal works without them; its pages show what is missing.
OPTIONAL = frozenset({"nodes", "devicetaintrules"})


def mirrored_kinds(cluster: Cluster) -> tuple[Kind, ...]:
    """Return the kinds in the order of a first sync; taint rules in the version that the cluster serves."""
    served = cluster.discovery.get("taint_rules")
    rules = tuple(kind for kind in DEVICE_TAINT_RULE_VERSIONS if kind.version == served)
    before = MIRRORED.index(RESOURCE_SLICE)  # devices are joined once, after what taints them is known
    return (*MIRRORED[:before], *rules, *MIRRORED[before:])


def mirrored_kind(cluster: Cluster, plural: str) -> Kind | None:
    """Return the kind, or None if the cluster does not serve it."""
    return next((kind for kind in mirrored_kinds(cluster) if kind.plural == plural), None)


HELD_FOR = timedelta(seconds=30)
QUEUED_FOR = timedelta(seconds=60)  # a message that has not started by then is given up
QUEUED = "queued"  # the holder of a resource whose session is queued


class LeaseLost(Exception):
    """Another worker holds the lease now: stop and write nothing."""


@dataclass(frozen=True, slots=True)
class Lease:
    """
    The right to write the mirror of one resource of one cluster.

    `unwritten` are the versions of objects whose last change wrote nothing, by uid: what is older stays old.
    """

    cluster_id: UUID
    resource: str
    holder: str
    unwritten: dict[str, str] = field(default_factory=dict, compare=False)

    def rows(self) -> QuerySet[Freshness]:
        """Return the Freshness row if the lease is still held, else none."""
        return Freshness.objects.filter(cluster=self.cluster_id, resource=self.resource, holder=self.holder)

    def renew(self) -> None:
        """Raise `LeaseLost` if another worker holds it. Inside a transaction nobody else can take it."""
        if not self.rows().update(held_until=Now() + HELD_FOR):
            raise LeaseLost(f"{self.resource} of {self.cluster_id}")

    def pass_on(self, *, after: timedelta = timedelta(0)) -> bool:
        """Pass the lease to the message that is queued next; return False if the lease was lost."""
        return bool(self.rows().update(holder=QUEUED, held_until=Now() + after + QUEUED_FOR))

    def drop(self) -> None:
        self.rows().update(holder="", held_until=None)


def take(cluster_id: UUID, resource: str) -> Lease | None:
    """Return the lease, or None if another worker holds it."""
    lease = Lease(cluster_id, resource, uuid4().hex)
    Freshness.objects.get_or_create(cluster_id=cluster_id, resource=resource)
    free = Q(held_until=None) | Q(held_until__lte=Now()) | Q(holder__in=("", QUEUED))
    was_free = Freshness.objects.filter(free, cluster=cluster_id, resource=resource).update(
        holder=lease.holder, held_until=Now() + HELD_FOR
    )
    return lease if was_free else None


def taken(cluster_id: UUID, *, again: bool = False) -> set[str]:
    """Return the resources that `reserve` would not mark, in one query: nearly always all of them."""
    rows = Freshness.objects.filter(cluster=cluster_id, held_until__gt=Now())
    return set((rows.exclude(holder=QUEUED) if again else rows).values_list("resource", flat=True))


def reserve(cluster_id: UUID, resource: str, *, again: bool = False) -> bool:
    """
    Mark a resource without a holder as queued; return False if it has a holder or is queued.

    `again` ignores the mark "queued", because a broker without persistence loses messages. A second message
    does no harm: the lease is held.
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


MAX_BATCH = 500
BURST_SECONDS = 0.05  # a pause of this length ends a batch
GATHER_SECONDS = 0.2  # a batch of a stream without pauses is not older
EMPTY_AFTER = 5.0  # seconds after which an empty batch is yielded: often enough to renew the lease in time


class _End:
    """Last item of the reader: the error that ended the watch, or None."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class Shutdown(threading.Event):
    """Set when the worker shuts down: wakes the sessions that wait for events, which return their leases."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: set[queue.Queue[Event | _End]] = set()

    def set(self) -> None:
        super().set()
        for events in tuple(self.waiting):
            with suppress(queue.Full):
                events.put_nowait(_End(None))


stopping = Shutdown()


class Stopping(Exception):
    """The worker shuts down; the next holder starts the unfinished work again."""


def go_on() -> None:
    """Raise `Stopping` if the worker shuts down; called between the steps of long work."""
    if stopping.is_set():
        raise Stopping


def batches(gateway: Gateway, kind: Kind, *, version: str, seconds: int) -> Iterator[list[Event]]:
    """
    Yield batches of events, empty ones while there are none, until the watch ends or the worker stops.

    Raises the error of the gateway after the events before it.
    """
    events: queue.Queue[Event | _End] = queue.Queue(maxsize=4 * MAX_BATCH)
    reader = threading.Thread(
        target=_read, args=(events, gateway, kind, version, seconds), daemon=True, name=f"watch-{kind.plural}"
    )
    reader.start()
    # The server ends a watch on time; a dead connection must not hold the session for ever.
    deadline = time.monotonic() + seconds + 15
    stopping.waiting.add(events)
    try:
        while not stopping.is_set() and time.monotonic() < deadline:
            batch, end = _gather(events)
            yield batch
            if end and not stopping.is_set():  # an error during shutdown is no failure
                if end.error:
                    raise end.error
                return
    finally:
        stopping.waiting.discard(events)


def _read(
    events: queue.Queue[Event | _End], gateway: Gateway, kind: Kind, version: str, seconds: int
) -> None:
    try:
        for event in gateway.watch(kind, resource_version=version, seconds=seconds):
            events.put(event, timeout=60)
    except Exception as error:
        events.put(_End(error))
    else:
        events.put(_End(None))


def _gather(events: queue.Queue[Event | _End]) -> tuple[list[Event], _End | None]:
    batch: list[Event] = []
    wait, until = EMPTY_AFTER, math.inf
    while len(batch) < MAX_BATCH and wait >= 0:
        try:
            item = events.get(timeout=wait)
        except queue.Empty:
            break
        if isinstance(item, _End):
            return batch, item
        batch.append(item)
        until = min(until, time.monotonic() + GATHER_SECONDS)
        # What waits in the queue already is taken in any case.
        wait = 0.0 if events.qsize() else min(BURST_SECONDS, until - time.monotonic())
    return batch, None


class Halted(Exception):
    """The sync of this cluster is halted until a person fixes it; `Cluster.halt_reason` has the reason."""


def check_identity(cluster_id: UUID, gateway: Gateway) -> None:
    """
    Raise `Halted` if the credentials lead to another cluster than the mirrored one.

    A listing of another cluster would close every row of the mirror, so this runs before each list and watch.
    """
    uid = gateway.identity()
    clusters = Cluster.objects.filter(pk=cluster_id)
    cluster = clusters.only("name", "uid", "halt_reason").get()
    if not cluster.uid:
        _note_identity(cluster, uid)
    if cluster.uid == uid:
        if cluster.halt_reason:
            clusters.update(halt_reason="")
        return
    because = (
        f"The credentials of {cluster.name} lead to another cluster: its kube-system "
        f"namespace has UID {uid} instead of {cluster.uid}. The sync is halted "
        "until the credentials are fixed."
    )
    _halt(cluster, because)


def _note_identity(cluster: Cluster, uid: str) -> None:
    """Store the UID of a new cluster. Raises `Halted` if it is mirrored under another name."""
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
                f"{cluster.name} is already mirrored as {twin.name}: its kube-system namespace has the "
                f"same UID {uid}. The sync under this name is halted."
            ),
        )
    cluster.refresh_from_db(fields=["uid"])


def _halt(cluster: Cluster, because: str) -> NoReturn:
    clusters = Cluster.objects.filter(pk=cluster.pk)
    clusters.exclude(halt_reason=because).update(halt_reason=because)
    raise Halted(because)


def inspect(cluster: Cluster, gateway: Gateway) -> None:
    """Store version, kinds and missing permissions. Raises `Halted` and the errors of the gateway."""
    check_identity(cluster.pk, gateway)
    discovered = gateway.discover()
    discovery = {
        "taint_rules": discovered.taint_rules.version if discovered.taint_rules else None,
        "kinds": sorted(discovered.kinds),
    }
    cluster.version, cluster.discovery, cluster.simulated = (
        discovered.version,
        discovery,
        discovered.simulated,
    )
    permissions = [(verb, kind) for kind in mirrored_kinds(cluster) for verb in ("list", "watch")]
    cluster.missing = [
        f"{verb} {kind.plural}"
        for verb, kind in (*permissions, ("list", EVENT))
        if not gateway.allowed(Permission(verb, kind.plural, kind.group))
    ]
    Cluster.objects.filter(pk=cluster.pk).update(
        version=cluster.version,
        discovery=discovery,
        simulated=cluster.simulated,
        missing=cluster.missing,
        checked_at=Now(),
    )
    # A resource that the cluster no longer serves must not be shown as stale for ever.
    kinds = [kind.plural for kind in mirrored_kinds(cluster)]
    Freshness.objects.filter(cluster=cluster).exclude(resource__in=kinds).delete()
