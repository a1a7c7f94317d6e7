"""
The objects of one cluster and the log of their changes.

Objects are immutable: a writer stores a new one, so that readers, snapshots and watches can keep the old one.
Everything happens on the event loop between two awaits, so there are no locks.
"""

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Literal
from uuid import UUID

from simulator.resources import RESOURCES, Manifest, Resource

type Key = tuple[str, str]  # namespace ("" for cluster-scoped), name
type EventType = Literal["ADDED", "MODIFIED", "DELETED"]

FIRST_REVISION = 1000  # whoever watches from "1" has missed something, as on a server that has lived
REVISIONS_LOST_AT_MOST = 100_000
ORDER = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of generated names, as upstream: no vowels, no words


@dataclass(frozen=True, slots=True)
class StoreChange:
    revision: int
    type: EventType
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
        kept = self._objects[resource.plural]
        return [kept[key] for key in sorted(kept) if namespace is None or key[0] == namespace]

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
        objects = {plural: list(kept.values()) for plural, kept in self._objects.items()}
        version, numbers, gauss = self.random.getstate()
        return {"revision": self.revision, "random": [version, list(numbers), gauss], "objects": objects}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what was dumped. Its changes are not in the log: every earlier watch has expired."""
        self._objects.clear()
        for resource in RESOURCES:
            kept = {
                _key(resource, manifest): manifest for manifest in dumped["objects"].get(resource.plural, [])
            }
            self._objects[resource.plural] = kept
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
