"""
Snapshots of clusters for the allocator, from the mirror.

Each process keeps the last snapshot: a page reads only the rows written since, and the snapshot with its
caches stays the same object until a row changes. Only what the allocator reads of an object is stored, and
equal parts once (docs/decisions/0007-cluster-snapshot-in-the-web-process.md).
"""

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from core.prepared import Prepared
from dra.cluster_snapshot import ClusterSnapshot
from dra.device_index import DeviceIndex
from dra.features import NEWEST, Features, minor_version
from dra.held import Interner
from dra.objects import Manifest
from dra.taints import effective_rules
from inventory.models import (
    Cluster,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ResourceClaim,
    ResourceSlice,
)

CHUNK = 1000  # rows
MIN_FROZEN_DEVICES = 2000  # smaller snapshots do not slow a collection down


@dataclass(frozen=True, slots=True)
class _Part:
    """One list of objects of the snapshot: the columns of its rows, and the function that makes an object."""

    model: type[Mirrored]
    columns: tuple[str, ...]
    make: Callable[..., Manifest | None]


def _unchanged(raw: Manifest) -> Manifest:
    return raw


def _slice(name: str, spec: Manifest) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec}


def _claim(namespace: str, name: str, results: list[Manifest] | None) -> Manifest | None:
    """Return None for a claim without an allocation: it holds nothing."""
    if not results:
        return None
    metadata = {"namespace": namespace, "name": name}
    return {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}


def _node(name: str, labels: Manifest, spec: Manifest | None, declared: list[str] | None) -> Manifest:
    read = {key: value for key, value in (spec or {}).items() if key in ("unschedulable", "taints")}
    made = {"metadata": {"name": name, "labels": labels}, "spec": read}
    return made | {"status": {"declaredFeatures": declared}} if declared else made


RESULTS = "raw__status__allocation__devices__results"
PARTS = {
    "classes": _Part(DeviceClass, ("raw",), _unchanged),
    "slices": _Part(ResourceSlice, ("name", "raw__spec"), _slice),
    "claims": _Part(ResourceClaim, ("namespace", "name", RESULTS), _claim),
    "taint_rules": _Part(DeviceTaintRule, ("raw",), _unchanged),
    "nodes": _Part(Node, ("name", "labels", "raw__spec", "raw__status__declaredFeatures"), _node),
}

type ObjectChanges = list[tuple[Manifest | None, Manifest | None]]  # an object before and after


@dataclass(slots=True)
class _Cache:
    """The objects of one cluster up to `revision`, of Kubernetes `version`, and their snapshot."""

    revision: int = -1
    version: str = ""
    objects: dict[str, dict[int, Manifest]] = field(default_factory=lambda: {part: {} for part in PARTS})
    shared: Interner = field(default_factory=Interner)
    snapshot: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self) -> None:
        self.revision, self.objects = -1, {part: {} for part in PARTS}


_caches: dict[UUID, _Cache] = {}


def current_snapshot(cluster: Cluster, read: tuple[int, str] | None = None) -> ClusterSnapshot:
    """
    Return the snapshot as of the last committed change of the mirror; one query if nothing changed, none if
    the caller has just `read` the revision and version of the cluster.

    While another thread updates it, the previous snapshot is returned at once.
    """
    cache = _caches.get(cluster.pk)
    if read and cache and (cache.revision, cache.version) == read:
        return cache.snapshot
    return _current(cluster, wait=False)[1]


def numbered_snapshot(cluster: Cluster) -> tuple[int, ClusterSnapshot]:
    """Return the current snapshot after its revision; wait for another thread that updates it."""
    return _current(cluster, wait=True)


REVISION = Prepared(
    lambda cluster: Cluster.objects.filter(pk=cluster).order_by().values_list("revision", "version"), UUID
)


def _current(cluster: Cluster, *, wait: bool) -> tuple[int, ClusterSnapshot]:
    rows = REVISION.rows(cluster.pk)
    if not rows:
        raise Cluster.DoesNotExist
    ((revision, version),) = rows
    cache = _caches.setdefault(cluster.pk, _Cache())
    if not cache.lock.acquire(blocking=wait or cache.revision < 0):
        return cache.revision, cache.snapshot
    try:
        if cache.revision > revision:  # the mirror was rebuilt
            cache.reset()
        if (cache.revision, cache.version) != (revision, version):
            changes = {part: _read(cluster, cache, part) for part in PARTS}
            before, cache.snapshot = cache.snapshot, _next(cache, changes, version)
            if cache.snapshot.device_index is not before.device_index:
                _freeze(cache.snapshot)
            cache.revision, cache.version = revision, version
        return cache.revision, cache.snapshot
    except BaseException:
        cache.reset()  # it may be half updated
        raise
    finally:
        cache.lock.release()


def _freeze(snapshot: ClusterSnapshot) -> None:
    """
    Exempt a new large snapshot from garbage collection: it has a million objects and no cycles.

    Otherwise, every full collection visits all of them, which takes longer than most pages. Objects are freed
    by their reference count all the same, when the next snapshot replaces this one.
    """
    if len(snapshot.devices) < MIN_FROZEN_DEVICES:
        return
    _ = (
        snapshot.available,
        snapshot.node_runs.names,
        snapshot.claim_by_name,
    )  # created now, so that they count
    gc.collect()
    gc.freeze()


def cluster_features(version: str) -> Features:
    """Return the default features of a version ("v1.36.2"); an unknown version counts as the newest."""
    minor = minor_version(version)
    return NEWEST if minor is None else Features.of_version(minor)


def _next(cache: _Cache, changes: dict[str, ObjectChanges], version: str) -> ClusterSnapshot:
    """
    Return the same snapshot if nothing changed; one with the same devices if no slice changed.

    Features are on by default of the version, or if slices or claims have their fields.
    """

    def objects(part: str) -> list[Any]:
        found = list(cache.objects[part].values())
        return effective_rules(found, version) if part == "taint_rules" else found

    before = cache.snapshot
    changed = (after for _, after in changes["claims"] if after is not None)
    features = before.features | Features.seen_in(claims=changed)
    if cache.revision < 0 or changes["slices"] or cache.version != version or features != before.features:
        classes, slices, claims, taint_rules, nodes = map(objects, PARTS)
        index = before.device_index if cache.revision >= 0 and not changes["slices"] else DeviceIndex(slices)
        features = cluster_features(version) | index.seen_features | Features.seen_in(claims=claims)
        return ClusterSnapshot(classes, slices, claims, taint_rules, nodes, features, index)
    if not any(changes.values()):
        return before
    return before.after(
        changed_claims=changes["claims"],
        **{part: objects(part) for part in PARTS if part != "slices" and changes[part]},
    )


def _read(cluster: Cluster, cache: _Cache, name: str) -> ObjectChanges:
    """Update one list of objects; return its changes."""
    part = PARTS[name]
    rows = part.model._default_manager.filter(cluster=cluster, revision__gt=cache.revision)
    if cache.revision < 0:
        rows = rows.filter(gone_at=None)
    objects = cache.objects[name]
    changes: ObjectChanges = []
    columns = rows.values_list("pk", "gone_at", *part.columns)
    for number, (pk, gone_at, *row) in enumerate(columns.iterator(chunk_size=CHUNK)):
        if number % CHUNK == 0:
            cache.shared.drop_singletons()
        made = None if gone_at else cache.shared(part.make(*row))
        before = objects.get(pk)
        if made == before:
            continue
        changes.append((before, made))
        if made is None:
            del objects[pk]
        else:
            objects[pk] = made
    cache.shared.drop_singletons()
    return changes


def forget() -> None:
    """Drop all caches, as after a restart."""
    _caches.clear()
