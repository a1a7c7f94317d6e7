"""Rows of mirrored objects: upserted in bulk, closed and never deleted when the object is gone."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Case, CharField, F, Value, When

from cluster.protocol import Manifest
from inventory.models import DeviceClass, DeviceTaintRule, Mirrored, Node, ResourceClaim
from inventory.sync.bulk import upsert_rows
from inventory.sync.columns import Columns, columns
from inventory.sync.versions import is_newer
from inventory.sync.write import What, Write

# What counts as a change worth a line of history; devices have their own, and pods and claims would drown it.
TRACKED: dict[type[Mirrored], tuple[str, ...]] = {
    Node: ("ready", "unschedulable"),
    DeviceClass: ("spec",),
    DeviceTaintRule: ("spec",),
}
ONCE = ("cluster_id", "uid")


def full_name(row: Mirrored) -> str:
    """Return "namespace/name", or the name alone where there is no namespace."""
    namespace = getattr(row, "namespace", "")
    return f"{namespace}/{row.name}" if namespace else row.name


def upsert(
    write: Write, model: type[Mirrored], manifests: Iterable[Manifest], *, listed: bool, first: bool = False
) -> list[Mirrored]:
    """
    Write what is news and return those rows, with their primary keys.

    A listing is the truth: whatever differs from it is taken, older or not (a cluster restored from a backup
    goes back in time), and what was closed by mistake is open again. Of a watch, only what is newer than the
    row is taken, so events may come twice or in any order. `first` says that nothing was mirrored before:
    then there is no history to tell.
    """
    fresh = {manifest["metadata"]["uid"]: columns(model, manifest) for manifest in manifests}
    known = {row.uid: row for row in _known(write, model, list(fresh))}
    rows = [
        _row(write, _dated(write, values, before))
        for uid, values in fresh.items()
        if _is_news(before := known.get(uid), values, listed=listed)
    ]
    ids = dict(upsert_rows(model, rows, unique=ONCE, returning=("uid", "id")))
    written = [model(id=ids[row["uid"]], **row) for row in rows]
    for row in written:
        write.touch(model.__name__, full_name(row))
        _tell_history(write, row, known.get(row.uid), first=first)
    return written


def close(write: Write, model: type[Mirrored], versions: dict[str, str]) -> list[Mirrored]:
    """Mark as gone the rows of these uids (uid → version of the deletion, "" if unknown) that are not yet."""
    rows = [row for row in _known(write, model, list(versions)) if row.gone_at is None]
    newer = [
        When(uid=row.uid, then=Value(versions[row.uid]))
        for row in rows
        if versions[row.uid] and is_newer(versions[row.uid], row.resource_version)
    ]
    version = Case(*newer, default=F("resource_version"), output_field=CharField())
    for start in range(0, len(rows), 500):
        uids = [row.uid for row in rows[start : start + 500]]
        model._default_manager.filter(cluster=write.cluster_id, uid__in=uids).update(
            gone_at=write.now,
            seen_at=write.now,
            revision=write.revision,
            resource_version=version if newer else F("resource_version"),
        )
    for row in rows:
        row.gone_at = write.now
        write.touch(model.__name__, full_name(row))
        if model in TRACKED:
            write.remember(model.__name__, full_name(row), What.GONE, uid=row.uid)
    return rows


def bury(write: Write, model: type[Mirrored], manifests: Iterable[Manifest]) -> None:
    """
    Keep a row, gone from the start, of what was deleted before it was seen.

    It stands in the way of an older event that arrives after the deletion.
    """
    values = [columns(model, manifest) for manifest in manifests]
    rows = [_row(write, _dated(write, value, None)) | {"gone_at": write.now} for value in values]
    upsert_rows(model, rows, unique=ONCE, kept=rows[0] if rows else ())


def _row(write: Write, values: Columns) -> Columns:
    return values | {
        "cluster_id": write.cluster_id,
        "seen_at": write.now,
        "gone_at": None,
        "revision": write.revision,
    }


def _known(write: Write, model: type[Mirrored], uids: Sequence[str]) -> Iterable[Mirrored]:
    rows = model._default_manager.filter(cluster=write.cluster_id, uid__in=uids)
    return rows if model in TRACKED else rows.defer("raw", "labels")


def _is_news(before: Mirrored | None, values: Columns, *, listed: bool) -> bool:
    if before is None:
        return True
    if listed:
        return before.gone_at is not None or before.resource_version != values["resource_version"]
    return is_newer(values["resource_version"], before.resource_version)


def _dated(write: Write, values: Columns, before: Mirrored | None) -> Columns:
    """
    Fill in when an allocation began: its timestamp is optional, and then it began when it was first seen.
    """
    if values.get("allocated_at") or "allocated" not in values.get("state", ""):
        return values
    earlier = before.allocated_at if isinstance(before, ResourceClaim) else None
    return values | {"allocated_at": earlier or write.now}


def _tell_history(write: Write, row: Mirrored, before: Mirrored | None, *, first: bool) -> None:
    tracked = TRACKED.get(type(row))
    if tracked is None or first:
        return
    if before is None or before.gone_at is not None:
        write.remember(type(row).__name__, full_name(row), What.APPEARED, uid=row.uid)
        return
    detail = {
        name: [_value(before, name), _value(row, name)]
        for name in tracked
        if _value(before, name) != _value(row, name)
    }
    if detail:
        write.remember(type(row).__name__, full_name(row), What.CHANGED, uid=row.uid, detail=detail)


def _value(row: Mirrored, name: str) -> Any:
    return row.raw.get("spec") if name == "spec" else getattr(row, name)
