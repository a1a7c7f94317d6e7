"""
Constraints between the devices of a claim.

Each is monotonic: once it refuses a device, adding more devices will not make it agree, so a search may stop
there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dra.allocator.result import AllocationError
from dra.facts import exact_value
from dra.objects import Ask, Json, constraints
from dra.pools import PoolDevice


@dataclass(slots=True)
class Constraint:
    """
    `matchAttribute`, or with `distinct` `distinctAttribute`.

    A device without the attribute is never accepted. Values are compared as written, with their type: 1 and
    true differ, and so do versions that differ in build metadata, though as versions they are equal.
    """

    attribute: str
    distinct: bool
    requests: frozenset[str]  # empty: all
    values: list[tuple[str, str]] = field(default_factory=list)

    def applies(self, ask: Ask) -> bool:
        return not self.requests or ask.request in self.requests or ask.result_name in self.requests

    def add(self, device: PoolDevice) -> bool:
        """Accept the device and remember it, or refuse it."""
        value = exact_value(device, self.attribute)
        if value is None:
            return False
        if self.values and not self._agrees(value):
            return False
        self.values.append(value)
        return True

    def drop(self) -> None:
        """Forget the device that was accepted last."""
        self.values.pop()

    def _agrees(self, value: tuple[str, str]) -> bool:
        # Of list-valued attributes only the first is accepted: comparing them needs DRAListTypeAttributes.
        if value[0] not in ("string", "int", "bool", "version"):
            return False
        return value not in self.values if self.distinct else value == self.values[0]


def constraints_of(spec: Json) -> list[Constraint]:
    """Return the constraints of a claim. Raise `AllocationError` for one that names no attribute."""
    made = []
    for raw in constraints(spec):
        attribute = raw.get("matchAttribute")  # looked at first upstream, where both are given
        distinct = raw.get("distinctAttribute")
        if not attribute and not distinct:
            raise AllocationError("A constraint of the claim names no attribute.")
        names = frozenset(raw.get("requests") or ())
        made.append(Constraint(str(attribute or distinct), not attribute, names))
    return made
