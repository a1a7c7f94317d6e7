"""
The rows of the list of devices: read by their keys in one query that is planned once, and written without a
template. The CSV reads the columns that it has, and neither makes a model of a device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from html import escape
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from core.listing import Column
from core.prepared import by_keys
from core.templatetags.ui import icon, short_id, state_badge
from core.text import DASH, gib
from core.times import ago
from inventory.holders import HeldClaim, Person, holders_for
from inventory.models import Device
from inventory.states import LOOKS, DeviceState, Holder

NO_DEVICE = UUID(int=0)
UUID_LENGTH = 12
HOLDER_FIELDS = tuple(f"held_by{name}" for name in ("", "__owner", "__cluster", "__namespace", "__name"))
FIELDS = (
    *("pk", "name", "node_name", "pool", "product", "partition", "memory_bytes", "state", "cluster__name"),
    *("uuid", "driver", "changed_at", "classes", "taints", *HOLDER_FIELDS),
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
    cluster: str
    uuid: str
    driver: str
    changed_at: datetime
    classes: str
    taints: str
    held_by: HeldClaim | None
    holder: Holder | None = None


def _rows(key: UUID) -> QuerySet[Device, Any]:
    return Device.objects.filter(pk=key).with_state().values_list(*FIELDS)


ROWS = by_keys(_rows)


def rows_of(person: Person, keys: Sequence[UUID]) -> list[DeviceRow]:
    """Return the rows in the order of `keys`, with the holders that this person may see."""
    width = len(FIELDS) - len(HOLDER_FIELDS)
    rows = {
        row[0]: DeviceRow._make((*row[:width], None if row[width] is None else HeldClaim(*row[width:]), None))
        for row in (ROWS.rows(list(keys)) if keys else ())
    }
    holders = holders_for(person, {row.held_by for row in rows.values() if row.held_by})
    return [
        row._replace(holder=holders[row.held_by.pk] if row.held_by else None)
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
        _column("state", "State", lambda state: LOOKS[state].label),
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
    lines = []
    for row in rows:
        url = address.replace(str(NO_DEVICE), str(row.pk))
        name = f'<td><a class="dg-link" href="{url}"><code>{escape(row.name)}</code></a></td>'
        lines.append(f"<tr>{name}{''.join([cell(row) for cell in shown])}</tr>")
    return mark_safe("\n".join(lines))  # noqa: S308 - every cell has been escaped


def node_cell(row: DeviceRow) -> str:
    if not row.node:
        return f'<td><span class="dg-id">{escape(row.pool)}</span></td>'
    url = reverse("inventory:node", args=[row.cluster, row.node])
    return f'<td><a class="dg-id" href="{url}">{escape(row.node)}</a></td>'


def product_cell(row: DeviceRow) -> str:
    partition = f' <span class="dg-tag mono">{escape(row.partition)}</span>' if row.partition else ""
    return f'<td class="wide">{escape(row.product or "unknown")}{partition}</td>'


@cache  # not at import: the address of an icon needs the built assets
def state_cell(state: DeviceState) -> str:
    look = LOOKS[state]
    return f"<td>{state_badge(look.family, look.icon, look.label)}</td>"


def holder_cell(row: DeviceRow) -> str:
    holder = row.holder
    if holder is None:
        text = f'<span class="dg-3">{DASH}</span>'
    elif holder.masked:
        text = f'<span class="dg-3">{icon("lock", "s")} {escape(holder.text)}</span>'
    elif holder.url:
        text = f'<a href="{escape(holder.url)}">{escape(holder.text)}</a>'
    else:
        text = f'<span class="dg-id">{escape(holder.text)}</span>'
    return f'<td class="mr">{text}</td>'


def cluster_cell(row: DeviceRow) -> str:
    return f"<td>{cluster_link(row.cluster)}</td>"


@cache
def cluster_link(name: str) -> str:
    return f'<a href="{reverse("inventory:cluster", args=[name])}">{escape(name)}</a>'


def classes_cell(row: DeviceRow) -> str:
    tags = [f'<span class="dg-tag mono">{escape(name)}</span> ' for name in json.loads(row.classes)]
    return f"<td>{''.join(tags)}</td>"


def taints_cell(row: DeviceRow) -> str:
    tags = [
        f'<span class="dg-tag mono" title="{escape(taint["effect"])}">{escape(taint["key"])}</span> '
        for taint in json.loads(row.taints)
    ]
    return f"<td>{''.join(tags) or DASH}</td>"


def uuid_cell(row: DeviceRow) -> str:
    return f'<td class="dg-nowrap">{short_id(row.uuid, length=UUID_LENGTH) if row.uuid else DASH}</td>'


# The cells behind the name, by the names of their columns and in their order.
CELLS: dict[str, Callable[[DeviceRow], str]] = {
    "node": node_cell,
    "product": product_cell,
    "memory": lambda row: f'<td class="dg-n" data-l="Memory">{escape(gib(row.memory_bytes))}</td>',
    "state": lambda row: state_cell(DeviceState(row.state)),
    "holder": holder_cell,
    "cluster": cluster_cell,
    "classes": classes_cell,
    "partition": lambda row: f'<td data-l="Partition">{escape(row.partition) or DASH}</td>',
    "uuid": uuid_cell,
    "pool": lambda row: f'<td data-l="Pool"><span class="dg-id">{escape(row.pool)}</span></td>',
    "driver": lambda row: f'<td data-l="Driver"><span class="dg-id">{escape(row.driver)}</span></td>',
    "taints": taints_cell,
    "changed": lambda row: f'<td class="dg-nowrap" data-l="Changed">{ago(row.changed_at)}</td>',
}
