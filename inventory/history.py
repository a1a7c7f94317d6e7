"""Attributes and capacities of a device with readable units, and the history of objects, newest first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dra.quantity import Quantity, QuantityError
from inventory.models import Cluster, Device, ObjectEvent


class Fact(NamedTuple):
    name: str
    value: str
    readable: str = ""  # the value in GiB


def attribute_rows(driver: str, attributes: dict[str, Any]) -> list[Fact]:
    """Return the attributes. Names in the driver's domain have no prefix, as in the ResourceSlice."""
    return [
        Fact(short(driver, name), ", ".join(map(spelled, entry_values(value))))
        for name, value in sorted(attributes.items())
    ]


def capacity_rows(driver: str, capacity: dict[str, Any]) -> list[Fact]:
    rows = []
    for name, entry in sorted(capacity.items()):
        text = str(entry.get("value", "")) if isinstance(entry, dict) else str(entry)
        rows.append(Fact(short(driver, name), text, readable_bytes(text)))
    return rows


def short(driver: str, name: str) -> str:
    return name.removeprefix(f"{driver}/")


def entry_values(entry: Any) -> list[Any]:
    """Return the values of one attribute: a union of string, int, bool, version, and lists of them."""
    if not isinstance(entry, dict):
        return [entry]
    return [item for value in entry.values() for item in (value if isinstance(value, list) else [value])]


def spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def readable_bytes(text: str) -> str:
    """Return "79.6 GiB" for a quantity of at least 1 GiB, else ""; small quantities are counts."""
    try:
        amount = Quantity.parse(text).bytes
    except QuantityError:
        return ""
    return f"{amount / 2**30:.1f}".removesuffix(".0") + " GiB" if amount >= 2**30 else ""


MAX_LINES = 30
MAX_EVENTS = 200  # of a cluster that are read for its recent changes


@dataclass(frozen=True, slots=True)
class HistoryLine:
    at: datetime
    family: str  # colour
    change: str
    details: list[str]
    url: str = ""  # of what changed it, if it has a page


FAMILY = {
    ObjectEvent.Change.APPEARED: "held",
    ObjectEvent.Change.CHANGED: "work",
    ObjectEvent.Change.GONE: "wait",
}


def device_history(device: Device) -> list[HistoryLine]:
    name = f"{device.driver}/{device.pool}/{device.name}"
    lines = object_history(device.cluster, "Device", name)
    if len(lines) < MAX_LINES and not any(line.family == "held" for line in lines):
        lines.append(HistoryLine(device.appeared_at, "held", "First seen by this portal", []))
    return lines


def object_history(cluster: Cluster, kind: str, name: str) -> list[HistoryLine]:
    events = ObjectEvent.objects.filter(cluster=cluster, kind=kind, name=name)[:MAX_LINES]
    return [history_line(event) for event in events]


def history_line(event: ObjectEvent) -> HistoryLine:
    words = {
        ObjectEvent.Change.APPEARED: "Appeared",
        ObjectEvent.Change.CHANGED: "Changed",
        ObjectEvent.Change.GONE: "Gone",
    }
    change = ObjectEvent.Change(event.change)
    details = [change_text(name, *values) for name, values in event.detail.items()]
    return HistoryLine(event.at, FAMILY[change], words[change], details)


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """One entry of the recent changes of a cluster: an object, or devices of one pool that changed alike."""

    line: HistoryLine
    what: str


TOGETHER = timedelta(minutes=1)  # devices of a pool that change alike within it are one entry


def recent_changes(events: Iterable[ObjectEvent]) -> list[ClusterChange]:
    """Return the entries of these events, newest first."""
    groups: list[list[ObjectEvent]] = []
    last_of: dict[tuple[str, str, tuple[str, ...]], list[ObjectEvent]] = {}
    for event in events:
        pool = event.name.rpartition("/")[0] if event.kind == "Device" else ""
        key = (pool, event.change, tuple(history_line(event).details))
        group = last_of.get(key) if pool else None
        if group is None or group[0].at - event.at > TOGETHER:
            groups.append(group := [])
            last_of[key] = group
        group.append(event)
    return [ClusterChange(history_line(group[0]), _what(group)) for group in groups]


def _what(group: Sequence[ObjectEvent]) -> str:
    """Return "Node gpu-01", or "8 devices of gpu.nvidia.com/gpu-01" for devices of a pool."""
    if len(group) == 1:
        return f"{group[0].kind} {group[0].name}"
    return f"{len(group)} devices of {group[0].name.rpartition('/')[0]}"


def change_text(name: str, before: Any, after: Any) -> str:
    return f"{name.removeprefix('attributes.')}: {value_text(before)} → {value_text(after)}"


def value_text(value: Any) -> str:
    """Return a value as text: taints by key and effect, a union by its member."""
    if value in (None, "", [], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(value_text(item) for item in value)
    if isinstance(value, dict) and "effect" in value:
        return f"{value['key']} ({value['effect']})"
    if isinstance(value, dict):
        return ", ".join(spelled(item) for item in entry_values(value))
    return spelled(value)
