"""
Preview of a claim spec on a cluster: which devices match, step by step, and why the others do not.

A selector that the portal cannot evaluate makes the result unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from itertools import islice
from operator import or_

from dra import selector_results
from dra.allocator import AllocationError, TooManyDevices
from dra.allocator.capacity import CapacityAmount, share
from dra.cel import MAX_STEPS, CelError, NotPreviewable, compile_selector
from dra.cluster_snapshot import ClusterSnapshot
from dra.match.funnel import (
    ConditionDifference,
    Funnel,
    FunnelStep,
    NodeRequirement,
    NoFitReason,
    Preview,
    SelectorCondition,
    StepKind,
    condition,
    funnel,
    in_words,
    selector_conditions,
)
from dra.match.node_fit import UnusablePool, fit, required_devices, snapshot_nodes
from dra.nodes import name_of_node
from dra.objects import MAX_RESULTS, DeviceRequest, Json, constraints, device_requests
from dra.pools import PoolDevice
from dra.quantity import QuantityError
from dra.taints import Taint, untolerated

__all__ = [
    "ConditionDifference",
    "Drop",
    "DropCause",
    "Dropped",
    "FunnelStep",
    "NoFitReason",
    "NodeRequirement",
    "Preview",
    "SelectorCondition",
    "StepKind",
    "condition",
    "dropped",
    "explain_drop",
    "preview",
    "taint_text",
]

SHOWN = 20  # names of nodes


def preview(snapshot: ClusterSnapshot, spec: Json, claims: int = 1) -> Preview:
    """Preview `claims` claims of `spec` on the snapshot. Raises for no spec."""
    total = FunnelStep("in the cluster", len(snapshot.devices), 0, StepKind.TOTAL)
    steps, funnels = [total], []
    expressions: set[str] = set()
    problem = ""
    for request in device_requests(spec):
        try:
            request_funnel = funnel(snapshot, request)
        except KeyError:
            problem = f"The cluster has no device class {request.class_name}."
            return Preview(steps, problem=problem, reason=NoFitReason.NO_CLASS)
        except CelError as refusal:
            reason = (
                NoFitReason.NOT_PREVIEWABLE if isinstance(refusal, NotPreviewable) else NoFitReason.INVALID
            )
            return Preview(steps, problem=f"Request {request.result_name}: {refusal.message}", reason=reason)
        steps += request_funnel.steps
        funnels.append(request_funnel)
        expressions |= set(request.expressions)
        if sum(snapshot.selector_results(expression).steps for expression in expressions) > MAX_STEPS:
            problem = f"The selectors of the claim take more than {MAX_STEPS:,} steps, the portal's limit."
            break
    if not funnels:
        return Preview(steps, problem="The claim requests no devices.", reason=NoFitReason.NO_REQUEST)
    problem = _unknown_result(funnels) or problem
    if problem:
        return Preview(steps, problem=problem, reason=NoFitReason.NOT_PREVIEWABLE)
    return _counted(snapshot, spec, claims, funnels, steps)


def _unknown_result(funnels: Sequence[Funnel]) -> str:
    """Return the first evaluation that the portal cannot run, as a sentence; "" if there is none."""
    for request_funnel in funnels:
        for error in request_funnel.errors.values():
            if isinstance(error, NotPreviewable):
                return f"Request {request_funnel.request.result_name}: {error.message}"
    return ""


def _counted(
    snapshot: ClusterSnapshot, spec: Json, claims: int, funnels: Sequence[Funnel], steps: list[FunnelStep]
) -> Preview:
    matching = reduce(or_, (request_funnel.accepted for request_funnel in funnels)).bit_count()
    free = reduce(or_, (request_funnel.free for request_funnel in funnels)).bit_count()
    try:
        fit_result = fit(snapshot, spec, funnels, claims)
    except AllocationError as error:
        return Preview(steps, matching, free, problem=error.message, reason=NoFitReason.INVALID)
    together = _together(spec, funnels)
    steps.append(
        FunnelStep(f"nodes with room for {together.words}", fit_result.node_count, 0, StepKind.NODES)
    )
    counted = Preview(
        steps,
        matching=matching,
        free=free,
        nodes_that_fit=fit_result.node_count,
        claims_that_fit=fit_result.claims,
        nodes=tuple(fit_result.node_names(SHOWN)),
        together=together,
    )
    reason, problem = _problem(snapshot, funnels, counted, claims, fit_result.refusal)
    if fit_result.gave_up:
        enough = fit_result.claims >= claims
        counted = replace(counted, nodes_that_fit=None, claims_that_fit=fit_result.claims if enough else None)
        if reason == NoFitReason.NO_NODE:
            reason = NoFitReason.TOO_LONG
            problem = "The search for a fit took too long. The scheduler can run into its time limit as well."
    return replace(counted, problem=problem, reason=reason)


def _together(spec: Json, funnels: Sequence[Funnel]) -> NodeRequirement:
    same = [
        str(constraint["matchAttribute"])
        for constraint in constraints(spec)
        if constraint.get("matchAttribute")
    ]
    # Of a constraint with both attributes, upstream reads only matchAttribute.
    distinct = [
        str(constraint["distinctAttribute"])
        for constraint in constraints(spec)
        if constraint.get("distinctAttribute") and not constraint.get("matchAttribute")
    ]
    return NodeRequirement(
        sum(required_devices(funnels).values()), tuple(dict.fromkeys(same)), tuple(dict.fromkeys(distinct))
    )


def _problem(
    snapshot: ClusterSnapshot,
    funnels: Sequence[Funnel],
    counted: Preview,
    claims: int,
    refusal: AllocationError | None,
) -> tuple[NoFitReason, str]:
    """Return the first reason why the claims do not fit, in the order of the funnel."""
    needed = sum(required_devices(funnels).values())
    if needed > MAX_RESULTS:
        return (
            NoFitReason.TOO_MANY,
            f"The claim requests {needed} devices; the limit per claim is {MAX_RESULTS}.",
        )
    for request_funnel in funnels:
        for index, error in request_funnel.errors.items():
            where = f"{snapshot.devices[index]}: {error.message}"
            return NoFitReason.SELECTOR_FAILS, (
                f"A selector of request {request_funnel.request.result_name} fails on device {where}. "
                "The scheduler rejects a pod when it evaluates such a device on any node. "
                "It does not evaluate held devices, nor more devices than it needs."
            )
    if refusal is not None:
        return _refused(refusal)
    if counted.claims_that_fit is not None and counted.claims_that_fit >= claims:
        return NoFitReason.NONE, ""
    if shortage := _shortage(snapshot, funnels, claims):
        return shortage
    if counted.nodes_that_fit:
        nodes = _counted_as(counted.nodes_that_fit, "node")
        problem = f"{counted.claims_that_fit} of {_counted_as(claims, 'claim')} fit now, on {nodes}."
        return NoFitReason.NO_NODE, problem
    for request_funnel in funnels:
        if problem := _too_large_share(snapshot, request_funnel):
            return NoFitReason.CAPACITY, problem
    problem = _no_node(snapshot, funnels, counted) + _unusable_pool_text(snapshot, funnels)
    return NoFitReason.NO_NODE, problem


def _shortage(
    snapshot: ClusterSnapshot, funnels: Sequence[Funnel], claims: int
) -> tuple[NoFitReason, str] | None:
    """Return the first request for which too few devices are left, in the order of the funnel."""
    for reason, group, property_text in (
        (NoFitReason.NO_MATCH, "accepted", "match"),
        (NoFitReason.TAINTED, "open", "match and are not tainted"),
        (NoFitReason.UNREACHABLE, "reachable", "match and can be used by a pod of a node"),
        (NoFitReason.TAKEN, "free", "match and are free"),
    ):
        for name, need, have in _shortages(funnels, group, claims):
            problem = f"Request {name} needs {_counted_as(need, 'device')}; {have} {property_text}."
            if reason == NoFitReason.UNREACHABLE:
                problem += f" {_why_unreachable(snapshot, funnels)}"
            return reason, problem + _unusable_pool_text(snapshot, funnels)
    return None


def _refused(refusal: AllocationError) -> tuple[NoFitReason, str]:
    if isinstance(refusal, TooManyDevices):
        return NoFitReason.TOO_MANY, refusal.message
    if isinstance(refusal, UnusablePool):
        return NoFitReason.POOL, (
            "The claim requests all devices of a node. Kubernetes refuses that on every node while any node "
            f"has a pool that it cannot use. {refusal.message}"
        )
    return NoFitReason.REFUSED, f"{refusal.message} The scheduler rejects the pod on every node."


def _unusable_pool_text(snapshot: ClusterSnapshot, funnels: Sequence[Funnel]) -> str:
    """Return what is wrong with the first pool whose devices would match, " " before it; "" if none is."""
    for pool in snapshot.pools:
        if pool.usable:
            continue
        for one in funnels:
            expressions = [*snapshot.class_expressions(one.request.class_name), *one.request.expressions]
            with suppress(CelError):
                selectors = [compile_selector(text, snapshot.features) for text in expressions]
                if any(all(one.matches(device) for one in selectors) for device in pool.devices[:SHOWN]):
                    return f" {pool.problem} Kubernetes allocates none of its devices until that is fixed."
    return ""


def _why_unreachable(snapshot: ClusterSnapshot, funnels: Sequence[Funnel]) -> str:
    lost = reduce(or_, (one.open ^ one.reachable for one in funnels))
    index = next(iter(selector_results.mask_indices(lost, len(snapshot.devices))))
    device = snapshot.devices[index]
    return f"Device {device.name}: {unreachable_text(snapshot, device)}."


def unreachable_text(snapshot: ClusterSnapshot, device: PoolDevice) -> str:
    """Return why no pod can get the device, even if it is free, as a clause."""
    if device.node_name and snapshot.nodes and device.node_name not in snapshot.node_by_name:
        return f"its node {device.node_name} is not in the cluster"
    return "the cluster ignores it because a feature gate that it needs is off"


def _too_large_share(snapshot: ClusterSnapshot, request_funnel: Funnel) -> str:
    """
    Return what is left of the device with the most capacity left, if every free device has less than the
    request takes of one; else "".
    """
    request = request_funnel.request
    if not request.capacity or request_funnel.errors:
        return ""
    fractional = snapshot.features.fractional_capacity_range
    most: tuple[int, str] = (-1, "")
    free = selector_results.mask_indices(request_funnel.free, len(snapshot.devices))
    alike = {snapshot.remaining_capacity[index]: snapshot.devices[index] for index in reversed([*free])}
    for device in reversed(alike.values()):
        consumed = snapshot.held.consumed.get(device.key, {})
        try:
            if share(device, request.capacity, consumed, fractional=fractional) is not None:
                return ""
            needed = share(device, request.capacity, {}, fractional=fractional) or {}
            for name, requested in request.capacity.items():
                raw = (device.raw.get("capacity") or {}).get(name)
                if raw is None:
                    continue
                total = CapacityAmount.read(raw.get("value", "0")).quantity
                left = total - consumed[name] if name in consumed else total
                need = needed[name].quantity if name in needed else CapacityAmount.read(requested).quantity
                if left < need and left.nano > most[0]:
                    amounts = f"{in_words(left)} of {in_words(total)}"
                    which = "" if name == "memory" else f" {name}"
                    sentence = (
                        f"{amounts}{which} are left on {device.name}; this claim needs {in_words(need)}."
                    )
                    most = left.nano, sentence
        except (AllocationError, QuantityError):
            return ""
    return most[1]


def _no_node(snapshot: ClusterSnapshot, funnels: Sequence[Funnel], counted: Preview) -> str:
    free = "1 device is" if counted.free == 1 else f"{counted.free} devices are"
    if any(one.request.all for one in funnels):
        return f"{free} free, but the claim requests all devices of a node, and no node has all of them free."
    together, mask = counted.together, reduce(or_, (one.free for one in funnels))
    on_one_node = max(snapshot.node_runs.counts(mask), default=0)
    if together and (together.same or together.distinct) and on_one_node >= together.devices:
        return f"{free} free, but no single node has {together.words}."
    return f"{free} free, but no single node has enough for one claim."


def _counted_as(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _shortages(funnels: Sequence[Funnel], group: str, claims: int) -> list[tuple[str, int, int]]:
    """Return (request, needed, available) for requests without an alternative that has enough devices."""
    short = []
    for name in required_devices(funnels):
        options = [option for option in funnels if option.request.request == name]
        shortages = []
        for option in options:
            need = (
                1
                if option.request.all
                else option.request.count * (1 if option.request.admin or option.request.capacity else claims)
            )
            have = getattr(option, group).bit_count()
            shortages += [(option.request.result_name, need, have)] if have < need else []
        if len(shortages) == len(options):
            short.append(shortages[0])
    return short


class DropCause(StrEnum):
    """What keeps a device from a request; stable, for programs."""

    CLASS = "class"
    SELECTOR = "selector"
    ERROR = "error"  # a selector failed, with which the scheduler rejects the pod
    TAINT = "taint"
    UNREACHABLE = "unreachable"  # its node is gone, or a feature that it needs is off
    HELD = "held"
    USED_UP = "used-up"  # a shared device, or shared counters
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Drop:
    """
    A dropped device, and the first reason.

    `condition` is the false condition of the class or selector, `difference` the published value beside it;
    `message` is the evaluation error, or why no node can get it; `holder` is "namespace/name" of a claim,
    which not every user may see. `free_beside` counts the matching devices that are free on its node.
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
            case DropCause.UNREACHABLE:
                return self.message
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
    if not snapshot.reachable >> 8 * index & 1:
        return Drop(index, device, DropCause.UNREACHABLE, message=unreachable_text(snapshot, device))
    if request.admin or snapshot.can_take(device):
        return None
    cause = DropCause.HELD if device.key in snapshot.held.holders else DropCause.USED_UP
    return Drop(index, device, cause, holder=snapshot.device_holder(device))


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
    if _unknown_result(funnels):
        return Dropped([], 0)
    try:
        fit_result = fit(snapshot, spec, funnels, 1)
    except AllocationError:
        return Dropped([], 0)
    if fit_result.gave_up:
        return Dropped([], 0)
    nodes = {name_of_node(node): node for node in snapshot_nodes(snapshot)}
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
