"""
Before anything is asked for: what of a cluster meets a spec, step by step, and why not more.

Nothing is guessed. A selector that this portal cannot run makes the result unknown, and says so.
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
from dra.match.places import fit, needs
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
    """Say what `claims` claims of `spec` would meet in the picture. Never raises for what the spec says."""
    total = FunnelStep("in the cluster", len(snapshot.devices), 0, StepKind.TOTAL)
    steps, funnels = [total], []
    for ask in device_requests(spec):
        try:
            one = funnel(snapshot, ask)
        except KeyError:
            problem = f"The cluster has no device class {ask.class_name}."
            return Preview(steps, problem=problem, reason=NoFitReason.NO_CLASS)
        except CelError as refusal:
            reason = (
                NoFitReason.NOT_PREVIEWABLE if isinstance(refusal, NotPreviewable) else NoFitReason.INVALID
            )
            return Preview(steps, problem=f"Request {ask.result_name}: {refusal.message}", reason=reason)
        steps += one.steps
        funnels.append(one)
    if not funnels:
        return Preview(steps, problem="The claim requests no device.", reason=NoFitReason.NO_REQUEST)
    for one in funnels:
        for error in one.errors.values():
            if isinstance(error, NotPreviewable):
                problem = f"Request {one.ask.result_name}: {error.message}"
                return Preview(steps, problem=problem, reason=NoFitReason.NOT_PREVIEWABLE)
    return _counted(snapshot, spec, claims, funnels, steps)


def _counted(
    snapshot: ClusterSnapshot, spec: Json, claims: int, funnels: Sequence[Funnel], steps: list[FunnelStep]
) -> Preview:
    matching = reduce(or_, (one.accepted for one in funnels)).bit_count()
    free = reduce(or_, (one.free for one in funnels)).bit_count()
    try:
        found = fit(snapshot, spec, funnels, claims)
    except AllocationError as error:
        return Preview(steps, matching, free, problem=error.message, reason=NoFitReason.INVALID)
    together = _together(spec, funnels)
    steps.append(FunnelStep(f"nodes with room for {together.words}", len(found.nodes), 0, StepKind.NODES))
    counted = Preview(
        steps,
        matching=matching,
        free=free,
        nodes_that_fit=len(found.nodes),
        claims_that_fit=found.claims,
        nodes=tuple(found.nodes[:SHOWN]),
        together=together,
    )
    reason, problem = _problem(snapshot, funnels, counted, claims)
    if found.gave_up:
        enough = found.claims >= claims
        counted = replace(counted, nodes_that_fit=None, claims_that_fit=found.claims if enough else None)
        if reason == NoFitReason.NO_NODE:
            reason = NoFitReason.TOO_LONG
            problem = (
                "Whether the claim fits was not found in time; the scheduler may give up on it likewise."
            )
    return replace(counted, problem=problem, reason=reason)


def _together(spec: Json, funnels: Sequence[Funnel]) -> NodeRequirement:
    same = [str(one["matchAttribute"]) for one in constraints(spec) if one.get("matchAttribute")]
    # Of a constraint that names both, only the first is looked at, as upstream.
    distinct = [
        str(one["distinctAttribute"])
        for one in constraints(spec)
        if one.get("distinctAttribute") and not one.get("matchAttribute")
    ]
    return NodeRequirement(
        sum(needs(funnels).values()), tuple(dict.fromkeys(same)), tuple(dict.fromkeys(distinct))
    )


def _problem(
    snapshot: ClusterSnapshot, funnels: Sequence[Funnel], counted: Preview, claims: int
) -> tuple[NoFitReason, str]:
    """Find the first thing that keeps the claims from fitting, in the order of the funnel."""
    needed = sum(needs(funnels).values())
    if needed > MAX_RESULTS:
        return NoFitReason.TOO_MANY, f"The claim asks for {needed} devices; one claim can hold {MAX_RESULTS}."
    for one in funnels:
        for place, error in one.errors.items():
            where = f"{snapshot.devices[place]}: {error.message}"
            return NoFitReason.SELECTOR_FAILS, (
                f"A selector of request {one.ask.result_name} fails on device {where}. "
                "The scheduler gives up on a pod when it looks at such a device, on any node; "
                "it looks at none that is held or comes after enough others."
            )
    if counted.claims_that_fit is not None and counted.claims_that_fit >= claims:
        return NoFitReason.NONE, ""
    for reason, group, what in (
        (NoFitReason.NO_MATCH, "accepted", "match"),
        (NoFitReason.TAINTED, "open", "match and are not tainted"),
        (NoFitReason.TAKEN, "free", "match and are free"),
    ):
        for name, need, have in _shortages(funnels, group, claims):
            return reason, f"Request {name} needs {_counted_as(need, 'device')}; {have} {what}."
    return NoFitReason.NO_NODE, _no_node(counted, claims)


def _no_node(counted: Preview, claims: int) -> str:
    if not counted.nodes_that_fit:
        free = "1 device is" if counted.free == 1 else f"{counted.free} devices are"
        return f"{free} free, but no single node has all that one claim needs."
    nodes = _counted_as(counted.nodes_that_fit, "node")
    return f"{counted.claims_that_fit} of {_counted_as(claims, 'claim')} fit now, on {nodes}."


def _counted_as(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _shortages(funnels: Sequence[Funnel], group: str, claims: int) -> list[tuple[str, int, int]]:
    """Return (request, needed, there) for requests none of whose alternatives has enough devices."""
    short = []
    for name in needs(funnels):
        options = [one for one in funnels if one.ask.request == name]
        missing_counter_problem = []
        for one in options:
            need = 1 if one.ask.all else one.ask.count * (1 if one.ask.admin or one.ask.capacity else claims)
            have = getattr(one, group).bit_count()
            missing_counter_problem += [(one.ask.result_name, need, have)] if have < need else []
        if len(missing_counter_problem) == len(options):
            short.append(missing_counter_problem[0])
    return short
