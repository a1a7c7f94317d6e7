"""
Writing rows of the mirror: which version is newer, what changed, what is gone, one revision per batch.

Each batch is one transaction: fenced by the lease, serial per cluster, and signaled after its commit. Rows
are written in bulk, and marked as gone, never deleted, when the object is gone.

Many rows are one statement: new ones a COPY, changed ones one JSON text. A full listing writes thousands of
rows; with one parameter per value, most of the time went into quoting, while PostgreSQL parses a JSON array
faster than a client builds parameters. COPY takes half of that.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import Case, CharField, F, Value, When
from django.db.models.expressions import RawSQL
from django.utils import timezone
from django.utils.module_loading import import_string
from psycopg import sql

from cluster.protocol import Manifest
from inventory.models import (
    Cluster,
    DeviceClass,
    DeviceTaintRule,
    Mirrored,
    Node,
    ObjectEvent,
    ObjectKey,
    Owned,
    ResourceClaim,
    ResourceSlice,
)
from inventory.signals import mirror_changed
from inventory.sync.columns import Columns, columns
from inventory.sync.session import Lease


def is_newer(version: str, than: str) -> bool:
    """
    Return whether a version is newer (KEP 5504: integers, to be compared as such). True if that is unknown: a
    repeated version does no harm, a missed one does.
    """
    try:
        return int(version) > int(than)
    except ValueError:
        return version != than


def newest(versions: list[str]) -> str:
    """Return the highest, or the last one if they are not integers; "" for none."""
    try:
        return max(versions, key=int, default="")
    except ValueError:
        return versions[-1]


logger = logging.getLogger(__name__)

Change = ObjectEvent.Change


@dataclass(slots=True)
class Write:
    """What one transaction writes. `revision` is that of its rows, and of the cluster if anything changed."""

    lease: Lease
    revision: int
    now: datetime = field(default_factory=timezone.now)
    changed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    events: list[Columns] = field(default_factory=list)  # rows of ObjectEvent
    cluster: str = field(init=False)
    at: str = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = str(self.cluster_id)  # what rows are written with: text once, not once per row
        self.at = self.now.isoformat()

    @property
    def cluster_id(self) -> UUID:
        return self.lease.cluster_id

    def touch(self, kind: str, name: str) -> None:
        self.changed[kind].add(name)

    def remember(self, kind: str, name: str, change: Change, *, uid: str = "", detail: object = None) -> None:
        self.events.append(
            {
                "cluster_id": self.cluster,
                "kind": kind,
                "name": name,
                "uid": uid,
                "change": change,
                "detail": detail or {},
                "at": self.at,
            }
        )


@contextmanager
def writing(lease: Lease) -> Iterator[Write]:
    """
    Open the transaction. Raise `LeaseLost` before anything is written.

    The cluster's row is locked throughout: devices are derived from slices, classes, rules, nodes and claims,
    which five workers follow, and each must see what the one before it wrote. The wait may be longer than a
    page may take.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = '60s'")
        lease.renew()
        cluster = Cluster.objects.select_for_update(no_key=True).only("revision").get(pk=lease.cluster_id)
        write = Write(lease, cluster.revision + 1)
        yield write
        store_history(write.events)
        if write.changed:
            Cluster.objects.filter(pk=cluster.pk).update(revision=write.revision)
        for kind, names in write.changed.items():
            transaction.on_commit(partial(send_changed, lease.cluster_id, kind, frozenset(names)))


def store_history(lines: Sequence[Columns]) -> None:
    insert_rows(ObjectEvent, lines)


def send_changed(cluster_id: UUID, kind: str, names: frozenset[str]) -> None:
    """
    Send `mirror_changed`.

    A receiver that fails must not stop the mirror; its sweep repairs the missed signal.
    """
    for receiver, answer in mirror_changed.send_robust(None, cluster_id=cluster_id, kind=kind, names=names):
        if isinstance(answer, Exception):
            logger.error("%r failed on a change of %s", receiver, kind, exc_info=answer)


AT_ONCE = 1000  # rows in a statement
ENCODER = json.JSONEncoder(default=str, ensure_ascii=False, check_circular=False, separators=(",", ":"))


def insert_rows(model: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert new rows, given by column, all with the same columns. Raise `IntegrityError` if one exists."""
    if not rows:
        return
    names = list(rows[0])
    table = sql.Identifier(model._meta.db_table)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(table, _listed(names))
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:  # most values are text or nothing: a call for each would take longer than the rest
            values = map(row.__getitem__, names)
            copy.write_row([v if v.__class__ is str or v is None else _copied(v) for v in values])


def number_rows(model: type[models.Model], rows: Sequence[Columns]) -> None:
    """Give new rows the next numbers of the table as primary keys."""
    if not rows:
        return
    statement = "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)"
    with connection.cursor() as cursor:
        cursor.execute(statement, [model._meta.db_table, len(rows)])
        for row, (number,) in zip(rows, cursor.fetchall(), strict=True):
            row["id"] = number


EMPTY = {dict: "{}", list: "[]"}


def _copied(value: Any) -> str:
    kind = type(value)
    if kind is dict or kind is list:
        return ENCODER.encode(value) if value else EMPTY[kind]
    return str(value)


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Dates and ids as text, which PostgreSQL parses."""
    return ENCODER.encode(rows)


def _listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


# jsonb, which is parsed once; from json the values of JSON columns are parsed twice.
UPDATE = "UPDATE {table} AS now SET {pairs} FROM jsonb_populate_recordset(NULL::{table}, %s::jsonb) AS new"
COMPARED = "JOIN {table} AS before USING (id)"  # PostgreSQL 17 and older cannot return values from before
CHANGED = "RETURNING now.id, (before.{part}) IS DISTINCT FROM (new.{part})"


def update_rows(model: type[models.Model], rows: Sequence[Mapping[str, Any]], *, part: str = "") -> set[Any]:
    """
    Set columns of existing rows: each row is {"id": …, column: value, …}, all with the same columns.

    Return the ids of the rows in which `part`, SQL that begins with a column, had another value before.
    """
    changed: set[Any] = set()
    if not rows:
        return changed
    same_id = "WHERE now.id = new.id"
    steps = (UPDATE, COMPARED, same_id, CHANGED) if part else (UPDATE, same_id)
    statement = sql.SQL(" ".join(steps)).format(
        table=sql.Identifier(model._meta.db_table),
        pairs=_listed_pairs(name for name in rows[0] if name != "id"),
        part=sql.SQL(part),
    )
    with connection.cursor() as cursor:
        for start in range(0, len(rows), AT_ONCE):
            cursor.execute(statement, [as_json(rows[start : start + AT_ONCE])])
            if part:
                changed.update(pk for pk, differs in cursor.fetchall() if differs)
    return changed


def _listed_pairs(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{0} = new.{0}").format(sql.Identifier(name)) for name in names)


# Kinds with history; devices have their own, and pods and claims change too often.
TRACKED: dict[type[Mirrored], tuple[str, ...]] = {
    Node: ("ready", "unschedulable"),
    DeviceClass: ("spec",),
    DeviceTaintRule: ("spec",),
}
# Parts of an object from which device rows are derived. Most changes, such as a heartbeat, affect none.
JOINED_PARTS: dict[type[Mirrored], str] = {
    Node: "name",
    DeviceClass: "raw -> 'spec'",
    DeviceTaintRule: "raw -> 'spec'",
    ResourceSlice: "raw -> 'spec'",
    ResourceClaim: "raw #> '{status,allocation}'",
}


def full_name(row: Mirrored) -> str:
    """Return "namespace/name", or the name alone where there is no namespace."""
    namespace = getattr(row, "namespace", "")
    return f"{namespace}/{row.name}" if namespace else row.name


def upsert(
    write: Write,
    model: type[Mirrored],
    manifests: Iterable[Manifest],
    *,
    listed: bool,
    first: bool = False,
    empty: bool = False,
    followed: bool = True,
) -> list[Mirrored]:
    """
    Write what is new and return the rows from which devices are derived, with their primary keys.

    A listing is the truth: every difference is written, older or not (a cluster restored from a backup goes
    back in time), and rows closed by mistake are open again. From a watch, only versions newer than the row
    are written, so events may be repeated and in any order. `first` says that nothing was mirrored before, so
    no history is written. `empty` says that no row of these objects exists at all. Without `followed` no row
    is returned.
    """
    fresh = {manifest["metadata"]["uid"]: columns(model, manifest) for manifest in manifests}
    known = {} if empty else {row.uid: row for row in _known(write, model, list(fresh))}
    rows = [
        _row(write, _dated(write, values, before))
        for uid, values in fresh.items()
        if _is_news(before := known.get(uid), values, listed=listed)
        and not (before is not None and model is Node and _is_repeated(write, before, values, listed=listed))
    ]
    if issubclass(model, Owned):
        _set_ownership(write, rows)
    for values in rows:
        namespace = values.get("namespace")
        write.touch(model.__name__, f"{namespace}/{values['name']}" if namespace else values["name"])
    if model not in JOINED_PARTS or (first and not followed):
        _store(model, rows, known)
        return []
    number_rows(model, [values for values in rows if values["uid"] not in known])
    changed = _store(model, rows, known, part=JOINED_PARTS[model])
    written = [model(**values) for values in rows]
    for row in written:
        _tell_history(write, row, known.get(row.uid), first=first)
    if not followed:
        return []
    present = {uid for uid, row in known.items() if row.gone_at is None}
    return [row for row in written if row.uid not in present or row.pk in changed]


def _store(
    model: type[Mirrored], rows: Sequence[Columns], known: Mapping[str, Mirrored], *, part: str = ""
) -> set[Any]:
    """
    Write rows of which `known` exist, by uid; return the ids of those whose `part` changed (`update_rows`).

    Nobody else inserts any: the holder of the lease does, and holders write one after another.
    """
    for values in rows:
        if values["uid"] in known:
            values["id"] = known[values["uid"]].pk
    insert_rows(model, [values for values in rows if values["uid"] not in known])
    return update_rows(model, [values for values in rows if values["uid"] in known], part=part)


def close(write: Write, model: type[Mirrored], versions: dict[str, str]) -> list[Mirrored]:
    """
    Mark the rows of these uids as gone (uid → version of the deletion, "" if unknown), unless they are
    already.
    """
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
            write.remember(model.__name__, full_name(row), Change.GONE, uid=row.uid)
    return rows


def write_tombstones(write: Write, model: type[Mirrored], manifests: Iterable[Manifest]) -> None:
    """
    Write a row that is gone from the start for an object that was deleted before it was seen.

    It stops an older event that arrives after the deletion.
    """
    unseen = {manifest["metadata"]["uid"]: columns(model, manifest) for manifest in manifests}
    for row in _known(write, model, list(unseen)):
        del unseen[row.uid]
    rows = [_row(write, _dated(write, values, None)) | {"gone_at": write.at} for values in unseen.values()]
    insert_rows(model, rows)


def _row(write: Write, values: Columns) -> Columns:
    return values | {
        "cluster_id": write.cluster,
        "seen_at": write.at,
        "gone_at": None,
        "revision": write.revision,
    }


def _known(write: Write, model: type[Mirrored], uids: Sequence[str]) -> Iterable[Mirrored]:
    # An array is one parameter: preparing hundreds of them would take longer than the query.
    stored = RawSQL("SELECT unnest(%s::text[])", (list(uids),))
    rows = model._default_manager.filter(cluster=write.cluster_id, uid__in=stored)
    return rows if model in TRACKED else rows.defer("raw", "labels")


def _is_news(before: Mirrored | None, values: Columns, *, listed: bool) -> bool:
    if before is None:
        return True
    if listed:
        return before.gone_at is not None or before.resource_version != values["resource_version"]
    return is_newer(values["resource_version"], before.resource_version)


def _is_repeated(write: Write, before: Mirrored, values: Columns, *, listed: bool) -> bool:
    """
    Return whether there is nothing to write of a node: it differs only in its version, as after a heartbeat,
    or it is older than such a version.
    """
    unwritten, version = write.lease.unwritten, values["resource_version"]
    if listed:
        unwritten.pop(before.uid, None)  # a listing is the truth
    elif before.uid in unwritten and not is_newer(version, unwritten[before.uid]):
        return True
    if says_same := _says_same(before, values):
        unwritten[before.uid] = version
    return says_same


def _says_same(before: Mirrored, values: Columns) -> bool:
    unversioned = [
        {**raw, "metadata": {**raw["metadata"], "resourceVersion": ""}} if raw else raw
        for raw in (before.raw, values["raw"])
    ]
    return (
        before.gone_at is None
        and unversioned[0] == unversioned[1]
        and all(
            getattr(before, name) == value
            for name, value in values.items()
            if name not in ("raw", "resource_version")
        )
    )


def _dated(write: Write, values: Columns, before: Mirrored | None) -> Columns:
    """Fill in the start of an allocation: without its optional timestamp, the time when it was first seen."""
    if values.get("allocated_at") or "allocated" not in values.get("state", ""):
        return values
    earlier = before.allocated_at if isinstance(before, ResourceClaim) else None
    return values | {"allocated_at": earlier or write.now}


def _set_ownership(write: Write, rows: Sequence[Columns]) -> None:
    """The mirror does not know the claims of the portal; `settings.OBJECT_OWNERSHIP` compares with them."""
    compare = import_string(settings.OBJECT_OWNERSHIP)
    keys = [ObjectKey(*(row[field] for field in ObjectKey._fields)) for row in rows]
    ownership = compare(write.cluster_id, keys) if rows else {}
    for row in rows:
        row["ownership"] = ownership[row["uid"]]


def _tell_history(write: Write, row: Mirrored, before: Mirrored | None, *, first: bool) -> None:
    tracked = TRACKED.get(type(row))
    if tracked is None or first:
        return
    if before is None or before.gone_at is not None:
        write.remember(type(row).__name__, full_name(row), Change.APPEARED, uid=row.uid)
        return
    detail = {
        name: [_value(before, name), _value(row, name)]
        for name in tracked
        if _value(before, name) != _value(row, name)
    }
    if detail:
        write.remember(type(row).__name__, full_name(row), Change.CHANGED, uid=row.uid, detail=detail)


def _value(row: Mirrored, name: str) -> Any:
    return row.raw.get("spec") if name == "spec" else getattr(row, name)
