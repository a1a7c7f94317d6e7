"""How two specifications, and two sets of limits, differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import unified_diff
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.models import Approval, ProfileVersion
from core.times import duration
from dra.canonical import canonical
from dra.manifests import to_yaml
from dra.objects import Json
from dra.reading_order import in_reading_order

LABELS: dict[str, str | Promise] = {
    "scalable": gettext_lazy("Request that scales"),
    "max_devices": gettext_lazy("Most devices"),
    "default_duration": gettext_lazy("Usual duration"),
    "max_duration": gettext_lazy("Longest duration"),
    "grace": gettext_lazy("Grace after the end"),
    "extension": gettext_lazy("Extension without asking"),
    "deliveries": gettext_lazy("Delivered as"),
    "approval": gettext_lazy("Who approves"),
    "automatic_devices": gettext_lazy("Nobody is asked up to"),
    "automatic_duration": gettext_lazy("… and as long as"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a unified diff; `sign` is "+", "-", "@" or " "."""

    sign: str
    text: str

    def __str__(self) -> str:
        return self.text if self.sign == "@" else self.sign + self.text


@dataclass(frozen=True, slots=True)
class Change:
    """One limit that is another, in words."""

    label: str
    before: str
    after: str


def spec_lines(before: Json, after: Json, *, old: str = "", new: str = "") -> list[Line]:
    """
    Return the unified diff of two specs as YAML in canonical form; empty where they mean the same.

    `old` and `new` name the two sides.
    """
    was, becomes = text_of(before).splitlines(), text_of(after).splitlines()
    lines = list(unified_diff(was, becomes, fromfile=old, tofile=new, n=3, lineterm=""))
    return [Line(line[:1], line[1:]) if line[:1] in "+- " else Line("@", line) for line in lines[2:]]


def text_of(spec: Json) -> str:
    """Return a spec as YAML so that two which mean the same read the same, names before what they name."""
    return to_yaml(in_reading_order(canonical(spec)))


def limit_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the limits that differ; both sides have the names of LABELS as keys."""
    return [
        Change(str(label), _words(name, before[name]), _words(name, after[name]))
        for name, label in LABELS.items()
        if before[name] != after[name]
    ]


def limits_of(version: ProfileVersion) -> dict[str, Any]:
    return {name: getattr(version, name) for name in LABELS}


def _words(name: str, value: object) -> str:
    if isinstance(value, timedelta):
        return duration(value) if value else _("none")
    if name == "approval":
        return str(Approval(str(value)).label)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value) if value not in (None, "") else "—"
