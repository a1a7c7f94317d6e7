"""
Relaxations of a spec that does not fit, and what each of them brings.

A relaxation changes one thing: fewer devices, one condition or constraint less, a lower bound, a toleration
more. Nothing is estimated: each changed spec goes through `dra.match.preview`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from operator import or_

from dra.attributes import Malformed, Version, VersionError, value
from dra.cel.idioms import conjuncts, joined, quoted
from dra.cluster_snapshot import ClusterSnapshot
from dra.match import NoFitReason, Preview, preview
from dra.match.funnel import NodeRequirement, SelectorCondition, condition, funnel, in_words
from dra.objects import MAX_RESULTS, DeviceRequest, Json, Manifest, constraints, device_requests, requests
from dra.quantity import Quantity, QuantityError
from dra.selector_results import DeviceMask, mask_indices
from dra.taints import Taint, tolerates

__all__ = ["Relaxation", "RelaxationKind", "find_relaxations"]

MAX_PREVIEWS = 24  # bounds the time that a page waits
MAX_TAINTS = 5  # that are tried, those of the most devices first
# No relaxation changes the result of these.
NOT_RELAXABLE = frozenset(
    (NoFitReason.NO_REQUEST, NoFitReason.NO_CLASS, NoFitReason.INVALID, NoFitReason.NOT_PREVIEWABLE)
)

type Bound = Quantity | Version | int


class RelaxationKind(StrEnum):
    """What a relaxation changes; stable, for programs."""

    CONDITION = "condition"
    THRESHOLD = "threshold"
    COUNT = "count"
    CLAIMS = "claims"  # fewer at once: pods of a template
    CONSTRAINT = "constraint"
    TOLERATION = "toleration"


@dataclass(frozen=True, slots=True)
class Relaxation:
    """
    One change of a spec and its effect: `more_devices` free devices that match, `more_nodes` with room.

    `condition`, `taint` or `constraint` (an attribute) names what changes; `current` and `proposed` are the
    bound of a condition, or a count. `fits` is True if all claims fit with `spec`, the changed one, and do
    not fit without the change.
    """

    kind: RelaxationKind
    request: str = ""  # "" for a constraint
    condition: SelectorCondition | None = None
    taint: Taint | None = None
    constraint: str = ""
    together: NodeRequirement | None = None
    current: str = ""
    proposed: str = ""
    fits: bool = False
    more_devices: int = 0
    more_nodes: int = 0
    spec: Json = field(default_factory=dict)

    @property
    def change(self) -> str:
        """Describe the change in English."""
        match self.kind:
            case RelaxationKind.CONDITION if self.condition:
                return f"without {self.condition.words or self.condition.text}"
            case RelaxationKind.THRESHOLD if self.condition:
                proposed, current = in_words(self.proposed), in_words(self.current)
                if proposed == current:  # equal after rounding
                    proposed, current = self.proposed, self.current
                return f"{self.condition.name} {proposed} instead of {current}"
            case RelaxationKind.COUNT:
                devices = "device" if self.proposed == "1" else "devices"
                return f"{self.proposed} {devices} instead of {self.current}"
            case RelaxationKind.CLAIMS:
                pods = "pod" if self.proposed == "1" else "pods"
                return f"{self.proposed} {pods} instead of {self.current}"
            case RelaxationKind.CONSTRAINT:
                return f"without the constraint on {self.constraint}"
            case RelaxationKind.TOLERATION if self.taint:
                key = f"{self.taint.key}={self.taint.value}" if self.taint.value else self.taint.key
                return f"tolerating {key}:{self.taint.effect}"
        return ""

    @property
    def sentence(self) -> str:
        if self.fits:
            return f"{self.change}: fits now"
        if self.more_devices:
            return f"{self.change}: {self.more_devices} more free"
        nodes = "node" if self.more_nodes == 1 else "nodes"
        return f"{self.change}: {self.more_nodes} more {nodes} with room"


@dataclass(frozen=True, slots=True)
class RelaxationAttempt:
    """A relaxation to try: one changed spec, or for a count one spec per smaller count from 1 on."""

    relaxation: Relaxation
    specs: Sequence[Json]


def relaxation_attempts(
    snapshot: ClusterSnapshot, spec: Json, free_devices: DeviceMask
) -> Iterator[RelaxationAttempt]:
    """Yield the relaxations to try, in the order of the spec; it can get `free_devices` as it is."""
    for device_request in device_requests(spec):
        yield from _counts(spec, device_request)
    for number, raw in enumerate(constraints(spec)):
        attribute = str(raw.get("matchAttribute") or raw.get("distinctAttribute") or "")
        relaxed = deepcopy(dict(spec))
        del relaxed["devices"]["constraints"][number]
        yield RelaxationAttempt(Relaxation(RelaxationKind.CONSTRAINT, constraint=attribute), [relaxed])
    for device_request in device_requests(spec):
        yield from _conditions(snapshot, spec, device_request, free_devices)
        yield from _tolerations(snapshot, spec, device_request)


def _changed(spec: Json, device_request: DeviceRequest, **fields: object) -> Manifest:
    """Return a copy of the spec with some fields of the device request replaced."""
    changed = deepcopy(dict(spec))
    for request in requests(changed):
        if request.get("name") != device_request.request:
            continue
        options = request.get("firstAvailable") if device_request.alternative else [request["exactly"]]
        for option in options or ():
            if not device_request.alternative or option.get("name") == device_request.alternative:
                option |= fields
    return changed


def _counts(spec: Json, device_request: DeviceRequest) -> Iterator[RelaxationAttempt]:
    if device_request.all or device_request.count < 2:
        return
    max_count = min(device_request.count - 1, MAX_RESULTS)
    specs = [_changed(spec, device_request, count=count) for count in range(1, max_count + 1)]
    if len(specs) == 1:
        yield RelaxationAttempt(
            Relaxation(
                RelaxationKind.COUNT,
                device_request.result_name,
                current=str(device_request.count),
                proposed="1",
            ),
            specs,
        )
    else:
        yield RelaxationAttempt(
            Relaxation(RelaxationKind.COUNT, device_request.result_name, current=str(device_request.count)),
            specs,
        )


def _conditions(
    snapshot: ClusterSnapshot, spec: Json, device_request: DeviceRequest, free_devices: DeviceMask
) -> Iterator[RelaxationAttempt]:
    for number, expression in enumerate(device_request.expressions):
        parts = conjuncts(expression)
        for index, condition_text in enumerate(parts):
            selector_condition = condition(condition_text)
            without = _with_selector(spec, device_request, number, [*parts[:index], *parts[index + 1 :]])
            if bound := _next_bound(snapshot, without, selector_condition, free_devices):
                weaker = selector_condition.with_wanted(
                    str(bound) if isinstance(bound, int) else quoted(str(bound))
                )
                with_bound = _with_selector(
                    spec, device_request, number, [*parts[:index], weaker, *parts[index + 1 :]]
                )
                relaxation = Relaxation(
                    RelaxationKind.THRESHOLD,
                    device_request.result_name,
                    condition=selector_condition,
                    current=selector_condition.expected,
                    proposed=str(bound),
                )
                yield RelaxationAttempt(relaxation, [with_bound])
            yield RelaxationAttempt(
                Relaxation(
                    RelaxationKind.CONDITION, device_request.result_name, condition=selector_condition
                ),
                [without],
            )


def _with_selector(spec: Json, device_request: DeviceRequest, number: int, parts: Sequence[str]) -> Manifest:
    """Return a copy of the spec in which one selector consists of these conditions."""
    texts = device_request.expressions
    texts[number] = joined(parts)
    selectors = [{"cel": {"expression": text}} for text in texts if text]
    return _changed(spec, device_request, selectors=selectors)


def _next_bound(
    snapshot: ClusterSnapshot, relaxed: Json, selector_condition: SelectorCondition, free_devices: DeviceMask
) -> Bound | None:
    """
    Return the nearest bound with which more devices match; None if the condition compares with none.

    `relaxed` is the spec without the condition: the devices that it adds publish the values to choose from.
    """
    if selector_condition.sign not in (">=", "<=") or not selector_condition.refs:
        return None
    gained: DeviceMask = 0
    for device_request in device_requests(relaxed):
        gained |= funnel(snapshot, device_request).free
    published: dict[str, Bound] = {}
    for index in mask_indices(gained ^ (gained & free_devices), len(snapshot.devices)):
        try:
            published_value = value(snapshot.devices[index], selector_condition.refs[0])
        except Malformed:
            continue
        if isinstance(published_value, Quantity | Version | int) and not isinstance(published_value, bool):
            published[str(published_value)] = published_value
    return _nearest(selector_condition, list(published.values()))


def _nearest(selector_condition: SelectorCondition, published: Sequence[Bound]) -> Bound | None:
    try:
        if quantities := [bound for bound in published if isinstance(bound, Quantity)]:
            amount = Quantity.parse(selector_condition.expected)
            below = [
                bound
                for bound in quantities
                if (bound < amount) == (selector_condition.sign == ">=") and bound != amount
            ]
            return (max if selector_condition.sign == ">=" else min)(below, default=None)
        if versions := [bound for bound in published if isinstance(bound, Version)]:
            version = Version.parse(selector_condition.expected)
            older = [
                bound
                for bound in versions
                if (bound < version) == (selector_condition.sign == ">=") and bound != version
            ]
            return (max if selector_condition.sign == ">=" else min)(older, default=None)
        number = int(selector_condition.expected)
    except (QuantityError, VersionError, ValueError):
        return None
    numbers = [bound for bound in published if isinstance(bound, int)]
    less = [
        bound
        for bound in numbers
        if (bound < number) == (selector_condition.sign == ">=") and bound != number
    ]
    return (max if selector_condition.sign == ">=" else min)(less, default=None)


def _tolerations(
    snapshot: ClusterSnapshot, spec: Json, device_request: DeviceRequest
) -> Iterator[RelaxationAttempt]:
    request_funnel = funnel(snapshot, device_request)
    blocked: Counter[tuple[str, str, str]] = Counter()
    for index in mask_indices(request_funnel.accepted ^ request_funnel.open, len(snapshot.devices)):
        for taint in snapshot.taints[index]:
            if taint.blocks and not tolerates(device_request.tolerations, taint):
                blocked[taint.key, taint.value, taint.effect] += 1
    for (key, taint_value, effect), _ in blocked.most_common(MAX_TAINTS):
        toleration = {"key": key, "operator": "Equal", "value": taint_value, "effect": effect}
        tolerations = [
            *device_request.tolerations,
            toleration if taint_value else toleration | {"operator": "Exists"},
        ]
        tolerations[-1] = {name: text for name, text in tolerations[-1].items() if text}
        relaxation = Relaxation(
            RelaxationKind.TOLERATION, device_request.result_name, taint=Taint(key, effect, taint_value)
        )
        yield RelaxationAttempt(relaxation, [_changed(spec, device_request, tolerations=tolerations)])


def find_relaxations(
    snapshot: ClusterSnapshot, spec: Json, claims: int = 1, baseline: Preview | None = None
) -> list[Relaxation]:
    """
    Return relaxations with which `claims` claims of `spec` fit, then those that add devices or nodes.

    Within each group the one that adds most comes first. `baseline` is the preview of `spec`, if it is known.
    At most `MAX_PREVIEWS` specs are previewed; a search that takes too long ends the attempts.
    """
    baseline = preview(snapshot, spec, claims) if baseline is None else baseline
    if baseline.reason in NOT_RELAXABLE:
        return []
    attempts = _Attempts(snapshot, claims, baseline)
    free_devices = reduce(
        or_, (funnel(snapshot, device_request).free for device_request in device_requests(spec)), 0
    )
    fitting = baseline.claims_that_fit or 0
    fewer = Relaxation(
        RelaxationKind.CLAIMS, current=str(claims), proposed=str(fitting), fits=True, spec=spec
    )
    relaxations = [
        relaxation
        for attempt in relaxation_attempts(snapshot, spec, free_devices)
        if (relaxation := attempts.relaxation(attempt))
    ]
    useful = [
        relaxation
        for relaxation in relaxations
        if relaxation.fits or relaxation.more_devices or relaxation.more_nodes
    ]
    return sorted(
        [*_without_redundant(useful), *([fewer] if 0 < fitting < claims else [])],
        key=lambda relaxation: (not relaxation.fits, -relaxation.more_devices, -relaxation.more_nodes),
    )


class _Attempts:
    """Previews of relaxed specs, up to `MAX_PREVIEWS`."""

    def __init__(self, snapshot: ClusterSnapshot, claims: int, baseline: Preview) -> None:
        self.snapshot, self.claims, self.baseline = snapshot, claims, baseline
        self.previews_left = MAX_PREVIEWS

    def relaxation(self, attempt: RelaxationAttempt) -> Relaxation | None:
        """Preview an attempt, for a count find the largest that fits; None if the result is unknown."""
        if len(attempt.specs) == 1:
            preview_result = self._preview(attempt.specs[0])
            return (
                None
                if preview_result is None
                else self._with_effect(attempt.relaxation, attempt.specs[0], preview_result)
            )
        # A claim that fits also fits with one device less, so bisection finds the largest count.
        low, high, best = 0, len(attempt.specs), None
        while low < high:
            middle = (low + high) // 2
            preview_result = self._preview(attempt.specs[middle])
            if preview_result is None:
                return None
            if preview_result.fits:
                best = self._with_effect(
                    attempt.relaxation, attempt.specs[middle], preview_result, proposed=str(middle + 1)
                )
                low = middle + 1
            else:
                high = middle
        return best

    def _preview(self, spec: Json) -> Preview | None:
        if not self.previews_left:
            return None
        self.previews_left -= 1
        result = preview(self.snapshot, spec, self.claims)
        if result.reason == NoFitReason.TOO_LONG:
            self.previews_left = 0
        return None if result.free is None or result.nodes_that_fit is None else result

    def _with_effect(
        self, relaxation: Relaxation, spec: Json, result: Preview, *, proposed: str = ""
    ) -> Relaxation:
        return replace(
            relaxation,
            spec=spec,
            proposed=proposed or relaxation.proposed,
            fits=result.fits and not self.baseline.fits,
            more_devices=max((result.free or 0) - (self.baseline.free or 0), 0),
            more_nodes=max((result.nodes_that_fit or 0) - (self.baseline.nodes_that_fit or 0), 0),
        )


def _without_redundant(relaxations: list[Relaxation]) -> list[Relaxation]:
    """Leave out dropping a condition where a weaker bound has the same effect."""
    lowered = {
        (relaxation.request, relaxation.condition): (relaxation.fits, relaxation.more_devices)
        for relaxation in relaxations
        if relaxation.kind == RelaxationKind.THRESHOLD
    }
    return [
        relaxation
        for relaxation in relaxations
        if relaxation.kind != RelaxationKind.CONDITION
        or lowered.get((relaxation.request, relaxation.condition))
        != (relaxation.fits, relaxation.more_devices)
    ]
