"""Watches: the changes of one kind as lines of JSON, from a revision on."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from simulator import errors
from simulator.errors import Cause
from simulator.resources import Manifest, Resource
from simulator.selectors import Matcher, field_matcher, label_matcher
from simulator.store import Change, Store

BOOKMARK_SECONDS = 20.0
LONGEST_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Watch:
    """`revision` 0 asks for what is there now first. `initial` marks the end of that with a bookmark."""

    resource: Resource
    namespace: str | None
    labels: Matcher
    fields: Matcher
    revision: int
    seconds: float
    bookmarks: bool
    initial: bool

    def wants(self, manifest: Manifest | None) -> bool:
        if manifest is None or (self.namespace and manifest["metadata"].get("namespace") != self.namespace):
            return False
        return self.labels(manifest) and self.fields(manifest)


def parsed(resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Watch:
    """Raise ApiError for a query that cannot be watched."""
    revision = query.get("resourceVersion") or "0"
    if not revision.isdigit():
        why = f'strconv.ParseUint: parsing "{revision}": invalid syntax'
        raise errors.ApiError(500, "", f'resourceVersion: Invalid value: "{revision}": {why}')
    initial = query.get("sendInitialEvents") == "true"
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise errors.invalid_options("ListOptions", Cause.forbidden("resourceVersionMatch", why))
    return Watch(
        resource=resource,
        namespace=namespace,
        labels=label_matcher(query.get("labelSelector", "")),
        fields=field_matcher(resource, query.get("fieldSelector", "")),
        revision=0 if initial else int(revision),
        seconds=float(query.get("timeoutSeconds") or LONGEST_SECONDS),
        bookmarks=query.get("allowWatchBookmarks") in {"true", "1"},
        initial=initial,
    )


async def stream(store: Store, watch: Watch) -> AsyncIterator[bytes]:  # noqa: C901, PLR0912
    """Yield events until the time is over; a revision that has been forgotten ends the stream with a 410."""
    loop = asyncio.get_running_loop()
    deadline, next_bookmark = loop.time() + watch.seconds, loop.time() + BOOKMARK_SECONDS
    waker = asyncio.Event()
    unsubscribe = store.subscribe(waker)
    try:
        revision = watch.revision
        if not revision:
            revision = store.revision
            for manifest in filter(watch.wants, store.all(watch.resource, watch.namespace)):
                yield _line("ADDED", manifest)
            if watch.initial:
                yield _bookmark(watch.resource, revision, {"k8s.io/initial-events-end": "true"})
        while True:
            waker.clear()
            changes = store.since(watch.resource, revision)
            if changes is None:
                oldest = store.compacted[watch.resource.plural]
                gone = errors.expired(f"too old resource version: {revision} ({oldest})")
                yield _line("ERROR", gone.body())
                return
            for change in changes:
                if line := _seen(watch, change):
                    yield line
            # What other kinds did is not missed by going on from here.
            revision = max(revision, store.revision)
            if watch.bookmarks and loop.time() >= next_bookmark:
                next_bookmark = loop.time() + BOOKMARK_SECONDS
                yield _bookmark(watch.resource, revision)
            until = min(deadline, next_bookmark) - loop.time()
            if store.closing:
                return
            if loop.time() >= deadline:
                if watch.bookmarks:
                    yield _bookmark(watch.resource, revision)
                return
            try:
                await asyncio.wait_for(waker.wait(), max(until, 0.001))
            except TimeoutError:
                continue
    finally:
        unsubscribe()


def _seen(watch: Watch, change: Change) -> bytes | None:
    """An object that a change moves into or out of the selection is ADDED or DELETED for this watch."""
    now, before = watch.wants(change.object), watch.wants(change.previous)
    if change.type == "DELETED":
        return _line("DELETED", change.object) if now or before else None
    if now:
        return _line("MODIFIED" if before else "ADDED", change.object)
    if before and change.previous:
        metadata = change.previous["metadata"] | {"resourceVersion": str(change.revision)}
        return _line("DELETED", change.previous | {"metadata": metadata})
    return None


def _line(kind: str, body: Manifest) -> bytes:
    return json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"


def _bookmark(resource: Resource, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: Manifest = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return _line(
        "BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    )
