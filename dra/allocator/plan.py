"""What the claims wish for on one node, checked before the search as upstream does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra.allocator.capacity import share
from dra.allocator.constraints import Constraint, constraints_of
from dra.allocator.result import AllocationError
from dra.cel import CelError
from dra.nodes import reaches
from dra.objects import MAX_RESULTS, Ask, Json, alternatives, requests
from dra.picture import Picture


@dataclass(slots=True)
class Wish:
    """
    One way to meet a request, on one node.

    `count` devices are needed; for mode All they are `all_of`. `known` remembers which devices the selectors
    accept.
    """

    ask: Ask
    expressions: list[str]
    count: int = 0
    all_of: list[int] | None = None
    known: dict[int, bool] = field(default_factory=dict)
    left: list[int] | None = (
        None  # acceptable devices from each place of the node on; None until a search has failed
    )


@dataclass(slots=True)
class ClaimPlan:
    """A claim as the search sees it: for each request its wishes, the preferred one first."""

    name: str
    spec: Json
    wishes: list[list[Wish]]
    constraints: list[Constraint]


def plan_claim(picture: Picture, node: Json, places: Sequence[int], claim: Json) -> ClaimPlan:
    """
    Prepare a claim for the search among the devices at `places` of `picture.devices`.

    Raise `AllocationError` if it asks for what cannot be, such as a class that does not exist.
    """
    metadata, spec = claim.get("metadata") or {}, claim.get("spec") or {}
    plan = ClaimPlan(str(metadata.get("name") or ""), spec, [], constraints_of(spec))
    least = 0
    for request in requests(spec):
        options = [_wish(picture, node, places, ask) for ask in alternatives(request)]
        if not options:
            raise AllocationError(
                f"Request {request.get('name')} asks for nothing that this portal understands."
            )
        plan.wishes.append(options)
        least += min(wish.count for wish in options)
    if least > MAX_RESULTS:
        raise AllocationError(f"The claim asks for {least} devices; one claim can hold {MAX_RESULTS}.")
    return plan


def accepts(picture: Picture, node: Json, wish: Wish, place: int) -> bool:
    """
    Say whether class and selectors accept a device, and whether the node reaches it.

    Selectors come first, so a device of another node can raise the error, as upstream.
    """
    known = wish.known.get(place)
    if known is None:
        known = wish.known[place] = _accepts(picture, node, wish, place)
    return known


def _accepts(picture: Picture, node: Json, wish: Wish, place: int) -> bool:
    for number, expression in enumerate(wish.expressions):
        try:
            verdicts = picture.verdicts(expression)
            if place in verdicts.failing:
                raise verdicts.failing[place]
        except CelError as error:
            what = f"Selector {number + 1} of request {wish.ask.result_name}"
            raise AllocationError(f"{what} fails on {picture.devices[place]}: {error.message}") from None
        if not verdicts.flags[place]:
            return False
    device = picture.devices[place]
    return not device.placed_alone or reaches(node, device)


def _wish(picture: Picture, node: Json, places: Sequence[int], ask: Ask) -> Wish:
    try:
        wish = Wish(ask, [*picture.class_expressions(ask.class_name), *ask.expressions])
    except KeyError:
        raise AllocationError(
            f"Request {ask.result_name}: device class {ask.class_name} does not exist."
        ) from None
    if not ask.all:
        wish.count = ask.count
        return wish
    for pool in picture.stock.unusable_pools(node):
        raise AllocationError(f"Request {ask.result_name} asks for all devices, but: {pool.problem}")
    wish.all_of = [
        place
        for place in places
        if accepts(picture, node, wish, place)
        and share(picture.devices[place], ask.capacity, {}) is not None  # what is left of it is asked later
    ]
    wish.count = len(wish.all_of)
    return wish
