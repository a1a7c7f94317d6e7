"""What the claims wish for on one node, checked before the search as upstream does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra.allocator.capacity import CapacityAmount, share
from dra.allocator.constraints import Constraint, constraints_of
from dra.allocator.site import AllocationError, NodeSite, failed
from dra.cel import CelError
from dra.features import Features
from dra.objects import MAX_RESULTS, DeviceRequest, Json, alternatives, requests

MODES = ("ExactCount", "All")


@dataclass(slots=True)
class Candidate:
    """
    One way to meet a request, on one node.

    `count` devices are needed; for mode All they are at the spots `all_of`. By spot, `known` remembers
    whether class and selectors accept the device, `tolerated` whether its taints are tolerated, and `shares`
    what is taken of its capacity.
    """

    request: DeviceRequest
    class_expressions: Sequence[str]
    expressions: Sequence[str]
    count: int = 0
    all_of: list[int] | None = None
    known: dict[int, bool] = field(default_factory=dict)
    tolerated: dict[int, bool] = field(default_factory=dict)
    shares: dict[int, dict[str, CapacityAmount]] = field(default_factory=dict)
    left: list[int] | None = None  # acceptable devices from each spot on; None until a search has failed


@dataclass(slots=True)
class ClaimPlan:
    """A claim as the search sees it: for each request its wishes, the preferred one first."""

    spec: Json
    wishes: list[list[Candidate]]
    constraints: list[Constraint]


def plan_claim(site: NodeSite, claim: Json, *, literal: bool) -> ClaimPlan:
    """
    Prepare a claim for the search. With `literal` what is absent is empty, not what the API would fill in.

    Raise `AllocationError` if it asks for what cannot be, such as a class that does not exist.
    """
    spec: Json = claim.get("spec") or {}
    wishes: list[list[Candidate]] = []
    least = 0
    for request in requests(spec):
        _check_switches(request, site.features)
        options = [_wish(site, ask, literal=literal) for ask in alternatives(request)]
        if not options:
            raise AllocationError(f"Request {request.get('name')} has neither exactly nor firstAvailable.")
        wishes.append(options)
        more = min(wish.count for wish in options)
        if more > MAX_RESULTS - least:
            raise AllocationError(
                f"Request {request.get('name')} needs {more} devices beside {least} of the same claim; "
                f"one claim can hold {MAX_RESULTS}."
            )
        least += more
    return ClaimPlan(spec, wishes, constraints_of(spec, site.features))


def accepts(site: NodeSite, wish: Candidate, spot: int) -> bool:
    """
    Say whether class and selectors accept a device, and whether the node reaches it.

    Selectors come first, so a device of another node can raise the error, as upstream.
    """
    known = wish.known.get(spot)
    if known is None:
        known = wish.known[spot] = _accepts(site, wish, spot)
    return known


def _accepts(site: NodeSite, wish: Candidate, spot: int) -> bool:
    if not site.features.device_binding_and_status and site.devices[spot].raw.get("bindingConditions"):
        return False
    groups = (
        (f"of class {wish.request.class_name}", wish.class_expressions),
        (f"of request {wish.request.result_name}", wish.expressions),
    )
    for whose, expressions in groups:
        for number, expression in enumerate(expressions):
            site.check_readable(spot)
            try:
                if not site.selected(expression, spot):
                    return False
            except CelError as error:
                raise failed(f"Selector {number + 1} {whose}", spot, site, error) from None
    return site.reached(spot)


def _check_switches(request: Json, features: Features) -> None:
    name = request.get("name")
    if request.get("firstAvailable") and not features.prioritized_list:
        raise AllocationError(f"Request {name} has alternatives; the feature PrioritizedList is off.")
    if features.consumable_capacity or features.stable:  # the stable allocator does not look at capacity
        return
    for ask in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
        if ask.get("capacity") is not None:
            raise AllocationError(f"Request {name} asks for capacity; the feature ConsumableCapacity is off.")


def _wish(site: NodeSite, ask: DeviceRequest, *, literal: bool) -> Candidate:
    what, features = f"Request {ask.result_name}", site.features
    if ask.raw.get("derivedAttributes") and not features.derived_attributes:
        raise AllocationError(f"{what} has derived attributes; the feature DerivedAttributes is off.")
    if any(not one.get("cel") and one.get("cel") != {} for one in ask.raw.get("selectors") or ()):
        raise AllocationError(f"{what} has a selector without a CEL expression.")
    if not ask.alternative and ask.raw.get("adminAccess") is not None and not features.admin_access:
        raise AllocationError(f"{what} speaks of admin access; the feature AdminAccess is off.")
    if not ask.class_name:
        raise AllocationError(f"{what} names no device class.")
    if ask.class_name not in site.snapshot.class_by_name:
        raise AllocationError(f"{what}: device class {ask.class_name} does not exist.")
    mode = ask.raw.get("allocationMode") or ("" if literal else "ExactCount")
    if mode not in MODES:
        raise AllocationError(f"{what} has allocation mode “{mode}”; ExactCount and All are known.")
    wish = Candidate(ask, site.snapshot.class_expressions(ask.class_name), ask.expressions)
    if mode == "ExactCount":
        wish.count = int(ask.raw.get("count") or 0) if literal else ask.count
        if wish.count < 0:
            raise AllocationError(f"{what} asks for {wish.count} devices.")
        return wish
    wish.all_of = _all(site, wish)
    wish.count = len(wish.all_of)
    return wish


def _all(site: NodeSite, wish: Candidate) -> list[int]:
    """Return the spots of all devices that mode All has to give."""
    found: list[int] = []
    for number, pool in enumerate(site.pools):
        if pool.problem:
            raise AllocationError(
                f"Request {wish.request.result_name} asks for all devices, but: {pool.problem}"
            )
        spots = site.spots.get(number, ())
        found += [spot for spot in spots if accepts(site, wish, spot) and _large_enough(site, wish, spot)]
    return found


def _large_enough(site: NodeSite, wish: Candidate, spot: int) -> bool:
    """Whether the device would do if nothing of it were taken; what is left of it is asked later."""
    features = site.features
    if not features.consumable_capacity:
        return True
    fractional = features.fractional_capacity_range
    return share(site.devices[spot], wish.request.capacity, {}, fractional=fractional) is not None
