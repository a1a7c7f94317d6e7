"""
What a cluster holds, for the allocator, from the mirror.

Kept in the process: a page that asks twice reads only the rows written since, and the picture itself, with
all that it has worked out, stays the same object until one of them has moved. Of each object only what the
allocator reads is kept, and equal parts once (docs/decisions/0007-cluster-snapshot-in-the-web-process.md).
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dra.cluster_snapshot import ClusterSnapshot
from dra.features import NEWEST, Features
from dra.held import Interner
from dra.objects import Manifest
from inventory.models import (
    Cluster,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ResourceClaim,
    ResourceSlice,
)

AT_ONCE = 1000  # rows


@dataclass(frozen=True, slots=True)
class _Part:
    """One list of the picture: the columns of a row that it takes, and what it makes of them."""

    model: type[Mirrored]
    columns: tuple[str, ...]
    make: Callable[..., Manifest | None]


def _whole(raw: Manifest) -> Manifest:
    return raw


def _slice(name: str, spec: Manifest) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec}


def _claim(namespace: str, name: str, results: list[Manifest] | None) -> Manifest | None:
    """A claim without an allocation holds nothing and is left out."""
    if not results:
        return None
    metadata = {"namespace": namespace, "name": name}
    return {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}


def _node(name: str, labels: Manifest, spec: Manifest | None) -> Manifest:
    kept = {key: value for key, value in (spec or {}).items() if key in ("unschedulable", "taints")}
    return {"metadata": {"name": name, "labels": labels}, "spec": kept}


RESULTS = "raw__status__allocation__devices__results"
PARTS = {
    "classes": _Part(DeviceClass, ("raw",), _whole),
    "slices": _Part(ResourceSlice, ("name", "raw__spec"), _slice),
    "claims": _Part(ResourceClaim, ("namespace", "name", RESULTS), _claim),
    "taint_rules": _Part(DeviceTaintRule, ("raw",), _whole),
    "nodes": _Part(Node, ("name", "labels", "raw__spec"), _node),
}

type Moved = list[tuple[Manifest | None, Manifest | None]]  # an object before and after


@dataclass(slots=True)
class _Kept:
    """The rows of one cluster as far as `revision`, in the order of their names."""

    revision: int = -1
    objects: dict[str, dict[int, Manifest]] = field(default_factory=lambda: {part: {} for part in PARTS})
    shared: Interner = field(default_factory=Interner)
    snapshot: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start_again(self) -> None:
        self.revision, self.objects = -1, {part: {} for part in PARTS}


_kept: dict[UUID, _Kept] = {}


def current_snapshot(cluster: Cluster) -> ClusterSnapshot:
    """
    Return the picture as of the last committed change of the mirror; one query if nothing moved.

    While another thread brings it up to date, the picture before is answered at once.
    """
    revision, version = Cluster.objects.values_list("revision", "version").get(pk=cluster.pk)
    kept = _kept.setdefault(cluster.pk, _Kept())
    if not kept.lock.acquire(blocking=kept.revision < 0):
        return kept.snapshot
    try:
        if kept.revision > revision:  # the mirror was rebuilt
            kept.start_again()
        if kept.revision != revision:
            moved = {part: _read(cluster, kept, part) for part in PARTS}
            kept.snapshot = _next(kept, moved, cluster_features(version))
            kept.revision = revision
        return kept.snapshot
    except BaseException:
        kept.start_again()  # what has been read and what has not cannot be told apart
        raise
    finally:
        kept.lock.release()


def cluster_features(version: str) -> Features:
    """Return what a cluster of a version ("v1.36.2") has on by default; unknown ones count as the newest."""
    _, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return Features.of_version(int(minor)) if minor.isdecimal() else NEWEST


def _next(kept: _Kept, moved: dict[str, Moved], features: Features) -> ClusterSnapshot:
    """Return the same picture if nothing moved; one that keeps its devices while no slice has."""

    def objects(part: str) -> list[Any] | None:
        return list(kept.objects[part].values()) if moved[part] else None

    before = kept.snapshot
    if kept.revision < 0 or moved["slices"] or before.features != features:
        classes, slices, claims, taint_rules, nodes = (list(kept.objects[part].values()) for part in PARTS)
        return ClusterSnapshot(classes, slices, claims, taint_rules, nodes, features)
    if not any(moved.values()):
        return before
    return before.after(
        classes=objects("classes"),
        claims=objects("claims"),
        changed_claims=moved["claims"],
        taint_rules=objects("taint_rules"),
        nodes=objects("nodes"),
    )


def _read(cluster: Cluster, kept: _Kept, name: str) -> Moved:
    """Bring one part up to date and return what of it moved."""
    part = PARTS[name]
    rows = part.model._default_manager.filter(cluster=cluster, revision__gt=kept.revision)
    if kept.revision < 0:
        rows = rows.filter(gone_at=None)
    found = kept.objects[name]
    moved: Moved = []
    columns = rows.values_list("pk", "gone_at", *part.columns)
    for number, (pk, gone_at, *row) in enumerate(columns.iterator(chunk_size=AT_ONCE)):
        if number % AT_ONCE == 0:
            kept.shared.drop_singletons()
        made = None if gone_at else kept.shared(part.make(*row))
        before = found.get(pk)
        if made == before:
            continue
        moved.append((before, made))
        if made is None:
            del found[pk]
        else:
            found[pk] = made
    kept.shared.drop_singletons()
    return moved


def forget() -> None:
    """Drop what is kept, as after a restart."""
    _kept.clear()
