"""
Device rows of pools: the newest generation, once it is complete.

While slices of a new generation are missing, the last known devices stay, marked as incomplete. It runs for a
few pools after an event of a watch, and for all of them after a listing, with the same result.

Each selector of a DeviceClass is evaluated once per shape, which is what it can see of a device: a fleet has
thousands of devices and a dozen shapes. A device for which CEL cannot be evaluated here is no member of the
class, never a guess.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from cluster.protocol import Manifest
from core.models import uuid7
from dra.cel import CelError, Selector, Work, compile_selector
from dra.devices import describe
from dra.node_pools import PoolKey
from dra.objects import Json, expressions
from dra.pools import DeviceKey, Pool, PoolDevice, gather_pools
from dra.taints import Taint, effective_rules, rule_taints
from inventory.device_search import store_texts
from inventory.models import Cluster, Device, DeviceClass, DeviceTaintRule, Node, ResourceSlice
from inventory.sync.rows import Change, Write, insert_rows, update_rows

# Taint keys of drivers for a broken device (NVIDIA's xid and gpu-lost, Intel's HealthIssues-*).
BROKEN = re.compile(r"(^|[/-])(xid|gpu-lost)$|health", re.IGNORECASE)


def device_values(device: PoolDevice, rules: Sequence[Json]) -> dict[str, Any]:
    raw = device.raw
    about = describe(device.driver, raw)
    ruled = rule_taints(device, rules)
    return {
        "node_name": device.node_name,
        "product": about.product[:120],
        "kind": about.kind[:32],
        "partition": about.partition[:64],
        "uuid": about.uuid[:80],
        "parent_uuid": about.parent_uuid[:80],
        "memory_bytes": about.memory_bytes,
        "attributes": raw.get("attributes") or {},
        "capacity": raw.get("capacity") or {},
        "counters": raw.get("consumesCounters") or [],
        "taints": [taint.as_dict() for taint in (*device.taints, *ruled)],
        "condition": condition(device.taints, ruled),
        "shareable": device.shareable,
    }


def condition(published: Sequence[Taint], ruled: Sequence[Taint]) -> Device.Condition:
    """Summarize the taints of the slice and those of rules; the effect None repels nobody."""
    if any(taint.blocks and BROKEN.search(taint.key) for taint in published):
        return Device.Condition.UNHEALTHY
    if any(taint.blocks for taint in (*published, *ruled)):
        return Device.Condition.TAINTED
    return Device.Condition.GOOD


BOOKS = 32  # kept per process; a cluster has one until its classes change
SHAPES = 20_000  # of devices remembered by a book


def class_book(classes: Iterable[DeviceClass]) -> ClassBook:
    """Return the book of these classes: the last one if they have not changed, with the shapes it knows."""
    return _book(tuple((row.name, tuple(expressions(row.raw.get("spec") or {}))) for row in classes))


class ClassBook:
    """The classes of one cluster, compiled, to match many devices."""

    def __init__(self, classes: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        self._selectors = {name: _compiled(texts) for name, texts in classes}
        self._known: dict[tuple[str, Hashable], bool] = {}

    def of(
        self, devices: Sequence[PoolDevice], work: defaultdict[str, Work] | None = None
    ) -> list[list[str]]:
        """
        Return for each device the names of the classes whose selectors are all met, sorted.

        `work` counts the steps of each selector over several calls.
        """
        work = defaultdict(Work) if work is None else work
        class_names: list[list[str]] = [[] for _ in devices]
        for name in sorted(self._selectors):
            for index, met in enumerate(self._members(self._selectors[name], devices, work)):
                if met:
                    class_names[index].append(name)
        return class_names

    def _members(
        self, selectors: list[Selector] | None, devices: Sequence[PoolDevice], work: defaultdict[str, Work]
    ) -> list[bool]:
        met = [selectors is not None] * len(devices)
        for selector in selectors or ():
            for place, shape in enumerate(selector.shapes(devices)):
                met[place] = met[place] and self._meets(
                    selector, shape, devices[place], work[selector.expression]
                )
        return met

    def _meets(self, selector: Selector, shape: Hashable, device: PoolDevice, work: Work) -> bool:
        key = (selector.expression, shape)
        met = self._known.get(key)
        if met is None:
            if len(self._known) >= SHAPES:
                self._known.clear()
            met = self._known[key] = _matches(selector, device, work)
        return met


@lru_cache(maxsize=BOOKS)
def _book(classes: tuple[tuple[str, tuple[str, ...]], ...]) -> ClassBook:
    return ClassBook(classes)


def _matches(selector: Selector, device: PoolDevice, work: Work) -> bool:
    try:
        return selector.matches(device, work)
    except CelError:
        return False


def _compiled(texts: Iterable[str]) -> list[Selector] | None:
    """Return None if one of the selectors cannot be evaluated here."""
    try:
        return [compile_selector(text) for text in texts]
    except CelError:
        return None


type Row = dict[str, Any]  # of a device, by column
# Nodes can share the name of a pool and of a device in it: driver, pool, name, node.
type RowKey = tuple[str, str, str, str]

COLUMNS = (
    "slice_id", "node_id", "node_name", "product", "kind", "partition", "uuid", "parent_uuid", "memory_bytes",
    "attributes", "capacity", "counters", "taints", "condition", "shareable", "pool_complete", "classes",
)  # fmt: skip
SHARED = ("capacity", "counters", "taints", "classes")  # JSON that is the same for many devices
TEXTS = {f"{name}_text": Cast(name, TextField()) for name in SHARED}
KNOWN = ("pk", "driver", "pool", "name", "gone_at", *(name for name in COLUMNS if name not in SHARED))
# Columns whose changes change the text of a slice (`inventory.device_search`).
SEARCHED = ("slice_id", "node_name", "product", "partition", "uuid", "parent_uuid")
# Columns whose changes the history shows; the others are derived from them or of no interest to people.
HISTORY_COLUMNS = (
    "product",
    "partition",
    "uuid",
    "memory_bytes",
    "attributes",
    "taints",
    "pool_complete",
    "node_name",
)


def pool_keys(write: Write) -> list[PoolKey]:
    """Return every pool that has or had slices with devices in the mirror."""
    slices = ResourceSlice.objects.filter(cluster=write.cluster_id, gone_at=None)
    devices = Device.objects.present().filter(cluster=write.cluster_id)
    keys = set(slices.values_list("driver", "pool").distinct())
    return sorted(keys | set(devices.values_list("driver", "pool").distinct()))


def refresh_pools(
    write: Write,
    keys: Iterable[PoolKey],
    *,
    written: Iterable[ResourceSlice] = (),
    first: bool = False,
    holders: Mapping[DeviceKey, int] = MappingProxyType({}),
) -> list[DeviceKey]:
    """
    Update the devices of these pools from slices, rules, classes and nodes; `written` are slices as they were
    just written, which need not be read again.

    Return the devices that are new to the mirror: the caller still has to find their holders, unless
    `holders` has them.
    """
    keys = set(keys)
    slices = {row.name: published(row) for row in written if row.gone_at is None}
    others = ResourceSlice.objects.filter(
        cluster=write.cluster_id, pool__in={pool for _, pool in keys}, gone_at=None
    ).exclude(pk__in=[row.pk for row in slices.values()])
    columns = ("driver", "pool", *PublishedSlice._fields)
    for driver, pool_name, *row in others.order_by().values_list(*columns):
        if (driver, pool_name) in keys:
            slices[row[0]] = PublishedSlice(*row)
    pools = gather_pools([row.raw for row in slices.values()])
    return join_pools(write, keys, pools, slices, first=first, holders=holders)


def join_pools(
    write: Write,
    keys: Collection[PoolKey],
    pools: Iterable[Pool],
    slices: Mapping[str, PublishedSlice],
    *,
    first: bool,
    holders: Mapping[DeviceKey, int],
) -> list[DeviceKey]:
    """Bring the devices of `keys` up to date with these pools and their slices, by name (`refresh_pools`)."""
    known: dict[RowKey, Row] = {}
    in_pools = Device.objects.filter(cluster=write.cluster_id, pool__in={pool for _, pool in keys})
    for device in in_pools.order_by().values(*KNOWN, **TEXTS):
        if (device["driver"], device["pool"]) in keys:
            for text in TEXTS:
                name, _, _ = text.partition("_text")
                device[name] = _decoded(device.pop(text))
            known[device["driver"], device["pool"], device["name"], device["node_name"]] = device
    around = _Surroundings(write, slices)
    wanted: dict[RowKey, Row] = {}
    pools = list(pools)
    parts = Counter((pool.driver, pool.name) for pool in pools)
    incomplete: set[tuple[str, str, str | None]] = set()  # with a node if it is a part, else with None
    for pool in pools:
        wanted |= around.devices_in(pool)
        if not pool.usable:
            key = (pool.driver, pool.name)
            incomplete.add((*key, pool.node_name if parts[key] > 1 else None))
    _follow_moves(known, wanted)
    _keep_last(known, wanted, incomplete)
    added = _save(write, known, wanted, holders, first=first)
    _close(write, {key: row for key, row in known.items() if key not in wanted and row["gone_at"] is None})
    store_texts(_slices_with_other_words(known, wanted))
    return added


def _follow_moves(known: dict[RowKey, Row], wanted: Mapping[RowKey, Row]) -> None:
    """Give a device that is on another node now the row that it had, rather one that is not gone."""
    left = {
        key[:3]: key for key in sorted(known, key=lambda key: not known[key]["gone_at"]) if key not in wanted
    }
    for key in wanted.keys() - known.keys():
        if before := left.pop(key[:3], None):
            known[key] = known.pop(before)


def _slices_with_other_words(known: Mapping[RowKey, Row], wanted: Mapping[RowKey, Row]) -> set[int]:
    """Return the slices that got or lost a device, or of which a device has other words."""
    slices = set()
    for key in known.keys() | wanted.keys():
        before, after = known.get(key), wanted.get(key)
        if before and before["gone_at"] is not None:
            before = None
        if before and after and all(before[name] == after[name] for name in SEARCHED):
            continue
        slices |= {row["slice_id"] for row in (before, after) if row}
    return slices


@lru_cache(maxsize=1000)
def _decoded(text: str) -> Any:
    """Decode a JSON column that most devices have in common. Callers do not change the value."""
    return json.loads(text)


class PublishedSlice(NamedTuple):
    """The columns of a ResourceSlice that devices are joined from."""

    name: str
    pk: int
    node_name: str
    raw: Manifest


def published(row: ResourceSlice) -> PublishedSlice:
    return PublishedSlice(row.name, row.pk, row.node_name, row.raw)


class _Surroundings:
    """What a device row is joined from, read once for many pools."""

    def __init__(self, write: Write, slices: Mapping[str, PublishedSlice]) -> None:
        here = {"cluster": write.cluster_id, "gone_at": None}
        self.slices = slices
        self.rules: Sequence[Json] = list(
            DeviceTaintRule.objects.filter(**here).values_list("raw", flat=True)
        )
        if self.rules:
            version = Cluster.objects.values_list("version", flat=True).get(pk=write.cluster_id)
            self.rules = effective_rules(self.rules, version)
        self.work: defaultdict[str, Work] = defaultdict(Work)
        self.classes = class_book(DeviceClass.objects.filter(**here))
        nodes = Node.objects.filter(**here, name__in={row.node_name for row in slices.values()} - {""})
        self.nodes: dict[str, int] = dict(nodes.values_list("name", "pk"))

    def devices_in(self, pool: Pool) -> dict[RowKey, Row]:
        rows = {}
        for device, classes in zip(pool.devices, self.classes.of(pool.devices, self.work), strict=True):
            values = device_values(device, self.rules)
            node_name = values["node_name"]
            values |= {
                "slice_id": self.slices[device.slice_name].pk,
                "node_id": self.nodes.get(node_name),
                "pool_complete": pool.usable,
                "classes": classes,
            }
            rows[*device.key, node_name] = values
        return rows


def _keep_last(
    known: dict[RowKey, Row], wanted: dict[RowKey, Row], incomplete: set[tuple[str, str, str | None]]
) -> None:
    """Only mark an incomplete pool as such: its devices stay as they were."""
    for key, row in known.items():
        driver, pool, _, node = key
        is_incomplete = not incomplete.isdisjoint(((driver, pool, None), (driver, pool, node)))
        if is_incomplete and row["gone_at"] is None:
            wanted[key] = {name: row[name] for name in COLUMNS} | {"pool_complete": False}


def _save(
    write: Write,
    stored: dict[RowKey, Row],
    derived: dict[RowKey, Row],
    holders: Mapping[DeviceKey, int],
    *,
    first: bool,
) -> list[DeviceKey]:
    added, new, again = [], [], []
    changed: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for key, values in derived.items():
        before = stored.get(key)
        changes = _changes(before, values) if before and before["gone_at"] is None else None
        if changes == {}:
            continue
        full = "/".join(key[:3])
        write.touch("Device", full)
        if before is None or changes is None:
            added.append(key[:3])
            seen = {"appeared_at": write.at, "changed_at": write.at, "gone_at": None}
            if before is None:
                new.append(_new_row(write, key, values | seen | {"held_by_id": holders.get(key[:3])}))
            else:  # whoever held it, and whether it is blocked, is looked up
                again.append({"id": before["pk"], **values, **seen})
            if not first:
                write.remember("Device", full, Change.APPEARED, uid=values["uuid"])
            continue
        columns = tuple(sorted({name.split(".")[0] for name in changes}))
        current = {name: values[name] for name in columns}
        changed[columns].append({"id": before["pk"], "changed_at": write.at, **current})
        if shown := {
            name: change for name, change in changes.items() if name.split(".")[0] in HISTORY_COLUMNS
        }:
            write.remember("Device", full, Change.CHANGED, uid=values["uuid"], detail=shown)
    insert_rows(Device, new)
    update_rows(Device, again)
    for alike in changed.values():
        update_rows(Device, alike)
    return added


def _new_row(write: Write, key: RowKey, values: Row) -> Row:
    driver, pool, name, _ = key
    own = {"id": str(uuid7()), "cluster_id": write.cluster, "driver": driver, "pool": pool, "name": name}
    return values | own | {"blocked": False}


def _changes(before: Row, values: Row) -> dict[str, list[Any]]:
    """Return {"field": [before, after]}; attributes one by one."""
    changes = {name: [before[name], value] for name, value in values.items() if before[name] != value}
    if "attributes" in changes:
        old, new = changes.pop("attributes")
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                changes[f"attributes.{name}"] = [old.get(name), new.get(name)]
    return changes


def _close(write: Write, devices: Mapping[RowKey, Row]) -> None:
    if not devices:
        return
    gone = Device.objects.filter(pk__in=[row["pk"] for row in devices.values()])
    gone.update(gone_at=write.now, changed_at=write.now, held_by=None)
    for key, row in devices.items():
        name = "/".join(key[:3])
        write.touch("Device", name)
        write.remember("Device", name, Change.GONE, uid=row["uuid"])


def pools_meant(write: Write, rules: Iterable[DeviceTaintRule]) -> list[PoolKey]:
    """Return the pools whose devices these rules taint now or have tainted before."""
    wanted = Q(pk__in=[])
    for rule in rules:
        wanted |= Q(taints__contains=[{"source": rule.name}])
        selector = (rule.raw.get("spec") or {}).get("deviceSelector") or {}
        parts = {name: selector[name] for name in ("driver", "pool") if selector.get(name)}
        if not parts:
            return pool_keys(write)
        wanted |= Q(**parts)
    devices = Device.objects.present().filter(wanted, cluster=write.cluster_id)
    return sorted(set(devices.values_list("driver", "pool").distinct()))
