"""
One session of mirroring a resource: take the lease, list if needed, watch for a while, pass on the lease.

A session is short, so that a worker can stop, new credentials are noticed, and a dead connection costs half a
minute. A failure is stored in Freshness as a message; the mirror stays as it is.

A listing writes each chunk in its own transaction, so that a large cluster holds no lock for long, and then
closes what no longer exists. Only the last transaction stores the version to watch from: if a holder dies,
its rows are correct and the next holder lists again. A watch writes batches of events, one transaction each.
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

from cluster.protocol import Event, Expired, Gateway, Kind, Manifest, Page
from core.errors import PortalError
from inventory.clusters import gateway_for
from inventory.models import Cluster, Device, DeviceTaintRule, Mirrored, Pod, ResourceSlice
from inventory.sync import session
from inventory.sync.columns import disruption_of, uses_claims
from inventory.sync.derive import JOINED, PageJoin, derive, join_all
from inventory.sync.rows import Write, close, is_newer, newest, upsert, write_tombstones, writing
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

MAX_TRIES = 3  # of a listing whose continue token expires


def list_all(lease: Lease, gateway: Gateway, kind: Kind) -> str:
    """Mirror the whole resource; return the version to watch from."""
    for attempt in range(1, MAX_TRIES + 1):
        try:
            return _list_once(lease, gateway, kind)
        except Expired:
            if attempt == MAX_TRIES:
                raise
            logger.info(
                "%s of %s changed too fast to be listed; listing again", kind.plural, lease.cluster_id
            )
    raise AssertionError("unreachable")


def _list_once(lease: Lease, gateway: Gateway, kind: Kind) -> str:
    model = MODELS[kind.plural]
    first = not lease.rows().filter(listed_at__isnull=False).exists()
    empty = first and _never_any(lease, model)
    on_page = PageJoin() if empty and model is ResourceSlice else None
    seen: set[str] = set()
    version = ""
    for page in _pages(gateway, kind):
        version = page.resource_version or version
        items = [item for item in page.items if model is not Pod or uses_claims(item)]
        seen.update(item["metadata"]["uid"] for item in items)
        with writing(lease) as write:
            # Devices published meanwhile are derived from what is committed here.
            follow = on_page is not None or (model not in JOINED and not (empty and _no_devices(lease)))
            rows = upsert(write, model, items, listed=True, first=first, empty=empty, followed=follow)
            if on_page is None:
                derive(write, rows)
            else:
                on_page.join(write, [row for row in rows if isinstance(row, ResourceSlice)])
    check_identity(lease.cluster_id, gateway)  # before rows are closed
    with writing(lease) as write:
        gone = _close_unseen(write, model, seen)
        if model not in JOINED:
            derive(write, gone)
    if model in JOINED and not (model is DeviceTaintRule and _never_any(lease, model)):
        join_all(lease, first=first, joined=on_page.joined if on_page else ())
    note_listed(lease, version)
    return version


def _pages(gateway: Gateway, kind: Kind) -> Iterator[Page]:
    """Yield the pages; no database connection is held during a request."""
    pages = gateway.list(kind)
    while True:
        release_connection()
        go_on()
        page = next(pages, None)
        if page is None:
            return
        yield page


def _never_any(lease: Lease, model: type[Mirrored]) -> bool:
    """Return whether the model has no row at all, not even of deleted objects."""
    return not model._default_manager.filter(cluster=lease.cluster_id).exists()


def _no_devices(lease: Lease) -> bool:
    return not Device.objects.filter(cluster=lease.cluster_id).exists()


def _close_unseen(write: Write, model: type[Mirrored], seen: set[str]) -> list[Mirrored]:
    present = model._default_manager.filter(cluster=write.cluster_id, gone_at=None)
    return close(write, model, {uid: "" for uid in present.values_list("uid", flat=True) if uid not in seen})


def note_listed(lease: Lease, version: str) -> None:
    lease.rows().update(
        resource_version=version, listed_at=Now(), seen_at=Now(), error="", failed_at=None, failures=0
    )


def release_connection() -> None:
    """Return the connection to the pool; inside a transaction (of a test) it stays open."""
    if not connection.in_atomic_block:
        connection.close()


RENEW_EVERY = HELD_FOR.total_seconds() / 2
NOTE_EVERY = 5.0  # seconds between two writes while a watch sends only bookmarks


def follow(lease: Lease, gateway: Gateway, kind: Kind, *, version: str, seconds: int) -> str:
    """
    Mirror events until the watch ends; return the version to continue from.

    Raises `Expired` if the version is too old, `LeaseLost`, and the errors of the gateway. No database
    connection is held between events.
    """
    renewed = noted = time.monotonic()
    release_connection()
    for batch in batches(gateway, kind, version=version, seconds=seconds):
        now = time.monotonic()
        changes = [event for event in batch if event.type != "BOOKMARK"]
        version = newest([version, *(event.resource_version for event in batch if event.resource_version)])
        if changes:
            apply_events(lease, kind, changes, version=version)
            renewed = noted = now
        elif batch and now - noted >= NOTE_EVERY:
            note_seen(lease, version)
            noted = now
        elif now - renewed < RENEW_EVERY:
            continue  # a silent watch wakes from time to time: nothing to release
        if now - renewed >= RENEW_EVERY:
            lease.renew()
            renewed = now
        release_connection()
    note_seen(lease, version)  # the server ended the watch, so it is alive and has sent all events
    return version


def apply_events(lease: Lease, kind: Kind, events: Sequence[Event], *, version: str) -> None:
    """Write one batch. Events may be repeated and in any order: the newest of each object counts."""
    model = MODELS[kind.plural]
    newest_events = _newest_by_uid(events)
    objects = [
        event.object
        for event in newest_events.values()
        if (event.type != "DELETED" or _is_disrupted(model, event.object))
        and (model is not Pod or uses_claims(event.object))
    ]
    deletions = [event for event in newest_events.values() if event.type == "DELETED"]
    gone = {event.object["metadata"]["uid"]: _resource_version(event) for event in deletions}
    with writing(lease) as write:
        rows: list[Mirrored] = upsert(write, model, objects, listed=False)
        rows += close(write, model, gone)
        write_tombstones(
            write, model, [e.object for e in deletions if model is not Pod or uses_claims(e.object)]
        )
        derive(write, rows)
        note_seen(lease, version)


def _is_disrupted(model: type[Mirrored], manifest: Manifest) -> bool:
    """
    Return whether it is a pod that Kubernetes ended. Its last state is kept, which says why: a change and the
    deletion can come in one batch.
    """
    return model is Pod and disruption_of(manifest.get("status") or {}) is not None


def note_seen(lease: Lease, version: str) -> None:
    lease.rows().update(resource_version=version, seen_at=Now(), error="", failed_at=None, failures=0)


def _newest_by_uid(events: Sequence[Event]) -> dict[str, Event]:
    by_uid: dict[str, Event] = {}
    for event in events:
        uid = event.object["metadata"]["uid"]
        before = by_uid.get(uid)
        # A UID is never used again: its deletion is final, whatever arrives later.
        if before is None or (
            before.type != "DELETED"
            and (event.type == "DELETED" or is_newer(_resource_version(event), _resource_version(before)))
        ):
            by_uid[uid] = event
    return by_uid


def _resource_version(event: Event) -> str:
    return event.resource_version or str(event.object["metadata"].get("resourceVersion", ""))


logger = logging.getLogger(__name__)

WATCH_SECONDS = 50
FIRST_WATCH_SECONDS = 1  # after an outage, so that pages show at once that the cluster is back
OUTAGE = timedelta(seconds=WATCH_SECONDS + 10)
LIST_AGAIN_AFTER = timedelta(minutes=30)  # repairs a lost event
FIRST_PAUSE, MAX_PAUSE = 2.0, 120.0  # seconds after a failure


def run_session(cluster_id: UUID, plural: str, *, seconds: int = WATCH_SECONDS) -> timedelta | None:
    """
    Run one session; return the pause before the next one, or None if this worker should not queue it.

    None if the cluster is disabled, the lease is held by another worker, or this worker shuts down: then it
    returns the lease.
    """
    if session.stopping.is_set():
        return None
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    kind = mirrored_kind(cluster, plural) if cluster else None
    lease = take(cluster_id, plural) if kind else None
    if cluster is None or kind is None or lease is None:
        return None
    try:
        pause = _session(lease, cluster, kind, seconds=seconds)
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


def _session(lease: Lease, cluster: Cluster, kind: Kind, *, seconds: int) -> timedelta:
    try:
        with gateway_for(cluster) as gateway:
            _list_and_watch(lease, gateway, kind, seconds=seconds)
    except Expired:
        lease.rows().update(resource_version="")  # list next time, at once
    except PortalError as error:
        session.go_on()  # an error during shutdown is no failure
        return note_failure(lease, error.message)
    return timedelta(0)


def _list_and_watch(lease: Lease, gateway: Gateway, kind: Kind, *, seconds: int) -> None:
    release_connection()
    check_identity(lease.cluster_id, gateway)
    state = lease.rows().get()
    version = state.resource_version
    if not version or not state.listed_at or timezone.now() - state.listed_at > LIST_AGAIN_AFTER:
        version = list_all(lease, gateway, kind)
    elif not state.seen_at or timezone.now() - state.seen_at > OUTAGE:
        seconds = min(seconds, FIRST_WATCH_SECONDS)
    follow(lease, gateway, kind, version=version, seconds=seconds)


def note_failure(lease: Lease, sentence: str) -> timedelta:
    """Store the failure; return the pause: up to 2 s after the first one, then doubled, with jitter."""
    lease.rows().update(error=sentence, failed_at=Now(), failures=F("failures") + 1)
    failures = lease.rows().values_list("failures", flat=True).first() or 1
    return timedelta(seconds=backoff_delay(failures - 1, first=FIRST_PAUSE, longest=MAX_PAUSE))


def sync_once(cluster: Cluster, gateway: Gateway) -> None:
    """
    List all resources in this thread, except those whose lease another worker holds.

    Raises `Halted` and the errors of the gateway.
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

    Doubles each time up to `longest`; the upper half is random, so that no wait is near 0.
    """
    ceiling = min(longest, first * 2.0 ** min(attempt, 32))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311, no secret depends on it
