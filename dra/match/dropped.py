"""Why a device does not match, and which devices a step of the funnel drops."""

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
from dra.match.funnel import Funnel, funnel, selector_conditions
from dra.match.node_fit import fit, snapshot_nodes
from dra.nodes import name_of
from dra.objects import DeviceRequest, Json, device_requests
from dra.pools import PoolDevice
from dra.taints import Taint, untolerated


class DropCause(StrEnum):
    """What keeps a device from a request; stable, for programs."""

    CLASS = "class"
    SELECTOR = "selector"
    ERROR = "error"  # a selector failed, with which the scheduler rejects the pod
    TAINT = "taint"
    HELD = "held"
    USED_UP = "used-up"  # a shared device, or shared counters
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Drop:
    """
    A dropped device, and the first reason.

    `condition` is the false condition of the class or selector, `difference` the published value beside it;
    `message` is the evaluation error; `holder` is "namespace/name" of a claim, which not every user may see.
    `free_beside` counts the matching devices that are free on its node.
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
        """Return the reason in English, without the holder."""
        match self.cause:
            case DropCause.CLASS | DropCause.SELECTOR:
                sentence = self.difference.sentence if self.difference else ""
                return sentence or f"does not meet {self.condition.text if self.condition else ''}"
            case DropCause.ERROR:
                return f"could not be evaluated: {self.message}"
            case DropCause.TAINT:
                return f"tainted {taint_text(self.taint)}, not tolerated" if self.taint else "tainted"
            case DropCause.HELD:
                return "held by a claim"
            case DropCause.USED_UP:
                return "its shared capacity or counters are used up"
        return f"its node has no room for the claim; {self.free_beside} free there"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A page of the devices that a step drops; `total` counts all of them."""

    drops: list[Drop]
    total: int


def taint_text(taint: Taint) -> str:
    """Return "key=value:effect", as kubectl writes taints."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def explain_drop(snapshot: ClusterSnapshot, request: DeviceRequest, index: int) -> Drop | None:
    """
    Return why the request cannot get the device at `index` of `snapshot.devices`; None if it can.

    Raise `KeyError` for an unknown class, `CompileError` or `NotPreviewable` for an expression.
    """
    device = snapshot.devices[index]
    class_selectors = [
        (DropCause.CLASS, expression) for expression in snapshot.class_expressions(request.class_name)
    ]
    for cause, expression in [
        *class_selectors,
        *((DropCause.SELECTOR, expression) for expression in request.expressions),
    ]:
        results = snapshot.selector_results(expression)
        if index in results.errors:
            failed_condition = _part_that_fails(snapshot, expression, index)
            message = results.errors[index].message
            return Drop(index, device, DropCause.ERROR, failed_condition, message=message)
        if not results.flags[index]:
            false_condition = _part_that_is_false(snapshot, expression, index)
            return Drop(index, device, cause, false_condition, difference=false_condition.against(device))
    if taint := untolerated(request.tolerations, snapshot.taints[index]):
        return Drop(index, device, DropCause.TAINT, taint=taint)
    if request.admin or snapshot.can_take(device):
        return None
    cause = DropCause.HELD if device.key in snapshot.held.holders else DropCause.USED_UP
    return Drop(index, device, cause, holder=snapshot.holder_of(device))


def dropped(snapshot: ClusterSnapshot, spec: Json, step: int, offset: int = 0, limit: int = 50) -> Dropped:
    """
    Return the devices that `preview(snapshot, spec).steps[step]` drops, in the order of the snapshot.

    The last step, for nodes, drops free devices whose node has no room for the claim.
    Raise `IndexError` for an unknown step, `KeyError` or `CelError` like `explain_drop`.
    """
    if step == 0:
        return Dropped([], 0)
    funnels: list[Funnel] = []
    position = step - 1
    for request in device_requests(spec):  # lazily: the class of a later request may not exist
        request_funnel = funnel(snapshot, request)
        funnels.append(request_funnel)
        if position < len(request_funnel.steps):
            indices = islice(
                selector_results.mask_indices(request_funnel.lost[position], len(snapshot.devices)),
                offset,
                offset + limit,
            )
            drops = [
                drop for index in indices if (drop := explain_drop(snapshot, request_funnel.request, index))
            ]
            return Dropped(drops, request_funnel.lost[position].bit_count())
        position -= len(request_funnel.steps)
    if position:
        raise IndexError(f"Step {step} does not exist.")
    return _without_room(snapshot, spec, funnels, offset, limit)


def _without_room(
    snapshot: ClusterSnapshot, spec: Json, funnels: list[Funnel], offset: int, limit: int
) -> Dropped:
    free = all_free = reduce(or_, (request_funnel.free for request_funnel in funnels), 0)
    if any(
        isinstance(error, NotPreviewable)
        for request_funnel in funnels
        for error in request_funnel.errors.values()
    ):
        return Dropped([], 0)
    try:
        fit_result = fit(snapshot, spec, funnels, 1)
    except AllocationError:
        return Dropped([], 0)
    if fit_result.gave_up:
        return Dropped([], 0)
    nodes = {name_of(node): node for node in snapshot_nodes(snapshot)}
    reached = bytearray(len(snapshot.devices))
    for name in fit_result.node_names():
        for index in snapshot.indices_on(nodes[name]):
            reached[index] = 1
    free ^= free & selector_results.pack(reached)
    flags = selector_results.unpack(all_free, len(snapshot.devices))
    drops = []
    for index in islice(selector_results.mask_indices(free, len(snapshot.devices)), offset, offset + limit):
        device = snapshot.devices[index]
        node = nodes.get(device.node_name)
        free_beside = sum(flags[neighbor] for neighbor in snapshot.indices_on(node)) if node else 0
        drops.append(Drop(index, device, DropCause.NODE, free_beside=free_beside))
    return Dropped(drops, free.bit_count())


def _part_that_is_false(snapshot: ClusterSnapshot, expression: str, index: int) -> SelectorCondition:
    """Return the first condition that is false; the last if none is on its own."""
    parts = selector_conditions(snapshot, expression)
    for text in parts:
        results = snapshot.selector_results(text)
        if not results.flags[index] and index not in results.errors:
            return condition(text)
    return condition(parts[-1])


def _part_that_fails(snapshot: ClusterSnapshot, expression: str, index: int) -> SelectorCondition:
    for text in selector_conditions(snapshot, expression):
        if index in snapshot.selector_results(text).errors:
            return condition(text)
    return condition(expression)
