"""
The funnel of a device request: the devices that remain after each condition; and the result of a preview.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dra.cel import CelError
from dra.cel.idioms import conjuncts
from dra.cluster_snapshot import ClusterSnapshot
from dra.objects import DeviceRequest
from dra.selector_results import DeviceMask, pack, unpack


class NoFitReason(StrEnum):
    """Why nothing fits, or why the result is unknown; stable, for programs."""

    NONE = ""
    NO_REQUEST = "no-request"
    NO_CLASS = "no-class"
    TOO_MANY = "too-many-devices"
    INVALID = "invalid-selector"
    NOT_PREVIEWABLE = "not-previewable"
    SELECTOR_FAILS = "selector-fails"
    NO_MATCH = "no-match"
    TAINTED = "tainted"
    TAKEN = "taken"
    NO_NODE = "no-node"
    TOO_LONG = "search-too-long"


class StepKind(StrEnum):
    """The check of a funnel step, so that a page can use its own words."""

    TOTAL = "total"
    IN_CLASS = "class"
    SELECTOR = "selector"
    UNTAINTED = "untainted"
    FREE = "free"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """
    One step: `count` devices (nodes in the last step) remain, `dropped` are dropped.

    `label` is in English; `kind` and `detail` (the class, or one condition of a selector) are for programs.
    `request` is the request or alternative ("gpu/h100"), "" for steps of the whole claim.
    """

    label: str
    count: int
    dropped: int
    kind: StepKind
    detail: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """
    What one claim needs on one node: `devices` with equal attributes `same` and different ones `distinct`.
    """

    devices: int
    same: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return "2 devices with the same resource.kubernetes.io/pcieRoot"."""
        parts = [f"{self.devices} device" + "s" * (self.devices != 1)]
        parts += [f"with the same {name}" for name in self.same]
        parts += [f"with different {name}" for name in self.distinct]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Preview:
    """
    The result of a spec on a cluster now.

    `matching` devices pass class and selectors, `free` of them can be allocated, `nodes_that_fit` nodes can
    run one claim, and `claims_that_fit` of the requested claims fit at once. None means unknown, never 0.
    `problem` is a sentence, "" if all claims fit; `reason` is its code.
    """

    steps: list[FunnelStep] = field(default_factory=list)
    matching: int | None = None
    free: int | None = None
    nodes_that_fit: int | None = None
    claims_that_fit: int | None = None
    nodes: tuple[str, ...] = ()  # names of the first nodes that fit
    problem: str = ""
    reason: NoFitReason = NoFitReason.NONE
    together: NodeRequirement | None = None  # None if nodes were not searched

    @property
    def fits(self) -> bool:
        return not self.problem


@dataclass(slots=True)
class Funnel:
    """
    The devices that pass. `errors` has the evaluation error of each device on which a selector fails.

    `accepted` pass class and selectors, `open` also taints, and `free` can be allocated now. `lost` are the
    devices that each of `steps` drops.
    """

    request: DeviceRequest
    accepted: DeviceMask = 0
    open: DeviceMask = 0
    free: DeviceMask = 0
    errors: dict[int, CelError] = field(default_factory=dict)
    steps: list[FunnelStep] = field(default_factory=list)
    lost: list[DeviceMask] = field(default_factory=list)


def funnel(snapshot: ClusterSnapshot, request: DeviceRequest) -> Funnel:
    """
    Narrow the devices of the snapshot down to those that the request can get.

    Raise `KeyError` for an unknown class, and `CompileError` or `NotPreviewable` for an expression.
    """
    result = Funnel(request)
    left = everything = snapshot.device_index.all
    for expression in snapshot.class_expressions(request.class_name):
        left = _pass(snapshot, expression, left, result)
    _step(result, f"in class {request.class_name}", everything, left, StepKind.IN_CLASS, request.class_name)
    for expression in request.expressions:
        accepted = _pass(snapshot, expression, left, result)
        for part, remaining in _parts(snapshot, expression, left, accepted):
            _step(result, f"selected by {' '.join(part.split())}", left, remaining, StepKind.SELECTOR, part)
            left = remaining
    result.accepted = left
    result.open = left & snapshot.untainted(request.tolerations)
    _step(result, "without untolerated taints", left, result.open, StepKind.UNTAINTED)
    # Admin access can use held devices.
    result.free = result.open if request.admin else result.open & snapshot.available
    _step(result, "free now", result.open, result.free, StepKind.FREE)
    return result


def selector_conditions(snapshot: ClusterSnapshot, expression: str) -> tuple[str, ...]:
    """
    Return the conditions of an expression.

    The whole expression is the only condition if one of its conjuncts cannot be evaluated alone.
    """
    parts = conjuncts(expression)
    try:
        for part in parts:
            snapshot.selector_results(part)
    except CelError:
        return (expression,)
    return parts


def _parts(
    snapshot: ClusterSnapshot, expression: str, left: DeviceMask, after: DeviceMask
) -> list[tuple[str, DeviceMask]]:
    """
    Assign each device that the expression drops (`left` before, `after` it) to one condition.

    That is the first condition that is false. If none is false but the expression fails on the device, it is
    the first that fails; the last condition gets the rest.
    """
    parts = selector_conditions(snapshot, expression)
    if len(parts) == 1:
        return [(parts[0], after)]
    fails = _failing(snapshot, expression)
    remaining, steps = left, []
    for part in parts[:-1]:
        remaining &= snapshot.selector_results(part).mask | (_failing(snapshot, part) & ~fails) | after
        steps.append((part, remaining))
    return [*steps, (parts[-1], after)]


def _failing(snapshot: ClusterSnapshot, expression: str) -> DeviceMask:
    errors = snapshot.selector_results(expression).errors
    if not errors:
        return 0
    return pack(index in errors for index in range(len(snapshot.devices)))


def _pass(snapshot: ClusterSnapshot, expression: str, left: DeviceMask, result: Funnel) -> DeviceMask:
    results = snapshot.selector_results(expression)
    if results.errors:
        # Devices that an earlier selector rejected are not evaluated.
        reached = unpack(left, len(results.flags))
        result.errors |= {index: error for index, error in results.errors.items() if reached[index]}
    return left & results.mask


def _step(
    result: Funnel, label: str, before: DeviceMask, after: DeviceMask, kind: StepKind, detail: str = ""
) -> None:
    count_before = result.steps[-1].count if result.steps else before.bit_count()
    count = after.bit_count()
    step = FunnelStep(label, count, count_before - count, kind, detail, result.request.result_name)
    result.steps.append(step)
    result.lost.append(before ^ after)
