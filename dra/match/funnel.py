"""
How many devices are left after each condition, and why those that went did not fit.

What a preview says.

Which devices are left after each step, for one request or alternative.
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
    """Why nothing fits, or why that cannot be told; stable, for programs."""

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
    """What a step of the funnel asks, so that a page may put it into its own words."""

    TOTAL = "total"
    IN_CLASS = "class"
    SELECTOR = "selector"
    UNTAINTED = "untainted"
    FREE = "free"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """
    One step: `count` devices (of the last step: nodes) are left, `dropped` went.

    `label` is in English; `kind` and `detail` (name of the class, text of one condition of a selector) say
    the same to programs. `request` names the request or alternative ("gpu/h100"), and is empty for the steps
    of the whole.
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
    What one node has to give to one claim: so many devices, which agree in the attributes `same` and differ
    in each of `distinct`.
    """

    devices: int
    same: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Say it, as "2 devices with the same resource.kubernetes.io/pcieRoot"."""
        said = [f"{self.devices} device" + "s" * (self.devices != 1)]
        said += [f"with the same {name}" for name in self.same]
        said += [f"each with another {name}" for name in self.distinct]
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Preview:
    """
    What a spec would meet on a cluster now.

    `matching` devices pass class and selectors, `free` of them could be taken, `nodes_that_fit` nodes could
    run one claim and `claims_that_fit` of the claims asked for fit at once. None means that it cannot be
    told, never 0. `problem` is a sentence and empty if all claims fit; `reason` is its code.
    """

    steps: list[FunnelStep] = field(default_factory=list)
    matching: int | None = None
    free: int | None = None
    nodes_that_fit: int | None = None
    claims_that_fit: int | None = None
    nodes: tuple[str, ...] = ()  # names of the first that fit
    problem: str = ""
    reason: NoFitReason = NoFitReason.NONE
    together: NodeRequirement | None = None  # None where no node was asked

    @property
    def fits(self) -> bool:
        return not self.problem


@dataclass(slots=True)
class Funnel:
    """
    Devices of the picture that pass. `failing` are those on which a selector fails, with what it says.

    `accepted` pass class and selectors, `open` are not tainted either, `free` can be taken now. `lost` are
    the devices that each of `steps` drops.
    """

    ask: DeviceRequest
    accepted: DeviceMask = 0
    open: DeviceMask = 0
    free: DeviceMask = 0
    errors: dict[int, CelError] = field(default_factory=dict)
    steps: list[FunnelStep] = field(default_factory=list)
    lost: list[DeviceMask] = field(default_factory=list)


def funnel(snapshot: ClusterSnapshot, ask: DeviceRequest) -> Funnel:
    """
    Narrow the devices of the picture down to those that the request could take.

    Raise `KeyError` for an unknown class, and `CompileError` or `NotPreviewable` for an expression.
    """
    made = Funnel(ask)
    left = everything = snapshot.device_index.all
    for expression in snapshot.class_expressions(ask.class_name):
        left = _pass(snapshot, expression, left, made)
    _step(made, f"in class {ask.class_name}", everything, left, StepKind.IN_CLASS, ask.class_name)
    for expression in ask.expressions:
        after = _pass(snapshot, expression, left, made)
        for part, kept in _parts(snapshot, expression, left, after):
            _step(made, f"selected by {' '.join(part.split())}", left, kept, StepKind.SELECTOR, part)
            left = kept
    made.accepted = left
    made.open = left & snapshot.untainted(ask.tolerations)
    _step(made, "not tainted, or tolerated", left, made.open, StepKind.UNTAINTED)
    # Admin access looks at devices whoever has them.
    made.free = made.open if ask.admin else made.open & snapshot.available
    _step(made, "free now", made.open, made.free, StepKind.FREE)
    return made


def parts_of(snapshot: ClusterSnapshot, expression: str) -> tuple[str, ...]:
    """
    Return the conditions of an expression.

    The expression as a whole is its only condition where one of the parts cannot be run on its own.
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
    Share out among the conditions what the expression drops: `left` before, `after` it.

    A device goes where a condition is false for it. One on which the whole fails, for no condition is false,
    goes where a condition fails; the last takes what none of them explains.
    """
    parts = parts_of(snapshot, expression)
    if len(parts) == 1:
        return [(parts[0], after)]
    fails = _failing(snapshot, expression)
    kept, found = left, []
    for part in parts[:-1]:
        kept &= snapshot.selector_results(part).mask | (_failing(snapshot, part) & ~fails) | after
        found.append((part, kept))
    return [*found, (parts[-1], after)]


def _failing(snapshot: ClusterSnapshot, expression: str) -> DeviceMask:
    failing = snapshot.selector_results(expression).errors
    if not failing:
        return 0
    return pack(place in failing for place in range(len(snapshot.devices)))


def _pass(snapshot: ClusterSnapshot, expression: str, left: DeviceMask, made: Funnel) -> DeviceMask:
    selector_results = snapshot.selector_results(expression)
    if selector_results.errors:
        # A device that an earlier selector turned down is not asked any more.
        asked = unpack(left, len(selector_results.flags))
        made.errors |= {place: error for place, error in selector_results.errors.items() if asked[place]}
    return left & selector_results.mask


def _step(
    made: Funnel, label: str, before: DeviceMask, after: DeviceMask, kind: StepKind, detail: str = ""
) -> None:
    count = after.bit_count()
    step = FunnelStep(label, count, before.bit_count() - count, kind, detail, made.ask.result_name)
    made.steps.append(step)
    made.lost.append(before ^ after)
