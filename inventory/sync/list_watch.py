"""
One turn of mirroring a resource: list it, or go on watching it.

A full listing: everything the cluster has of one resource, in chunks, and then what it no longer has.

Each chunk is a transaction of its own, so that a large cluster holds no lock for long. Only the last one
notes the resource version to watch from: a holder that dies on the way has written rows that are true, and
its successor lists again.

A slice of a watch: events in batches, one transaction each, which also notes how far the mirror has come.

One holder's turn: take the lease, list if that is needed, watch for a while, pass the lease on.

A turn is short so that a worker can be stopped, a changed credential is noticed, and a lost connection that
nobody told us of costs half a minute. What goes wrong is written into Freshness as a sentence; the mirror
stays as it was.

Mirror a whole cluster now, in this thread: for commands, for the demo's first start, and for tests.
"""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from cluster.errors import Expired
from cluster.kinds import Kind
from cluster.protocol import Event, Gateway, Page
from core.errors import PortalError
from inventory.clusters import gateway_for
from inventory.models import Cluster, DeviceTaintRule, Mirrored, Pod
from inventory.sync import session
from inventory.sync.columns import uses_claims
from inventory.sync.derive import JOINED, derive, join_all
from inventory.sync.rows import Write, bury, close, is_newer, newest, upsert, writing
from inventory.sync.session import (
    HELD_FOR,
    MODELS,
    Halted,
    Lease,
    LeaseLost,
    batches,
    check_identity,
    go_on,
    inspect,
    mirrored_kind,
    mirrored_kinds,
    take,
)

logger = logging.getLogger(__name__)

TRIES = 3  # of a listing whose continue token ran out half-way


def list_all(lease: Lease, gateway: Gateway, kind: Kind) -> str:
    """Mirror the whole resource and return the version to watch from."""
    for attempt in range(1, TRIES + 1):
        try:
            return _list_once(lease, gateway, kind)
        except Expired:
            if attempt == TRIES:
                raise
            logger.info(
                "%s of %s changed too fast to be listed; listing again", kind.plural, lease.cluster_id
            )
    raise AssertionError("unreachable")


def _list_once(lease: Lease, gateway: Gateway, kind: Kind) -> str:
    model = MODELS[kind.plural]
    first = not lease.rows().filter(listed_at__isnull=False).exists()
    seen: set[str] = set()
    version = ""
    for page in _pages(gateway, kind):
        version = page.resource_version or version
        items = [item for item in page.items if model is not Pod or uses_claims(item)]
        seen.update(item["metadata"]["uid"] for item in items)
        with writing(lease) as write:
            rows = upsert(write, model, items, listed=True, first=first)
            if model not in JOINED:
                derive(write, rows)
    check_identity(lease.cluster_id, gateway)  # before anything is closed: is it still the same cluster?
    with writing(lease) as write:
        gone = _close_unseen(write, model, seen)
        if model not in JOINED:
            derive(write, gone)
    if model in JOINED and not (model is DeviceTaintRule and _never_any(lease, model)):
        join_all(lease, first=first)
    note_listed(lease, version)
    return version


def _pages(gateway: Gateway, kind: Kind) -> Iterator[Page]:
    """Yield the pages; while the cluster is asked for the next one, no database connection is held."""
    pages = gateway.list(kind)
    while True:
        release_connection()
        go_on()
        page = next(pages, None)
        if page is None:
            return
        yield page


def _never_any(lease: Lease, model: type[Mirrored]) -> bool:
    """Return whether not even a row of something gone is there, so that nothing can follow from it."""
    return not model._default_manager.filter(cluster=lease.cluster_id).exists()


def _close_unseen(write: Write, model: type[Mirrored], seen: set[str]) -> list[Mirrored]:
    present = model._default_manager.filter(cluster=write.cluster_id, gone_at=None)
    return close(write, model, {uid: "" for uid in present.values_list("uid", flat=True) if uid not in seen})


def note_listed(lease: Lease, version: str) -> None:
    lease.rows().update(
        resource_version=version, listed_at=Now(), seen_at=Now(), error="", failed_at=None, failures=0
    )


def release_connection() -> None:
    """Give the connection back to the pool; in a transaction (a test's) it stays."""
    if not connection.in_atomic_block:
        connection.close()


RENEW_EVERY = HELD_FOR.total_seconds() / 3
NOTE_EVERY = 5.0  # seconds between two notes that all a watch had to say was a bookmark


def follow(lease: Lease, gateway: Gateway, kind: Kind, *, version: str, seconds: int) -> str:
    """
    Mirror what happens until the watch ends, and return the version to go on from.

    Raise `Expired` when that version is too old, `LeaseLost`, and what the gateway raises. While nothing
    happens no database connection is held.
    """
    renewed = noted = time.monotonic()
    release_connection()
    for batch in batches(gateway, kind, version=version, seconds=seconds):
        now = time.monotonic()
        happened = [event for event in batch if event.type != "BOOKMARK"]
        version = newest([version, *(event.resource_version for event in batch if event.resource_version)])
        if happened:
            apply_events(lease, kind, happened, version=version)
            renewed = noted = now
        elif batch and now - noted >= NOTE_EVERY:
            note_seen(lease, version)
            noted = now
        if now - renewed >= RENEW_EVERY:
            lease.renew()
            renewed = now
        release_connection()
    note_seen(lease, version)  # the server ended the watch: it is alive, and has told all there was
    return version


def apply_events(lease: Lease, kind: Kind, events: Sequence[Event], *, version: str) -> None:
    """Write one batch. Events may come twice and in any order: of each object the newest counts."""
    model = MODELS[kind.plural]
    last = _last_of_each(events)
    kept = [
        event.object
        for event in last.values()
        if event.type != "DELETED" and (model is not Pod or uses_claims(event.object))
    ]
    deletions = [event for event in last.values() if event.type == "DELETED"]
    gone = {event.object["metadata"]["uid"]: _resource_version(event) for event in deletions}
    with writing(lease) as write:
        rows: list[Mirrored] = upsert(write, model, kept, listed=False)
        rows += close(write, model, gone)
        bury(write, model, [e.object for e in deletions if model is not Pod or uses_claims(e.object)])
        derive(write, rows)
        note_seen(lease, version)


def note_seen(lease: Lease, version: str) -> None:
    lease.rows().update(resource_version=version, seen_at=Now(), error="", failed_at=None, failures=0)


def _last_of_each(events: Sequence[Event]) -> dict[str, Event]:
    last: dict[str, Event] = {}
    for event in events:
        uid = event.object["metadata"]["uid"]
        before = last.get(uid)
        # A uid never comes back: nothing follows its deletion, whatever arrives after it.
        if before is None or (
            before.type != "DELETED"
            and (event.type == "DELETED" or is_newer(_resource_version(event), _resource_version(before)))
        ):
            last[uid] = event
    return last


def _resource_version(event: Event) -> str:
    return event.resource_version or str(event.object["metadata"].get("resourceVersion", ""))


logger = logging.getLogger(__name__)

SECONDS = 25  # of watching
CATCHING_UP = 1  # second of it, after a silence: pages are to know at once that the cluster is there again
SILENCE = timedelta(seconds=SECONDS + 10)
LIST_AGAIN_AFTER = timedelta(minutes=30)  # even if all is well: a lost event must not be lost for ever
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 120.0  # seconds after a failure


def take_turn(cluster_id: UUID, plural: str, *, seconds: int = SECONDS) -> timedelta | None:
    """
    Return after what pause the next turn is due, or None if it is nobody's or somebody else's.

    A worker that shuts down gives the lease back and queues nothing: its messages may end with it.
    """
    if session.stopping.is_set():
        return None
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    kind = mirrored_kind(cluster, plural) if cluster else None
    lease = take(cluster_id, plural) if kind else None
    if cluster is None or kind is None or lease is None:
        return None
    try:
        pause = _turn(lease, cluster, kind, seconds=seconds)
        session.go_on()
        return pause if lease.pass_on(after=pause) else None
    except LeaseLost:
        logger.warning("lost the lease on %s of %s", plural, cluster)
        return None
    except (Halted, session.Stopping):
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
        session.go_on()  # what breaks while everything is being stopped is no failure
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
    return timedelta(seconds=backoff_delay(failures - 1, first=FIRST_PAUSE, longest=LONGEST_PAUSE))


def sync_once(cluster: Cluster, gateway: Gateway) -> None:
    """
    List every resource, but those that somebody else follows. Raise what the gateway raises, and `Halted`.
    """
    inspect(cluster, gateway)
    for kind in mirrored_kinds(cluster):
        lease = take(cluster.pk, kind.plural)
        if lease is None:
            continue
        try:
            list_all(lease, gateway, kind)
        finally:
            lease.drop()


def backoff_delay(attempt: int, *, first: float = 0.5, longest: float = 60.0) -> float:
    """
    Return the seconds to wait before try number `attempt` (0 is the first one after a failure).

    Doubles each time up to `longest`; drawn evenly from the upper half, so that no wait is ever near zero.
    """
    ceiling = min(longest, first * 2.0 ** min(attempt, 32))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311, no secret depends on it
