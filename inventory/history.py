"""What has happened to an object or a device, as sentences, newest first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inventory.models import Cluster, Device, ObjectEvent
from inventory.values import spelled, values_of

LINES = 30


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    family: str  # colour
    what: str
    details: list[str]


FAMILY = {ObjectEvent.What.APPEARED: "held", ObjectEvent.What.CHANGED: "work", ObjectEvent.What.GONE: "wait"}


def device_history(device: Device) -> list[Line]:
    name = f"{device.driver}/{device.pool}/{device.name}"
    lines = history_of(device.cluster, "Device", name)
    if len(lines) < LINES and not any(line.family == "held" for line in lines):
        lines.append(Line(device.appeared_at, "held", "In the mirror since", []))
    return lines


def history_of(cluster: Cluster, kind: str, name: str) -> list[Line]:
    events = ObjectEvent.objects.filter(cluster=cluster, kind=kind, name=name)[:LINES]
    return [line_of(event) for event in events]


def line_of(event: ObjectEvent) -> Line:
    words = {
        ObjectEvent.What.APPEARED: "Appeared",
        ObjectEvent.What.CHANGED: "Changed",
        ObjectEvent.What.GONE: "Gone",
    }
    what = ObjectEvent.What(event.what)
    details = [sentence(name, *change) for name, change in event.detail.items()]
    return Line(event.at, FAMILY[what], words[what], details)


def sentence(name: str, before: Any, after: Any) -> str:
    return f"{name.removeprefix('attributes.')}: {shown(before)} → {shown(after)}"


def shown(value: Any) -> str:
    """Return a value as people read it: taints by key and effect, a union by its member."""
    if value in (None, "", [], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict) and "effect" in value:
        return f"{value['key']} ({value['effect']})"
    if isinstance(value, dict):
        return ", ".join(spelled(item) for item in values_of(value))
    return spelled(value)
