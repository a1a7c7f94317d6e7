"""Attributes and capacities of a device with readable units, and the history of objects, newest first."""

from dataclasses import dataclass
from datetime import datetime
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
        lines.append(HistoryLine(device.appeared_at, "held", "First seen", []))
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
