"""
The claims of a search on one node, validated before the search like upstream, with their constraints
(`matchAttribute`, `distinctAttribute`) and derived attributes (KEP 6080).

Constraints are monotonic: once one rejects a device, more devices do not change that, so a search can stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dra.allocator.capacity import CapacityAmount, share
from dra.allocator.node import AllocationError, NodeSite, TooManyDevices, selector_error
from dra.attributes import Malformed, Version, entries, lookup
from dra.cel import CelError, Selector
from dra.cel.selector import compile_stored
from dra.features import NEWEST, Features
from dra.objects import MAX_RESULTS, DeviceRequest, Json, Manifest, alternatives, constraints, requests
from dra.pools import PoolDevice

KIND_OF: dict[type, str] = {bool: "bool", int: "int", str: "string", Version: "version"}


def derived_expression(request: DeviceRequest, attribute: str) -> str | None:
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
        expression = derived_expression(request, self.attribute)
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


MODES = ("ExactCount", "All")


@dataclass(slots=True)
class Candidate:
    """
    A request or sub-request on one node.

    `count` devices are needed; for mode All they have the indices `all_of`. By device index, `known` caches
    whether class and selectors accept the device, `tolerated` whether its taints are tolerated, and `shares`
    the capacity that it consumes.
    """

    request: DeviceRequest
    class_expressions: Sequence[str]
    expressions: Sequence[str]
    count: int = 0
    all_of: list[int] | None = None
    known: dict[int, bool] = field(default_factory=dict)
    tolerated: dict[int, bool] = field(default_factory=dict)
    shares: dict[int, dict[str, CapacityAmount]] = field(default_factory=dict)
    left: list[int] | None = None  # acceptable devices from each index on; None until a search has failed


@dataclass(slots=True)
class ClaimPlan:
    """A claim for the search: the sub-requests of each request, the preferred one first."""

    spec: Json
    candidates: list[list[Candidate]]
    constraints: list[Constraint]


def plan_claim(site: NodeSite, claim: Json, *, literal: bool) -> ClaimPlan:
    """
    Prepare a claim for the search. With `literal`, absent fields get no API defaults.

    Raise `AllocationError` for an invalid claim, such as one with an unknown class.
    """
    spec: Json = claim.get("spec") or {}
    candidates: list[list[Candidate]] = []
    device_count = 0
    for request in requests(spec):
        _check_features(request, site.features)
        options = [
            _candidate(site, device_request, literal=literal) for device_request in alternatives(request)
        ]
        if not options:
            raise AllocationError(f"Request {request.get('name')} has neither exactly nor firstAvailable.")
        candidates.append(options)
        more = min(candidate.count for candidate in options)
        if more > MAX_RESULTS - device_count:
            beside = f" in addition to {device_count}" if device_count else ""
            raise TooManyDevices(
                f"Request {request.get('name')} needs {more} devices{beside}; "
                f"the limit per claim is {MAX_RESULTS}."
            )
        device_count += more
    return ClaimPlan(spec, candidates, claim_constraints(spec, site.features))


def accepts(site: NodeSite, candidate: Candidate, index: int) -> bool:
    """
    Return whether class and selectors accept a device, and whether the node reaches it.

    Selectors come first, so a device of another node can raise the error, as upstream.
    """
    accepted = candidate.known.get(index)
    if accepted is None:
        accepted = candidate.known[index] = _accepts(site, candidate, index)
    return accepted


def _accepts(site: NodeSite, candidate: Candidate, index: int) -> bool:
    if not site.features.device_binding_and_status and site.devices[index].raw.get("bindingConditions"):
        return False
    groups = (
        (f"of class {candidate.request.class_name}", candidate.class_expressions),
        (f"of request {candidate.request.result_name}", candidate.expressions),
    )
    for whose, expressions in groups:
        for number, expression in enumerate(expressions):
            site.check_readable(index)
            try:
                if not site.selected(expression, index):
                    return False
            except CelError as error:
                raise selector_error(f"Selector {number + 1} {whose}", index, site, error) from None
    return site.reached(index)


def _check_features(request: Json, features: Features) -> None:
    name = request.get("name")
    if request.get("firstAvailable") and not features.prioritized_list:
        raise AllocationError(f"Request {name} has alternatives; the feature PrioritizedList is off.")
    if features.consumable_capacity or features.stable:  # the stable allocator ignores capacity
        return
    for raw in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
        if raw.get("capacity") is not None:
            raise AllocationError(f"Request {name} requests capacity; the feature ConsumableCapacity is off.")


def _candidate(site: NodeSite, request: DeviceRequest, *, literal: bool) -> Candidate:
    label, features = f"Request {request.result_name}", site.features
    if request.raw.get("derivedAttributes") and not features.derived_attributes:
        raise AllocationError(f"{label} has derived attributes; the feature DerivedAttributes is off.")
    if any(
        not selector.get("cel") and selector.get("cel") != {}
        for selector in request.raw.get("selectors") or ()
    ):
        raise AllocationError(f"{label} has a selector without a CEL expression.")
    if not request.alternative and request.raw.get("adminAccess") is not None and not features.admin_access:
        raise AllocationError(f"{label} sets adminAccess; the feature AdminAccess is off.")
    if not request.class_name:
        raise AllocationError(f"{label} has no device class.")
    if request.class_name not in site.snapshot.class_by_name:
        raise AllocationError(f"{label}: device class {request.class_name} does not exist.")
    mode = request.raw.get("allocationMode") or ("" if literal else "ExactCount")
    if mode not in MODES:
        raise AllocationError(f"{label} has allocation mode “{mode}”; use ExactCount or All.")
    candidate = Candidate(request, site.snapshot.class_expressions(request.class_name), request.expressions)
    if mode == "ExactCount":
        candidate.count = int(request.raw.get("count") or 0) if literal else request.count
        if candidate.count < 0:
            raise AllocationError(f"{label} has count {candidate.count}, which is negative.")
        return candidate
    candidate.all_of = _all(site, candidate)
    candidate.count = len(candidate.all_of)
    return candidate


def _all(site: NodeSite, candidate: Candidate) -> list[int]:
    """Return the indices of all devices that mode All must allocate."""
    all_devices: list[int] = []
    for number, pool in enumerate(site.pools):
        if pool.problem:
            raise AllocationError(
                f"Request {candidate.request.result_name} needs all devices, but: {pool.problem}"
            )
        pool_indices = site.indices_by_pool.get(number, ())
        all_devices += [
            index
            for index in pool_indices
            if accepts(site, candidate, index) and _large_enough(site, candidate, index)
        ]
    return all_devices


def _large_enough(site: NodeSite, candidate: Candidate, index: int) -> bool:
    """Whether the device's total capacity is enough; the search checks the rest of it."""
    features = site.features
    if not features.consumable_capacity:
        return True
    fractional = features.fractional_capacity_range
    return share(site.devices[index], candidate.request.capacity, {}, fractional=fractional) is not None
