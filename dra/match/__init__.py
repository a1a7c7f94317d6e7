"""
Preview of a claim spec on a cluster: which devices match, step by step, and why the others do not.

A selector that the portal cannot evaluate makes the result unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from dra.allocator import AllocationError
from dra.cel import CelError, NotPreviewable
from dra.cluster_snapshot import ClusterSnapshot
from dra.match.conditions import ConditionDifference, SelectorCondition, condition
from dra.match.dropped import Drop, DropCause, Dropped, dropped, explain_drop, taint_text
from dra.match.funnel import Funnel, FunnelStep, NodeRequirement, NoFitReason, Preview, StepKind, funnel
from dra.match.node_fit import fit, required_devices
from dra.objects import MAX_RESULTS, Json, constraints, device_requests

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
    if not funnels:
        return Preview(steps, problem="The claim requests no devices.", reason=NoFitReason.NO_REQUEST)
    for request_funnel in funnels:
        for error in request_funnel.errors.values():
            if isinstance(error, NotPreviewable):
                problem = f"Request {request_funnel.request.result_name}: {error.message}"
                return Preview(steps, problem=problem, reason=NoFitReason.NOT_PREVIEWABLE)
    return _counted(snapshot, spec, claims, funnels, steps)


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
    reason, problem = _problem(snapshot, funnels, counted, claims)
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
    snapshot: ClusterSnapshot, funnels: Sequence[Funnel], counted: Preview, claims: int
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
    if counted.claims_that_fit is not None and counted.claims_that_fit >= claims:
        return NoFitReason.NONE, ""
    for reason, group, property_text in (
        (NoFitReason.NO_MATCH, "accepted", "match"),
        (NoFitReason.TAINTED, "open", "match and are not tainted"),
        (NoFitReason.TAKEN, "free", "match and are free"),
    ):
        for name, need, have in _shortages(funnels, group, claims):
            return reason, f"Request {name} needs {_counted_as(need, 'device')}; {have} {property_text}."
    return NoFitReason.NO_NODE, _no_node(counted, claims)


def _no_node(counted: Preview, claims: int) -> str:
    if not counted.nodes_that_fit:
        free = "1 device is" if counted.free == 1 else f"{counted.free} devices are"
        return f"{free} free, but no single node has enough for one claim."
    nodes = _counted_as(counted.nodes_that_fit, "node")
    return f"{counted.claims_that_fit} of {_counted_as(claims, 'claim')} fit now, on {nodes}."


def _counted_as(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _shortages(funnels: Sequence[Funnel], group: str, claims: int) -> list[tuple[str, int, int]]:
    """Return (request, needed, available) for requests without an alternative that has enough devices."""
    short = []
    for name in required_devices(funnels):
        options = [option for option in funnels if option.request.request == name]
        missing_counter_problem = []
        for option in options:
            need = (
                1
                if option.request.all
                else option.request.count * (1 if option.request.admin or option.request.capacity else claims)
            )
            have = getattr(option, group).bit_count()
            missing_counter_problem += [(option.request.result_name, need, have)] if have < need else []
        if len(missing_counter_problem) == len(options):
            short.append(missing_counter_problem[0])
    return short
