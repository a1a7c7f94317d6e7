"""
Constraints of a claim (`matchAttribute`, `distinctAttribute`), and derived attributes (KEP 6080).

Constraints are monotonic: once one rejects a device, more devices do not change that, so a search can stop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra.allocator.site import AllocationError
from dra.cel import CelError, Selector
from dra.cel.selector import compile_stored
from dra.facts import Malformed, entries, lookup
from dra.features import NEWEST, Features
from dra.objects import DeviceRequest, Json, Manifest, constraints
from dra.pools import PoolDevice
from dra.semver import Version

KIND_OF: dict[type, str] = {bool: "bool", int: "int", str: "string", Version: "version"}


def expression_of(request: DeviceRequest, attribute: str) -> str | None:
    """Return the expression of a derived attribute, the last one of equal names; None if there is none."""
    matching = [derived for derived in request.derived if derived.get("name") == attribute]
    return str(matching[-1].get("expression") or " ") if matching else None


def compile_derived(expression: str) -> Selector:
    """Compile the expression of a derived attribute. Raise `CompileError` if it is invalid."""
    return compile_stored(f"dyn({expression}\n)")


def derive(attribute: str, expression: str, device: PoolDevice) -> Json:
    """
    Return the derived attribute of a device, in the form of a slice.

    Raise `AllocationError` if the expression fails or has an unsupported type.
    """
    try:
        entries(
            device, "attributes"
        )  # upstream reads them all, so that a malformed one fails every expression
        return _written(compile_derived(expression).value(device))
    except (CelError, Malformed, TypeError) as error:
        raise AllocationError(f"The derived attribute {attribute} fails on {device}: {error}") from None


def _written(value: Any) -> Manifest:
    if not isinstance(value, list):
        kind, text = _scalar(value)
        return {kind: text}
    if not value:
        return {"strings": []}
    scalars = [_scalar(item) for item in value]
    kinds = {kind for kind, _ in scalars}
    if len(kinds) > 1:
        raise TypeError(f"a list of {' and '.join(sorted(kinds))} is not an attribute")
    return {f"{kinds.pop()}s": [item for _, item in scalars]}


def _scalar(value: Any) -> tuple[str, Any]:
    kind = KIND_OF.get(type(value))
    if kind is None:
        raise TypeError(f"{value} is not a string, int, bool or version")
    return kind, str(value) if kind == "version" else value


SCALARS = ("string", "int", "bool", "version")
# In upstream's order.
KINDS = ("int", "bool", "string", "version")
SETS = (*((f"{kind}s", kind) for kind in KINDS), *((kind, kind) for kind in KINDS))

type Members = tuple[str, frozenset[object]]  # (type, values)


@dataclass(slots=True)
class Constraint:
    """
    `matchAttribute`, or with `distinct` `distinctAttribute`.

    A device without the attribute is never accepted. Values are compared as written, with their type: 1 and
    true differ, and so do versions that differ in build metadata, though as versions they are equal. The
    first device is accepted whatever its attribute is. With `lists` an attribute is a set of values: all
    devices must have one in common, or with `distinct` no two may.
    """

    attribute: str
    distinct: bool
    requests: frozenset[str]  # empty: all
    lists: bool = False
    accepted: list[Json] = field(default_factory=list)  # attributes of the accepted devices
    common: list[Members] = field(default_factory=list)  # what they have in common, after each of them

    def applies(self, request: DeviceRequest) -> bool:
        return not self.requests or request.request in self.requests or request.result_name in self.requests

    def value(self, device: PoolDevice) -> Json | None:
        """Return the attribute from the slice."""
        domain, slash, name = self.attribute.partition("/")
        listed: Json = device.raw.get("attributes") or {}
        if not slash:
            return listed.get(self.attribute)
        attribute: Json | None = lookup(listed, device.driver, domain, name)
        return attribute

    def add(self, request: DeviceRequest, device: PoolDevice) -> bool:
        """
        Accept the device for a request and remember it, or refuse it.

        Raise `AllocationError` if the request derives the attribute, and that fails.
        """
        expression = expression_of(request, self.attribute)
        value = derive(self.attribute, expression, device) if expression else self.value(device)
        if value is None:
            return False
        if self.lists:
            return self._add_set(value)
        if self.accepted and not self._agrees(value):
            return False
        self.accepted.append(value)
        return True

    def drop(self) -> None:
        """Remove the device that was accepted last."""
        self.accepted.pop()
        if self.common:
            self.common.pop()

    def _agrees(self, value: Json) -> bool:
        for kind in SCALARS:
            attribute = value.get(kind)
            if attribute is not None:
                break
        else:
            return False
        if self.distinct:
            return attribute not in [earlier.get(kind) for earlier in self.accepted]
        return bool(self.accepted[0].get(kind) == attribute)

    def _add_set(self, value: Json) -> bool:
        members = _members(value)
        if members is None:
            return False
        if self.distinct:
            if any(_shared(members, _members(earlier)) for earlier in self.accepted):
                return False
        else:
            if self.common:
                members = _shared(members, self.common[-1])
            if members is None:
                return False
            self.common.append(members)
        self.accepted.append(value)
        return True


def claim_constraints(spec: Json, features: Features = NEWEST) -> list[Constraint]:
    """Return the constraints of a claim. Raise `AllocationError` for one without an attribute."""
    claim_constraints = []
    for raw in constraints(spec):
        attribute = raw.get("matchAttribute")  # looked at first upstream, where both are given
        distinct = None if features.stable else raw.get("distinctAttribute")
        if attribute is None and distinct is None:
            raise AllocationError("A constraint of the claim names no attribute that this cluster knows of.")
        names = frozenset(raw.get("requests") or ())
        named = str(distinct if attribute is None else attribute)
        claim_constraints.append(Constraint(named, attribute is None, names, features.list_type_attributes))
    return claim_constraints


def _members(value: Json) -> Members | None:
    for written, kind in SETS:
        members = value.get(written)
        if written != kind and members:
            return kind, frozenset(members)
        if written == kind and members is not None:
            return kind, frozenset((members,))
    return None


def _shared(left: Members, right: Members | None) -> Members | None:
    """Return the values that both have; None if there are none."""
    if right is None or left[0] != right[0]:
        return None
    both = left[1] & right[1]
    return (left[0], both) if both else None
