"""Why one device does not come into question, and which devices a step of the funnel drops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import islice
from operator import or_

from dra import selector_results
from dra.allocator import AllocationError
from dra.cel import NotPreviewable
from dra.cluster_snapshot import ClusterSnapshot
from dra.match.conditions import ConditionDifference, SelectorCondition, condition
from dra.match.funnel import Funnel, funnel, parts_of
from dra.match.places import fit, nodes_of
from dra.nodes import name_of
from dra.objects import DeviceRequest, Json, device_requests
from dra.pools import PoolDevice
from dra.taints import Taint, untolerated


class DropCause(StrEnum):
    """What keeps a device from a request; stable, for programs."""

    CLASS = "class"
    SELECTOR = "selector"
    ERROR = "error"  # a selector could not be evaluated, which stops the whole pod upstream
    TAINT = "taint"
    HELD = "held"
    USED_UP = "used-up"  # a shared device, or counters that partitions of one device share
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Drop:
    """
    One device that does not come into question, and the first thing that is in its way.

    `condition` is the part of the class or selector that fails and `difference` what the device has instead;
    `message` is what a selector says that fails on it; `holder` is "namespace/name" of a claim, which not
    everybody may read. `free_beside` is how many devices that match are free on its node.
    """

    place: int
    device: PoolDevice
    cause: DropCause
    condition: SelectorCondition | None = None
    difference: ConditionDifference | None = None
    message: str = ""
    taint: Taint | None = None
    holder: str = ""
    free_beside: int = 0

    @property
    def sentence(self) -> str:
        """Say it in English without naming the holder."""
        match self.cause:
            case DropCause.CLASS | DropCause.SELECTOR:
                said = self.difference.sentence if self.difference else ""
                return said or f"does not meet {self.condition.text if self.condition else ''}"
            case DropCause.ERROR:
                return f"could not be evaluated: {self.message}"
            case DropCause.TAINT:
                return f"tainted {taint_text(self.taint)}, not tolerated" if self.taint else "tainted"
            case DropCause.HELD:
                return "held by a claim"
            case DropCause.USED_UP:
                return "what it shares with other devices or claims is used up"
        return f"its node has no room for the whole claim; {self.free_beside} free there"


@dataclass(frozen=True, slots=True)
class Dropped:
    """Some of the devices that a step drops; `total` counts all of them."""

    drops: list[Drop]
    total: int


def taint_text(taint: Taint) -> str:
    """Return "key=value:effect", as kubectl writes taints."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def explain_drop(snapshot: ClusterSnapshot, ask: DeviceRequest, place: int) -> Drop | None:
    """
    Return why the request could not take the device at `place` of `picture.devices`; None if it could.

    Raise `KeyError` for an unknown class, and `CompileError` or `NotPreviewable` for an expression.
    """
    device = snapshot.devices[place]
    found = [(DropCause.CLASS, one) for one in snapshot.class_expressions(ask.class_name)]
    for cause, expression in [*found, *((DropCause.SELECTOR, one) for one in ask.expressions)]:
        selector_results = snapshot.selector_results(expression)
        if place in selector_results.errors:
            failing = _part_that_fails(snapshot, expression, place)
            message = selector_results.errors[place].message
            return Drop(place, device, DropCause.ERROR, failing, message=message)
        if not selector_results.flags[place]:
            false = _part_that_is_false(snapshot, expression, place)
            return Drop(place, device, cause, false, difference=false.against(device))
    if taint := untolerated(ask.tolerations, snapshot.taints[place]):
        return Drop(place, device, DropCause.TAINT, taint=taint)
    if ask.admin or snapshot.can_take(device):
        return None
    cause = DropCause.HELD if device.key in snapshot.held.holders else DropCause.USED_UP
    return Drop(place, device, cause, holder=snapshot.holder_of(device))


def dropped(snapshot: ClusterSnapshot, spec: Json, step: int, offset: int = 0, limit: int = 50) -> Dropped:
    """
    Return the devices that go at `preview(picture, spec).steps[step]`, in the order of the picture.

    The last step, that of the nodes, drops free devices whose node has no room for the claim as a whole.
    Raise `IndexError` for a step that is none, and `KeyError` or `CelError` like `explain_drop`.
    """
    if step == 0:
        return Dropped([], 0)
    funnels: list[Funnel] = []
    at = step - 1
    for ask in device_requests(spec):  # one after another: a later one may have a class that there is not
        one = funnel(snapshot, ask)
        funnels.append(one)
        if at < len(one.steps):
            found = islice(
                selector_results.mask_indices(one.lost[at], len(snapshot.devices)), offset, offset + limit
            )
            drops = [drop for place in found if (drop := explain_drop(snapshot, one.ask, place))]
            return Dropped(drops, one.lost[at].bit_count())
        at -= len(one.steps)
    if at:
        raise IndexError(f"There is no step {step}.")
    return _without_room(snapshot, spec, funnels, offset, limit)


def _without_room(
    snapshot: ClusterSnapshot, spec: Json, funnels: list[Funnel], offset: int, limit: int
) -> Dropped:
    free = all_free = reduce(or_, (one.free for one in funnels), 0)
    if any(isinstance(error, NotPreviewable) for one in funnels for error in one.errors.values()):
        return Dropped([], 0)
    try:
        found = fit(snapshot, spec, funnels, 1)
    except AllocationError:
        return Dropped([], 0)
    if found.gave_up:
        return Dropped([], 0)
    nodes = {name_of(node): node for node in nodes_of(snapshot)}
    reached = bytearray(len(snapshot.devices))
    for name in found.nodes:
        for place in snapshot.indices_on(nodes[name]):
            reached[place] = 1
    free ^= free & selector_results.pack(reached)
    flags = selector_results.unpack(all_free, len(snapshot.devices))
    drops = []
    for place in islice(selector_results.mask_indices(free, len(snapshot.devices)), offset, offset + limit):
        device = snapshot.devices[place]
        node = nodes.get(device.node_name)
        beside = sum(flags[other] for other in snapshot.indices_on(node)) if node else 0
        drops.append(Drop(place, device, DropCause.NODE, free_beside=beside))
    return Dropped(drops, free.bit_count())


def _part_that_is_false(snapshot: ClusterSnapshot, expression: str, place: int) -> SelectorCondition:
    """Return the first condition that is false; the last where the parts do not tell."""
    parts = parts_of(snapshot, expression)
    for text in parts:
        selector_results = snapshot.selector_results(text)
        if not selector_results.flags[place] and place not in selector_results.errors:
            return condition(text)
    return condition(parts[-1])


def _part_that_fails(snapshot: ClusterSnapshot, expression: str, place: int) -> SelectorCondition:
    for text in parts_of(snapshot, expression):
        if place in snapshot.selector_results(text).errors:
            return condition(text)
    return condition(expression)
