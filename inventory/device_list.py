"""
The list of devices: its columns and its rows.

The rows are read by their keys in one query that is planned once, and written with `core.markup`; a template
takes several times as long for fifty rows. The CSV reads the columns that it has. Neither makes a model of a
device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.safestring import SafeString

from core.listing import Column
from core.markup import joined, markup
from core.prepared import by_keys
from core.templatetags.ui import icon, short_id, state_badge
from core.text import DASH, gib
from core.times import ago
from inventory.holders import HeldClaim, Person, holders_for
from inventory.models import Device
from inventory.models.device import STATE
from inventory.states import LOOKS, Holder

NO_DEVICE = UUID(int=0)
UUID_LENGTH = 12
HOLDER_FIELDS = tuple(f"held_by{name}" for name in ("", "__owner", "__cluster", "__namespace", "__name"))
FIELDS = (
    *("pk", "name", "node_name", "pool", "product", "partition", "memory_bytes", "state", "use"),
    *("cluster__name", "uuid", "driver", "changed_at", "classes", "taints", *HOLDER_FIELDS),
)


class DeviceRow(NamedTuple):
    """What a row shows; `classes` and `taints` are JSON."""

    pk: UUID
    name: str
    node: str
    pool: str
    product: str
    partition: str
    memory_bytes: int | None
    state: str
    use: str  # of a held device, for platform admins
    cluster: str
    uuid: str
    driver: str
    changed_at: datetime
    classes: str
    taints: str
    held_by: HeldClaim | None
    holder: Holder | None = None


def _rows(key: UUID) -> QuerySet[Device, Any]:
    return Device.objects.filter(pk=key).with_state().with_use().values_list(*FIELDS)


ROWS = by_keys(_rows)


def read_rows(person: Person, keys: Sequence[UUID]) -> list[DeviceRow]:
    """Return the rows in the order of `keys`, with the holders that this person may see."""
    width = len(FIELDS) - len(HOLDER_FIELDS)
    rows = {
        row[0]: DeviceRow._make((*row[:width], None if row[width] is None else HeldClaim(*row[width:]), None))
        for row in (ROWS.rows(list(keys)) if keys else ())
    }
    holders = holders_for(person, {row.held_by for row in rows.values() if row.held_by})
    with_uses = person.is_superuser
    return [
        row._replace(
            holder=holders[row.held_by.pk] if row.held_by else None, use=row.use if with_uses else ""
        )
        for row in (rows[key] for key in keys if key in rows)
    ]


# The CSV.


class CsvHolders:
    """The holders in a CSV for one reader, read for a batch of rows at a time."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.texts: dict[int | None, str] = {None: ""}

    def read(self, batch: Iterable[tuple[Any, ...]], places: Mapping[str, int]) -> None:
        if HOLDER_FIELDS[0] in places:
            columns = [places[field] for field in HOLDER_FIELDS]
            claims = {HeldClaim(*(row[place] for place in columns)) for row in batch}
            holders = holders_for(self.person, [claim for claim in claims if claim.pk is not None])
            self.texts = {None: "", **{pk: holder.text for pk, holder in holders.items()}}

    def text(self, held_by: int | None, *_claim: object) -> str:
        return self.texts[held_by]


def _same(value: object) -> object:
    return value


def _column(name: str, label: str, value: Callable[..., object] = _same, **more: Any) -> Column[Device]:
    """Return a column of the field of its name that one can sort by."""
    return Column(name, label, value, **({"sort": name, "fields": (name,)} | more))


def device_columns(holders: CsvHolders) -> list[Column[Device]]:
    return [
        _column("name", "Device", fixed=True),
        _column(
            "node",
            "Node",
            lambda node, pool: node or pool,
            sort=("node_name", "name"),
            fields=("node_name", "pool"),
        ),
        _column("product", "Product", sort=("product", "partition")),
        _column("memory", "Memory", sort="memory_bytes", fields=("memory_bytes",), numeric=True),
        _column("state", "State", lambda state: LOOKS[state].label, sort=(STATE,), fields=(STATE,)),
        Column("holder", "Held by", holders.text, fields=HOLDER_FIELDS),
        _column("cluster", "Cluster", sort="cluster__name", fields=("cluster__name",)),
        Column("classes", "Classes", " ".join, shown=False, fields=("classes",)),
        _column("partition", "Partition", shown=False),
        _column("uuid", "UUID", shown=False),
        _column("pool", "Pool", shown=False),
        _column("driver", "Driver", shown=False),
        Column(
            "taints",
            "Taints",
            lambda taints: " ".join(taint["key"] for taint in taints),
            shown=False,
            fields=("taints",),
        ),
        _column(
            "changed",
            "Changed",
            datetime.isoformat,
            sort="changed_at",
            fields=("changed_at",),
            shown=False,
        ),
    ]


# The table.


def table_rows(rows: Iterable[DeviceRow], shows: Mapping[str, bool]) -> SafeString:
    """Return a `<tr>` per row, with a cell for each shown column."""
    address = reverse("inventory:device", args=[NO_DEVICE])
    shown = [cell for column, cell in CELLS.items() if shows[column]]
    name = '<td><a class="dg-link" href="{}"><code>{}</code></a></td>'

    def cells(row: DeviceRow) -> Iterator[SafeString]:
        yield markup(name, address.replace(str(NO_DEVICE), str(row.pk)), row.name)
        for cell in shown:
            yield cell(row)

    return joined("\n", (markup("<tr>{}</tr>", joined("", cells(row))) for row in rows))


def node_cell(row: DeviceRow) -> SafeString:
    if not row.node:
        return markup('<td class="mr"><span class="dg-id">{}</span></td>', row.pool)
    url = reverse("inventory:node", args=[row.cluster, row.node])
    return markup('<td class="mr"><a class="dg-id" href="{}">{}</a></td>', url, row.node)


def product_cell(row: DeviceRow) -> SafeString:
    product = row.product or "unknown"
    if not row.partition:
        return markup('<td class="wide">{}</td>', product)
    cell = '<td class="wide">{} <span class="dg-tag mono">{}</span></td>'
    return markup(cell, product, row.partition)


@cache  # not at import: the address of an icon needs the built assets
def state_cell(state: str) -> SafeString:
    look = LOOKS[state]
    return markup('<td class="mr">{}</td>', state_badge(look.family, look.icon, look.label))


def holder_cell(row: DeviceRow) -> SafeString:
    holder = row.holder
    if holder is None:
        return markup('<td><span class="dg-3">{}</span></td>', DASH)
    if holder.masked:
        masked = '<td><span class="dg-3">{} {}</span></td>'
        return markup(masked, icon("lock", "s"), holder.text)
    if holder.url:
        return markup('<td><a href="{}">{}</a></td>', holder.url, holder.text)
    return markup('<td><span class="dg-id">{}</span></td>', holder.text)


@cache
def cluster_cell(name: str) -> SafeString:
    return markup('<td class="mr"><a href="{}">{}</a></td>', reverse("inventory:cluster", args=[name]), name)


def classes_cell(row: DeviceRow) -> SafeString:
    tags = (markup('<span class="dg-tag mono">{}</span> ', name) for name in json.loads(row.classes))
    return markup("<td>{}</td>", joined("", tags))


def taints_cell(row: DeviceRow) -> SafeString:
    tag = '<span class="dg-tag mono" title="{}">{}</span> '
    tags = (markup(tag, taint["effect"], taint["key"]) for taint in json.loads(row.taints))
    return markup("<td>{}</td>", joined("", tags) or DASH)


def uuid_cell(row: DeviceRow) -> SafeString:
    shown = short_id(row.uuid, length=UUID_LENGTH) if row.uuid else DASH
    return markup('<td class="dg-nowrap">{}</td>', shown)


def id_cell(label: str, value: str) -> SafeString:
    return markup('<td data-l="{}"><span class="dg-id">{}</span></td>', label, value)


# The cells behind the name, by the names of their columns and in their order.
CELLS: dict[str, Callable[[DeviceRow], SafeString]] = {
    "node": node_cell,
    "product": product_cell,
    "memory": lambda row: markup('<td class="dg-n" data-l="Memory">{}</td>', gib(row.memory_bytes)),
    "state": lambda row: state_cell(row.use or row.state),
    "holder": holder_cell,
    "cluster": lambda row: cluster_cell(row.cluster),
    "classes": classes_cell,
    "partition": lambda row: markup('<td data-l="Partition">{}</td>', row.partition or DASH),
    "uuid": uuid_cell,
    "pool": lambda row: id_cell("Pool", row.pool),
    "driver": lambda row: id_cell("Driver", row.driver),
    "taints": taints_cell,
    "changed": lambda row: markup('<td class="dg-nowrap" data-l="Changed">{}</td>', ago(row.changed_at)),
}
