"""
A slice of a watch: events in batches, one transaction each, which also notes how far the mirror has come.
"""

import time
from collections.abc import Sequence

from django.db.models.functions import Now

from cluster.kinds import Kind
from cluster.protocol import Event, Gateway
from inventory.models import Mirrored, Pod
from inventory.sync.derive import derive
from inventory.sync.lease import HELD_FOR, Lease
from inventory.sync.listing import release_connection
from inventory.sync.resources import MODELS
from inventory.sync.store import bury, close, upsert
from inventory.sync.stream import batches
from inventory.sync.trim import uses_claims
from inventory.sync.versions import is_newer, newest
from inventory.sync.write import writing

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
    gone = {event.object["metadata"]["uid"]: _version_of(event) for event in deletions}
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
            and (event.type == "DELETED" or is_newer(_version_of(event), _version_of(before)))
        ):
            last[uid] = event
    return last


def _version_of(event: Event) -> str:
    return event.resource_version or str(event.object["metadata"].get("resourceVersion", ""))
