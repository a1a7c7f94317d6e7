"""The claims of a search on one node, validated before the search like upstream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra.allocator.capacity import CapacityAmount, share
from dra.allocator.constraints import Constraint, claim_constraints
from dra.allocator.site import AllocationError, NodeSite, selector_error
from dra.cel import CelError
from dra.features import Features
from dra.objects import MAX_RESULTS, DeviceRequest, Json, alternatives, requests

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
            raise AllocationError(
                f"Request {request.get('name')} needs {more} devices in addition to {device_count}; "
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
