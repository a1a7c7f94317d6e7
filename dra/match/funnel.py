"""
The funnel of a device request: the devices that remain after each condition; and the result of a preview.

A condition is compared with the value that a device publishes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from dra.attributes import Malformed, Ref, value
from dra.cel import CelError
from dra.cel.idioms import comparison, conjuncts, reads, replaced
from dra.cluster_snapshot import ClusterSnapshot
from dra.objects import DeviceRequest
from dra.pools import PoolDevice
from dra.quantity import Quantity, QuantityError
from dra.selector_results import DeviceMask, pack, unpack

KEPT = 2048  # expressions
SENTENCES = {
    ">=": "%(name)s %(seen)s < %(expected)s",
    "<=": "%(name)s %(seen)s > %(expected)s",
    ">": "%(name)s %(seen)s ≤ %(expected)s",
    "<": "%(name)s %(seen)s ≥ %(expected)s",
    "==": "%(name)s %(seen)s, not %(expected)s",
    "!=": "%(name)s is %(seen)s",
    "begins": "%(name)s %(seen)s, not %(expected)s…",
    "ends": "%(name)s %(seen)s, not …%(expected)s",
    "contains": "%(name)s %(seen)s does not contain %(expected)s",
    "in": "%(name)s %(seen)s, not in %(expected)s",
    "missing": "%(name)s is not published",
    "": "%(seen)s",
}
SHOWN = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}
UNITS = {"Ki": "KiB", "Mi": "MiB", "Gi": "GiB", "Ti": "TiB"}
GIB = 2**30


@dataclass(frozen=True, slots=True)
class ConditionDifference:
    """
    The published value and the expected one, as text. `sign` is that of the condition, "missing" if the
    device does not publish the name, and "" if the condition has no known form.
    """

    sign: str
    name: str = ""
    seen: str = ""
    expected: str = ""

    @property
    def sentence(self) -> str:
        """Return the difference in English, such as "memory 24 GiB < 40 GiB"."""
        return SENTENCES[self.sign] % {"name": self.name, "seen": self.seen, "expected": self.expected}


@dataclass(frozen=True, slots=True)
class SelectorCondition:
    """
    One condition of a selector. `text` is CEL; `name`, `sign` and `expected` are "" for unknown forms.

    `sign` is one of >= <= > < == != begins ends contains in; `expected` is the literal at the span `at` of
    `text`. `refs` are the attributes and capacities that the condition reads.
    """

    text: str
    refs: tuple[Ref, ...]
    name: str = ""
    sign: str = ""
    expected: str = ""
    at: tuple[int, int] = (0, 0)

    @property
    def words(self) -> str:
        """Return the condition in English, such as "memory ≥ 40 GiB"; "" for unknown forms."""
        if not self.sign:
            return ""
        if self.sign in ("begins", "ends"):
            return f"{self.name} {self.sign} with {self.expected}"
        return f"{self.name} {SHOWN.get(self.sign, self.sign)} {in_words(self.expected)}"

    def against(self, device: PoolDevice) -> ConditionDifference:
        """Return how a device that fails the condition differs from it."""
        if not self.sign:
            return ConditionDifference(
                "", seen=", ".join(f"{ref[2]} {has(device, ref) or '—'}" for ref in self.refs)
            )
        published = has(device, self.refs[0]) if self.refs else device.driver
        expected = in_words(self.expected)
        if published == expected and self.refs:  # equal after rounding to a tenth of a GiB
            published, expected = has(device, self.refs[0], exactly=True), self.expected
        return ConditionDifference(self.sign if published else "missing", self.name, published, expected)

    def with_wanted(self, literal: str) -> str:
        """Return the text of the condition with another CEL literal."""
        return replaced(self.text, {self.at: literal})


def has(device: PoolDevice, ref: Ref, *, exactly: bool = False) -> str:
    """Return the published value as text, or exactly as written; "" if the device does not publish it."""
    try:
        published = value(device, ref)
    except Malformed as error:
        return str(error)
    if published is None:
        return ""
    return str(published) if exactly else in_words(published)


def in_words(value_: object) -> str:
    """Return a value as text; bytes in GiB, rounded to a tenth."""
    if isinstance(value_, bool):
        return "true" if value_ else "false"
    if isinstance(value_, list):
        return ", ".join(map(in_words, value_))
    if isinstance(value_, str):
        if not re.fullmatch(r"\d+(\.\d+)?(Ki|Mi|Gi|Ti)", value_):
            return value_
        try:
            value_ = Quantity.parse(value_)
        except QuantityError:
            return str(value_)
    if isinstance(value_, Quantity):
        text = str(value_)
        if text[-2:] not in UNITS:
            return text
        gib = value_.nano / 10**9 / GIB
        return f"{gib:.1f}".removesuffix(".0") + " GiB" if gib >= 1 else f"{text[:-2]} {UNITS[text[-2:]]}"
    return str(value_)


@lru_cache(maxsize=KEPT)
def condition(text: str) -> SelectorCondition:
    """Parse one conjunct of an expression, valid or not."""
    refs = tuple(dict.fromkeys(read.ref for read in reads(text)))
    parsed = comparison(text)
    if parsed is None:
        return SelectorCondition(text, refs)
    return SelectorCondition(
        text, refs, parsed.ref[2] if parsed.ref else "driver", parsed.sign, parsed.expected, parsed.literal
    )


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
    UNREACHABLE = "unreachable"
    TAKEN = "taken"
    CAPACITY = "capacity"
    POOL = "pool-incomplete"
    REFUSED = "refused"
    NO_NODE = "no-node"
    TOO_LONG = "search-too-long"


class StepKind(StrEnum):
    """The check of a funnel step, so that a page can use its own words."""

    TOTAL = "total"
    IN_CLASS = "class"
    SELECTOR = "selector"
    UNTAINTED = "untainted"
    REACHABLE = "reachable"
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

    `accepted` pass class and selectors, `open` also taints, `reachable` are those of them that a node can
    get, and `free` can be allocated now. `lost` are the devices that each of `steps` drops.
    """

    request: DeviceRequest
    accepted: DeviceMask = 0
    open: DeviceMask = 0
    reachable: DeviceMask = 0
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
    _step(result, "not tainted (or tolerated)", left, result.open, StepKind.UNTAINTED)
    result.reachable = result.open & snapshot.reachable
    if result.reachable != result.open:
        _step(result, "that a node can get", result.open, result.reachable, StepKind.REACHABLE)
    # Admin access can use held devices.
    result.free = result.reachable if request.admin else result.reachable & snapshot.available
    _step(result, "free now", result.reachable, result.free, StepKind.FREE)
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
