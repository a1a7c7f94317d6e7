"""
List and watch, with label and field selectors, continue tokens, bookmarks and expiry.

All pages of a list have the resource version of the first. If that is compacted, the token has expired and
the client must list again. Watches send the changes of one kind as lines of JSON.
"""

import asyncio
import base64
import json
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simulator import errors
from simulator.errors import ApiError, FieldCause
from simulator.resources import Manifest, Resource
from simulator.store import Store, StoreChange

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
    raise errors.bad_request(f"unable to parse requirement: found '{part}', expected: ',' or 'end of string'")


def field_matcher(resource: Resource, text: str) -> Matcher:
    fields = ("metadata.name", *(("metadata.namespace",) if resource.namespaced else ()), *resource.fields)
    tests: list[tuple[str, bool, str]] = []
    for part in filter(None, text.split(",")):
        match = _EQUAL.match(part.strip())
        if not match:
            raise errors.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        if match["key"] not in fields:
            listed = ", ".join(f'"{name}"' for name in fields)
            raise errors.bad_request(f'"{match["key"]}" is not a known field selector: only {listed}')
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
        rest, found = items[start:], list[Manifest]()
        for index, manifest in enumerate(rest):
            if limit and len(found) == limit:
                self._snapshots[revision, resource.plural, namespace or ""] = items
                metadata["continue"] = _token(revision, start + index)
                if not query.get("labelSelector") and not query.get("fieldSelector"):
                    metadata["remainingItemCount"] = len(rest) - index
                break
            if labels(manifest) and fields(manifest):
                found.append(
                    {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}}
                )
        while len(self._snapshots) > KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": found,
        }

    def forget(self) -> None:
        """Make every continue token expire, as a compaction does."""
        self._snapshots.clear()

    def _position(self, resource: Resource, query: Mapping[str, str]) -> tuple[int, int]:
        if token := query.get("continue"):
            return _opened(token)
        asked = _number(query.get("resourceVersion", ""), "resourceVersion")
        if asked > self.store.revision:
            raise _too_large(asked, self.store.revision)
        return self.store.revision, 0

    def _snapshot(self, resource: Resource, namespace: str | None, revision: int) -> Snapshot:
        kept = self._snapshots.get((revision, resource.plural, namespace or ""))
        if kept is not None:
            return kept
        if revision == self.store.revision:
            return self.store.all(resource, namespace)
        raise errors.expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter, or use the continue token in this response to retrieve "
            "the remainder of the results. Continuing with the provided token results in an inconsistent "
            "list - objects that were created, modified, or deleted between the time the first chunk was "
            "returned and now may show up in the list."
        )


def _number(text: str, what: str) -> int:
    if text and not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(f"{what}: {why}")
    return int(text or 0)


def _token(revision: int, start: int) -> str:
    plain = json.dumps({"v": "simulator/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(plain.encode()).decode()


def _opened(token: str) -> tuple[int, int]:
    try:
        plain = json.loads(base64.urlsafe_b64decode(token))
        return int(plain["rv"]), int(plain["start"])
    except (ValueError, KeyError, TypeError) as problem:
        raise errors.bad_request(f"continue key is not valid: {problem}") from problem


def _too_large(asked: int, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


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
        raise errors.invalid_options("ListOptions", FieldCause.forbidden("resourceVersionMatch", why))
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
