"""
Device taints and tolerations (KEP 5055).

Tolerations belong to a device request of a claim, not to a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dra.objects import Json

BLOCKING = ("NoSchedule", "NoExecute")  # "None" is informational, for dry runs of a rule


class Named(Protocol):
    """A device as a DeviceTaintRule selects it."""

    @property
    def driver(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of one device. `source` is "slice" or the name of a DeviceTaintRule."""

    key: str
    effect: str
    value: str = ""
    source: str = "slice"
    added_at: str = ""  # RFC 3339, as the API has it

    @classmethod
    def read(cls, raw: Json, source: str = "slice") -> Taint:
        return cls(
            key=str(raw.get("key") or ""),
            effect=str(raw.get("effect") or ""),
            value=str(raw.get("value") or ""),
            source=source,
            added_at=str(raw.get("timeAdded") or ""),
        )

    @property
    def blocks(self) -> bool:
        """Whether the taint keeps the device from requests that do not tolerate it."""
        return self.effect in BLOCKING

    def as_dict(self) -> dict[str, str]:
        return {
            "key": self.key,
            "value": self.value,
            "effect": self.effect,
            "source": self.source,
            "timeAdded": self.added_at,
        }


def tolerates(tolerations: Iterable[Json], taint: Taint) -> bool:
    """Return whether one of the tolerations covers the taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: Iterable[Json], taints: Iterable[Taint]) -> Taint | None:
    """Return the first blocking taint that is not tolerated, or None."""
    tolerations_list = list(tolerations)
    return next((taint for taint in taints if taint.blocks and not tolerates(tolerations_list, taint)), None)


def rule_taints(device: Named, rules: Sequence[Json]) -> list[Taint]:
    """
    Return the taints that DeviceTaintRules add to a device.

    All fields of a selector must match; an empty selector matches every device, an absent one none.
    """
    return [
        Taint.read(
            (rule.get("spec") or {}).get("taint") or {},
            source=str((rule.get("metadata") or {}).get("name") or ""),
        )
        for rule in rules
        if _selects((rule.get("spec") or {}).get("deviceSelector"), device)
    ]


def effective_rules(rules: Sequence[Json], version: str) -> list[Json]:
    """
    Return the rules as the scheduler of Kubernetes `version` ("v1.36.2") reads them.

    Up to 1.37.0 a rule without `deviceSelector` taints all devices, as one with an empty selector does.
    """
    match = re.match(r"v?1\.(\d+)(?:\.(\d+))?", version)
    if match is None or (int(match[1]), int(match[2] or 1)) > (37, 0):
        return list(rules)
    return [
        rule
        if (spec := rule.get("spec") or {}).get("deviceSelector") is not None
        else {**rule, "spec": {**spec, "deviceSelector": {}}}
        for rule in rules
    ]


def _selects(selector: Json | None, device: Named) -> bool:
    if selector is None:
        return False
    return (
        selector.get("driver") in (None, device.driver)
        and selector.get("pool") in (None, device.pool)
        and selector.get("device") in (None, device.name)
    )


def _covers(toleration: Json, taint: Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.get("value") or "") == taint.value
