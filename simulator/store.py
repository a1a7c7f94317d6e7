"""
The objects of one cluster and the log of their changes; list and watch, with label and field selectors,
continue tokens, bookmarks and expiry.

Objects are immutable: a writer stores a new one, so that readers, snapshots and watches can keep the old one.
Everything happens on the event loop between two awaits, so there are no locks.

All pages of a list have the resource version of the first. If that is compacted, the token has expired and
the client must list again. Watches send the changes of one kind as lines of JSON.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Literal
from uuid import UUID

from simulator.resources import (
    RESOURCES,
    ApiError,
    FieldCause,
    Manifest,
    Resource,
    bad_request,
    expired,
    invalid_options,
)

type Key = tuple[str, str]  # namespace ("" for cluster-scoped), name
type StoredEventType = Literal["ADDED", "MODIFIED", "DELETED"]

FIRST_REVISION = 1000  # whoever watches from "1" has missed something, as on a server that has lived
REVISIONS_LOST_AT_MOST = 100_000
ORDER = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of generated names, as upstream: no vowels, no words


@dataclass(frozen=True, slots=True)
class StoreChange:
    revision: int
    type: StoredEventType
    object: Manifest
    previous: Manifest | None


class Store:
    """`history` is how many changes of each kind can be watched again; older ones are compacted away."""

    def __init__(self, *, seed: int, now: Callable[[], datetime], history: int = 5000) -> None:
        self.now = now
        self.random = Random(seed)  # noqa: S311 – a repeatable world, no secrets
        self.revision = FIRST_REVISION
        self.changed: dict[str, int] = defaultdict(int)  # plural → revision of its last change
        self.compacted: dict[str, int] = defaultdict(lambda: FIRST_REVISION)
        self._objects: dict[str, dict[Key, Manifest]] = defaultdict(dict)
        self._log: dict[str, deque[StoreChange]] = defaultdict(deque)
        self._history = history
        self._wakers: set[asyncio.Event] = set()
        self.closing = False

    def timestamp(self) -> str:
        return self.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def new_uid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def new_suffix(self) -> str:
        return "".join(self.random.choices(ALPHABET, k=5))

    def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        return self._objects[resource.plural].get((namespace if resource.namespaced else "", name))

    def all(self, resource: Resource, namespace: str | None = None) -> list[Manifest]:
        """Return the objects in the order of a listing: by namespace, then by name."""
        by_key = self._objects[resource.plural]
        return [by_key[key] for key in sorted(by_key) if namespace is None or key[0] == namespace]

    def unordered(self, resource: Resource) -> Iterator[Manifest]:
        return iter(self._objects[resource.plural].values())

    def put(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Store a new state of an object and return it with its new resource version."""
        key = _key(resource, manifest)
        previous = self._objects[resource.plural].get(key)
        stored = self._stamp(resource, manifest)
        self._objects[resource.plural][key] = stored
        self._record(
            resource, StoreChange(self.revision, "MODIFIED" if previous else "ADDED", stored, previous)
        )
        return stored

    def remove(self, resource: Resource, manifest: Manifest) -> Manifest:
        previous = self._objects[resource.plural].pop(_key(resource, manifest))
        stored = self._stamp(resource, manifest)
        self._record(resource, StoreChange(self.revision, "DELETED", stored, previous))
        return stored

    def since(self, resource: Resource, revision: int) -> list[StoreChange] | None:
        """Return what changed after `revision`, or None if that has been forgotten."""
        if revision < self.compacted[resource.plural]:
            return None
        log = self._log[resource.plural]
        fresh = itertools.takewhile(lambda change: change.revision > revision, reversed(log))
        return list(fresh)[::-1]

    def compact(self) -> None:
        """Forget every change so far, as etcd does every five minutes."""
        for plural in list(self._objects):
            self._log[plural].clear()
            self.compacted[plural] = self.revision

    def skip_ahead(self) -> None:
        """Number on from far beyond what was saved: revisions that a kill has lost must not come again."""
        self.revision += REVISIONS_LOST_AT_MOST
        self.compact()

    def close(self) -> None:
        """End every watch: the server is going away."""
        self.closing = True
        self._wake()

    def subscribe(self, waker: asyncio.Event) -> Callable[[], None]:
        self._wakers.add(waker)
        return lambda: self._wakers.discard(waker)

    def dump(self) -> dict[str, Any]:
        objects = {plural: list(by_key.values()) for plural, by_key in self._objects.items()}
        version, numbers, gauss = self.random.getstate()
        return {"revision": self.revision, "random": [version, list(numbers), gauss], "objects": objects}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what was dumped. Its changes are not in the log: every earlier watch has expired."""
        self._objects.clear()
        for resource in RESOURCES:
            by_key = {
                _key(resource, manifest): manifest for manifest in dumped["objects"].get(resource.plural, [])
            }
            self._objects[resource.plural] = by_key
            self.changed[resource.plural] = dumped["revision"]
        self.revision = dumped["revision"]
        version, numbers, gauss = dumped["random"]
        self.random.setstate((version, tuple(numbers), gauss))
        self.compact()

    def _stamp(self, resource: Resource, manifest: Manifest) -> Manifest:
        self.revision += 1
        written = manifest["metadata"] | {"resourceVersion": str(self.revision)}
        metadata = {key: written[key] for key in ORDER if key in written} | written
        body = {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}}
        return {"kind": resource.kind, "apiVersion": resource.api_version} | body | {"metadata": metadata}

    def _record(self, resource: Resource, change: StoreChange) -> None:
        log = self._log[resource.plural]
        log.append(change)
        while len(log) > self._history:
            self.compacted[resource.plural] = log.popleft().revision
        self.changed[resource.plural] = change.revision
        self._wake()

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.set()


def _key(resource: Resource, manifest: Manifest) -> Key:
    metadata = manifest["metadata"]
    return (metadata["namespace"] if resource.namespaced else "", metadata["name"])


type Matcher = Callable[[Manifest], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^=!\s]*)$")
_EXISTS = re.compile(r"^(?P<not>!?)(?P<key>[^=!\s,]+)$")


def label_matcher(text: str) -> Matcher:
    """Raise ApiError 400 for a selector that does not parse."""
    tests = [_label_test(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return lambda manifest: all(test(manifest["metadata"].get("labels") or {}) for test in tests)


def _label_test(part: str) -> Callable[[dict[str, str]], bool]:
    if match := _SET.match(part):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.match(part):
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.match(part):
        key, wanted = match["key"], not match["not"]
        return lambda labels: (key in labels) is wanted
    raise bad_request(f"unable to parse requirement: found '{part}', expected: ',' or 'end of string'")


def field_matcher(resource: Resource, text: str) -> Matcher:
    fields = ("metadata.name", *(("metadata.namespace",) if resource.namespaced else ()), *resource.fields)
    tests: list[tuple[str, bool, str]] = []
    for part in filter(None, text.split(",")):
        match = _EQUAL.match(part.strip())
        if not match:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        if match["key"] not in fields:
            listed = ", ".join(f'"{name}"' for name in fields)
            raise bad_request(f'"{match["key"]}" is not a known field selector: only {listed}')
        tests.append((match["key"], match["op"] != "!=", match["value"]))
    return lambda manifest: all((_field(manifest, path) == value) is same for path, same, value in tests)


def _field(manifest: Manifest, path: str) -> str:
    value: Any = manifest
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


KEPT_SNAPSHOTS = 32

type Snapshot = list[Manifest]


class Lister:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._snapshots: OrderedDict[tuple[int, str, str], Snapshot] = OrderedDict()

    def list(self, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        """Raise 400 for a bad selector or token, 410 for an expired token, 504 for a revision to come."""
        limit = _number(query.get("limit", ""), "limit")
        revision, start = self._position(resource, query)
        items = self._snapshot(resource, namespace, revision)
        labels, fields = (
            label_matcher(query.get("labelSelector", "")),
            field_matcher(resource, query.get("fieldSelector", "")),
        )
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        rest, listed = items[start:], list[Manifest]()
        for index, manifest in enumerate(rest):
            if limit and len(listed) == limit:
                self._snapshots[revision, resource.plural, namespace or ""] = items
                metadata["continue"] = _token(revision, start + index)
                if not query.get("labelSelector") and not query.get("fieldSelector"):
                    metadata["remainingItemCount"] = len(rest) - index
                break
            if labels(manifest) and fields(manifest):
                listed.append(
                    {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}}
                )
        while len(self._snapshots) > KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": listed,
        }

    def forget(self) -> None:
        """Make every continue token expire, as a compaction does."""
        self._snapshots.clear()

    def _position(self, resource: Resource, query: Mapping[str, str]) -> tuple[int, int]:
        if token := query.get("continue"):
            return _opened(token)
        requested = _number(query.get("resourceVersion", ""), "resourceVersion")
        if requested > self.store.revision:
            raise _too_large(requested, self.store.revision)
        return self.store.revision, 0

    def _snapshot(self, resource: Resource, namespace: str | None, revision: int) -> Snapshot:
        snapshot = self._snapshots.get((revision, resource.plural, namespace or ""))
        if snapshot is not None:
            return snapshot
        if revision == self.store.revision:
            return self.store.all(resource, namespace)
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter, or use the continue token in this response to retrieve "
            "the remainder of the results. Continuing with the provided token results in an inconsistent "
            "list - objects that were created, modified, or deleted between the time the first chunk was "
            "returned and now may show up in the list."
        )


def _number(text: str, parameter: str) -> int:
    if text and not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"{parameter}: {why}")
    return int(text or 0)


def _token(revision: int, start: int) -> str:
    plain = json.dumps({"v": "simulator/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(plain.encode()).decode()


def _opened(token: str) -> tuple[int, int]:
    try:
        plain = json.loads(base64.urlsafe_b64decode(token))
        return int(plain["rv"]), int(plain["start"])
    except (ValueError, KeyError, TypeError) as problem:
        raise bad_request(f"continue key is not valid: {problem}") from problem


def _too_large(requested: int, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


BOOKMARK_SECONDS = 20.0
MAX_SECONDS = 1800.0


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
        raise ApiError(500, "", f'resourceVersion: Invalid value: "{revision}": {why}')
    initial = query.get("sendInitialEvents") == "true"
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", FieldCause.forbidden("resourceVersionMatch", why))
    return Watch(
        resource=resource,
        namespace=namespace,
        labels=label_matcher(query.get("labelSelector", "")),
        fields=field_matcher(resource, query.get("fieldSelector", "")),
        revision=0 if initial else int(revision),
        seconds=float(query.get("timeoutSeconds") or MAX_SECONDS),
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
                gone = expired(f"too old resource version: {revision} ({oldest})")
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


def _seen(watch: Watch, change: StoreChange) -> bytes | None:
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
