"""
What a cluster holds, for the allocator, from the mirror.

Kept in the process: a page that asks twice reads only the rows written since, and the picture itself, with
all that it has worked out, stays the same object until one of them has moved.
"""

import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dra.picture import Picture
from inventory.models import (
    Cluster,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ResourceClaim,
    ResourceSlice,
)

PARTS: tuple[tuple[str, type[Mirrored]], ...] = (
    ("classes", DeviceClass),
    ("slices", ResourceSlice),
    ("claims", ResourceClaim),
    ("taint_rules", DeviceTaintRule),
    ("nodes", Node),
)


@dataclass(slots=True)
class _Kept:
    """The rows of one cluster as far as `revision`, in the order of their names."""

    revision: int = -1
    objects: dict[str, dict[int, Any]] = field(default_factory=lambda: {part: {} for part, _ in PARTS})
    picture: Picture = field(default_factory=Picture)
    lock: threading.Lock = field(default_factory=threading.Lock)


_kept: dict[UUID, _Kept] = {}


def picture_of(cluster: Cluster) -> Picture:
    """Return the picture as of the last committed change of the mirror; one query if nothing moved."""
    revision = Cluster.objects.values_list("revision", flat=True).get(pk=cluster.pk)
    kept = _kept.setdefault(cluster.pk, _Kept())
    with kept.lock:
        if kept.revision > revision:  # the mirror was rebuilt
            kept.objects = {part: {} for part, _ in PARTS}
            kept.revision = -1
        if kept.revision != revision:
            moved = [_read(cluster, kept, part, model) for part, model in PARTS]
            kept.revision = revision
            kept.picture = _next(kept, {part for (part, _), it in zip(PARTS, moved, strict=True) if it})
        return kept.picture


def _next(kept: _Kept, moved: set[str]) -> Picture:
    """Return the same picture if nothing moved; one that keeps its devices while no slice has."""

    def objects(part: str) -> list[Any] | None:
        return list(kept.objects[part].values()) if part in moved else None

    if not moved:
        return kept.picture
    slices = objects("slices")
    before = kept.picture if slices is None else Picture(slices=slices)
    if slices is not None:
        moved |= {part for part, _ in PARTS}
    return before.after(
        classes=objects("classes"),
        claims=objects("claims"),
        taint_rules=objects("taint_rules"),
        nodes=objects("nodes"),
    )


def _read(cluster: Cluster, kept: _Kept, part: str, model: type[Mirrored]) -> bool:
    """Bring one part up to date and return whether anything in it moved."""
    rows = model._default_manager.filter(cluster=cluster, revision__gt=kept.revision)
    if kept.revision < 0:
        rows = rows.filter(gone_at=None)
    found, moved = kept.objects[part], False
    for pk, raw, gone_at in rows.values_list("pk", "raw", "gone_at").iterator(chunk_size=1000):
        moved = True
        if gone_at:
            found.pop(pk, None)
        else:
            found[pk] = raw
    return moved


def forget() -> None:
    """Drop what is kept, as after a restart."""
    _kept.clear()
