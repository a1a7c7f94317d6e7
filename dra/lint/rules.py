"""
The rules of the check: one selector on the devices that reach it, then whole specs.

- Selectors: whether each can be true, and which conditions no device meets.
- Room: whether one node has enough devices if all of them are free. A device that multiple nodes reach counts
  for each of them; specs that match shareable devices are skipped, as one can serve multiple requests.
- Thresholds that miss devices by rounding: an “80 GB” H100 publishes 81559Mi, which is 79.6 GiB.
- Tolerations without an effect: a pod is scheduled to a device with a NoExecute taint, but only effect
  NoExecute prevents eviction (pkg/controller/devicetainteviction), so the pod is deleted at once.
- Duplicates: profiles that request the same as another.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dra.attributes import Malformed, Ref, value
from dra.cel import CompileError, compile_selector
from dra.cel.idioms import LiteralComparison, comparisons, quoted, replaced
from dra.device_index import MISSING
from dra.lint import population
from dra.lint import population as rewrite
from dra.lint.population import (
    Groups,
    Population,
    Published,
    RequestResult,
    SelectorStage,
    accepted_with,
    published_kinds,
    qualified_name,
)
from dra.lint.report import Fix, LintCode, LintFinding, NamedSpec, Severity, Subject
from dra.manifests import canonical, spec_hash
from dra.objects import Json, constraints
from dra.quantity import Quantity, QuantityError
from dra.selector_results import SelectorResults
from dra.taints import tolerates
from dra.validation import suggested_selector

UNLIKE = "no such overload"  # CEL's error for different types


@dataclass(frozen=True, slots=True)
class SelectorChecker:
    """Checks the selectors of one class or profile."""

    population: Population
    published: Published
    subject: Subject
    name: str

    def found(
        self, code: LintCode, severity: Severity, message: str, path: str = "", fix: Fix | None = None
    ) -> LintFinding:
        return LintFinding(self.subject, self.name, code, severity, message, path, fix)

    def selector(self, stage: SelectorStage) -> Iterator[LintFinding]:
        """Yield the findings of a stage, the worst first."""
        if stage.error is not None:
            yield self._unusable(stage)
            return
        if not stage.reaching:
            return  # no device reaches it
        unknown = [ref for ref in sorted(self._refs(stage)) if not self.published.has(ref)]
        if stage.failed:
            yield self._fails(stage, guard=not unknown)
        for ref in unknown:
            yield self._not_published(stage, ref)
        yield from self._unlike_literals(stage)

    def _unusable(self, stage: SelectorStage) -> LintFinding:
        assert stage.error is not None  # the caller has checked  # noqa: S101
        if not isinstance(stage.error, CompileError):
            message = f"{stage.label} cannot be evaluated by the portal: {stage.error.message}"
            return self.found(LintCode.NOT_PREVIEWABLE, Severity.NOTE, message, stage.path)
        message = f"{stage.label} is rejected by the API server: {stage.error.message}"
        fix = self.fix(stage, suggested_selector(stage.expression))
        return self.found(LintCode.DOES_NOT_COMPILE, Severity.ERROR, message, stage.path, fix)

    def _fails(self, stage: SelectorStage, *, guard: bool) -> LintFinding:
        assert stage.results is not None  # it failed on a device  # noqa: S101
        population = self.population
        number = next(population.numbers(stage.failed))
        error, device = stage.results.errors[number].message, population.samples[number]
        message = (
            f"{stage.label} fails on {population.count(stage.failed)} of the "
            f"{devices(population.count(stage.reaching))} that it is applied to, "
            f"for example {device}: {error}. "
            "The scheduler rejects every pod for which it evaluates such a device, on any node."
        ).replace("..", ".")
        if UNLIKE in error:
            types = self._types(stage)
            message += f" It compares different types: {types}." if types else ""
            fix = self._retyped(stage)
            return self.found(LintCode.WRONG_TYPE, Severity.ERROR, message, stage.path, fix)
        # An unpublished name needs another name, not a guard: the next finding proposes it.
        fix = self._guarded(stage) if guard else None
        return self.found(LintCode.SELECTOR_FAILS, Severity.ERROR, message, stage.path, fix)

    def _types(self, stage: SelectorStage) -> str:
        kinds = {ref: self.usual_kind(ref, stage.failed) for ref in sorted(self._refs(stage))}
        return ", ".join(
            f"{qualified_name(ref)} is published as {kind}" for ref, kind in kinds.items() if kind
        )

    def usual_kind(self, ref: Ref, groups: Groups | None = None) -> str:
        """Return the most frequent type of a name, "" if no device publishes it."""
        relevant = self.population.all if groups is None else groups
        samples = (self.population.samples[number] for number in self.population.numbers(relevant))
        return next((kind for kind, _ in published_kinds(ref, samples).most_common(1)), "")

    def _default_kind(self, ref: Ref) -> str:
        kind = self.usual_kind(ref)
        return kind if kind in rewrite.DEFAULTS else "quantity" if ref[0] == "capacity" else "string"

    def _guarded(self, stage: SelectorStage) -> Fix | None:
        """Return a fix that rejects devices without the attributes and keeps the other results."""

        def keeps(judged: SelectorResults) -> bool:
            sound = stage.reaching & ~stage.failed
            return judged.mask & stage.reaching == stage.accepted & sound

        for text in (
            rewrite.guarded(stage.expression, self._default_kind),
            rewrite.with_presence_tests(stage.expression),
        ):
            if fix := self.fix(stage, text, keeps):
                return fix
        return None

    def _retyped(self, stage: SelectorStage) -> Fix | None:
        for ref, literal in rewrite.literals(stage.expression):
            published = self.usual_kind(ref, stage.failed)
            if published in rewrite.DEFAULTS and published != literal.kind:
                return self.fix(stage, rewrite.as_kind(stage.expression, literal, published))
        return None

    def _not_published(self, stage: SelectorStage, ref: Ref) -> LintFinding:
        message = f"{stage.label} reads {qualified_name(ref)}, which no device of the cluster publishes."
        fix = None
        if meant := self.published.closest(ref):
            message += f" {devices(self.published.names[meant])} publish {qualified_name(meant)}."
            text = rewrite.renamed(stage.expression, ref, meant)
            fix = self.fix(stage, text, lambda judged: bool(judged.mask & stage.reaching))
        return self.found(LintCode.NOT_PUBLISHED, Severity.WARNING, message, stage.path, fix)

    def _unlike_literals(self, stage: SelectorStage) -> Iterator[LintFinding]:
        """Yield `==` between different types, which is never true and no CEL error."""
        for ref, equality in rewrite.literals(stage.expression) if not stage.failed else ():
            published = self.usual_kind(ref, stage.reaching)
            if equality.sign != "==" or published not in rewrite.DEFAULTS or published == equality.kind:
                continue
            message = (
                f"{stage.label} compares {qualified_name(ref)} with the {equality.kind} {equality.expected}, "
                f"but devices publish it as {published}: they are never equal."
            )
            fix = self.fix(stage, rewrite.as_kind(stage.expression, equality, published))
            yield self.found(LintCode.WRONG_TYPE, Severity.ERROR, message, stage.path, fix)

    def fix(
        self, stage: SelectorStage, text: str, holds: Callable[[SelectorResults], bool] = lambda judged: True
    ) -> Fix | None:
        """Return the expression as a fix if it fails on no device that reaches the stage, and `holds`."""
        if text == stage.expression or (judged := self.population.try_out(text)) is None:
            return None
        sound = not judged.failed_mask & stage.reaching and holds(judged)
        return Fix(stage.path, stage.expression, text) if sound else None

    def _refs(self, stage: SelectorStage) -> set[Ref]:
        return compile_selector(stage.expression, self.population.snapshot.features).reading.refs


def devices(number: int) -> str:
    return "1 device" if number == 1 else f"{number} devices"


TIMEOUT_DEVICES = 24  # with one more requested, the search of Kubernetes 1.37.1 times out


def room_findings(
    checker: SelectorChecker, named: NamedSpec, passages: Sequence[RequestResult]
) -> Iterator[LintFinding]:
    """Yield requests and constraints that no node can satisfy."""
    population = checker.population
    crowded = False
    for request_result in passages:
        request = request_result.request
        if (
            not request_result.known
            or not request_result.accepted
            or request.all
            or _shared(population, request_result.accepted)
        ):
            continue
        max_count = (
            max(request.count, named.max_count) if request.request == named.scalable else request.count
        )
        if max_count == 1:
            continue
        name, available = _largest(population, request_result.accepted)
        if request.count > available:
            crowded = True
            message = (
                f"Request {request.result_name} needs {devices(request.count)} on one node; no node has more "
                f"than {available} that match ({name} has)."
            )
            if available >= TIMEOUT_DEVICES:
                message += (
                    " The scheduler tries all combinations for 10 s before it gives up on the pod, and "
                    "schedules no other pod meanwhile."
                )
            yield checker.found(LintCode.TOO_MANY, Severity.ERROR, message, f"{request.path}.count")
        elif max_count > available:
            message = (
                f"The profile allows up to {devices(max_count)} per claim, but no node has more than "
                f"{available} that match ({name} has)."
            )
            yield checker.found(LintCode.LIMIT_TOO_HIGH, Severity.NOTE, message, f"{request.path}.count")
    if not crowded:
        for number, constraint in enumerate(constraints(named.spec)):
            yield from _constraint(checker, number, constraint, passages)


def _constraint(
    checker: SelectorChecker, number: int, constraint: Json, passages: Sequence[RequestResult]
) -> Iterator[LintFinding]:
    attribute = str(constraint.get("matchAttribute") or constraint.get("distinctAttribute") or "")
    names = constraint.get("requests") or ()
    bound = [
        bound_passage
        for bound_passage in passages
        if not names or {bound_passage.request.request, bound_passage.request.result_name} & {*names}
    ]
    population = checker.population
    accepted = 0
    for request_result in bound:
        accepted |= request_result.accepted
    if not attribute or not accepted or not all(request_result.known for request_result in bound):
        return
    needed = _needed(bound)
    values = population.snapshot.device_index.values(attribute)
    groups = _by_node(population, accepted, values)
    path = f"devices.constraints[{number}]"
    # Another alternative of the same request may have no constraint.
    free = {other_passage.request.request for other_passage in passages if other_passage not in bound} & {
        bound_passage.request.request for bound_passage in bound
    }
    severity = Severity.NOTE if free else Severity.ERROR
    if not groups:
        reason = f"none of the {devices(population.count(accepted))} that match publish it"
        message = f"The constraint uses {attribute}, but {reason}, so no device can be allocated."
        closest_name = checker.published.closest(("attributes", *_split(attribute)))
        if closest_name and closest_name[0] == "attributes":
            number_of_devices = checker.published.names[closest_name]
            message += f" {devices(number_of_devices)} publish {closest_name[1]}/{closest_name[2]}."
        yield checker.found(LintCode.CONSTRAINT, severity, message, path)
        return
    if _shared(population, accepted):
        return
    together = bool(constraint.get("matchAttribute"))
    best = {node: max(counts.values()) if together else len(counts) for node, counts in groups.items()}
    name, available = max(best.items(), key=lambda entry: entry[1])
    if needed > available:
        message = (
            f"The claim needs {needed} devices with {'the same' if together else 'different'} {attribute}; "
            f"no node has more than {available} ({name} has)."
        )
        yield checker.found(LintCode.CONSTRAINT, severity, message, path)


def _needed(passages: Sequence[RequestResult]) -> int:
    """Return the minimum number of devices to which a constraint on these requests applies."""
    min_counts: dict[str, int] = {}
    for request_result in passages:
        request = request_result.request
        count = 1 if request.all else request.count
        min_counts[request.request] = min(min_counts.get(request.request, count), count)
    return sum(min_counts.values())


def _by_node(population: Population, groups: Groups, values: Sequence[int]) -> Mapping[str, Counter[int]]:
    """Return the number of devices per value, by node; devices without a value do not count."""
    by_node: dict[str, Counter[int]] = defaultdict(Counter)
    shared_nodes: Counter[int] = Counter()
    for number in population.numbers(groups):
        for index in population.device_indices[number]:
            if (number_of_value := values[index]) != MISSING:
                node = population.pool_devices[index].node_name
                (by_node[node] if node else shared_nodes)[number_of_value] += 1
    for counted in by_node.values():
        counted.update(shared_nodes)
    return by_node or ({"any node": shared_nodes} if shared_nodes else {})


def _largest(population: Population, groups: Groups) -> tuple[str, int]:
    """Return the node with most of the devices, and their number."""
    counted: Counter[str] = Counter()
    for number in population.numbers(groups):
        counted.update(population.by_node(number))
    shared_nodes = counted.pop("", 0)
    name, number_of_devices = max(
        counted.items(), key=lambda entry: (entry[1], entry[0]), default=("any node", 0)
    )
    return name, number_of_devices + shared_nodes


def _shared(population: Population, groups: Groups) -> bool:
    return any(population.samples[number].shareable for number in population.numbers(groups))


def _split(attribute: str) -> tuple[str, str]:
    domain, _, name = attribute.rpartition("/")
    return domain, name


MARGIN = 20  # values up to 1/20 below the threshold count as missed


def missed_thresholds(checker: SelectorChecker, request_result: RequestResult) -> Iterator[LintFinding]:
    """Yield a finding per threshold of the request that devices miss by at most 5 %."""
    for stage in request_result.of_request:
        for comparison, ref, threshold in _thresholds(stage.expression) if stage.results else ():
            nearest = _nearest(checker, stage.reaching & ~stage.accepted, ref, threshold)
            if nearest is None:
                continue
            text = population.below(nearest)
            lower = replaced(stage.expression, {comparison.literal: quoted(text)})
            results = checker.population.try_out(lower)
            gained = (
                accepted_with(request_result, stage, results) & ~request_result.accepted if results else 0
            )
            if not gained:
                continue
            number = checker.population.count(gained)
            message = (
                f"{stage.label} requires {ref[2]} of at least {threshold}; {devices(number)} that otherwise "
                f"{'matches publishes' if number == 1 else 'match publish'} {nearest}{_in_gib(nearest)}, for "
                f"example {next(checker.population.devices(gained))}. Use {text}."
            )
            fix = checker.fix(stage, lower)
            yield checker.found(LintCode.JUST_MISSED, Severity.WARNING, message, stage.path, fix)


def _thresholds(expression: str) -> Iterator[tuple[LiteralComparison, Ref, Quantity]]:
    for comparison in comparisons(expression):
        if comparison.ref and comparison.kind == "quantity" and comparison.sign in (">=", ">"):
            with suppress(QuantityError):
                yield comparison, comparison.ref, Quantity.parse(comparison.expected)


def _nearest(checker: SelectorChecker, groups: Groups, ref: Ref, threshold: Quantity) -> Quantity | None:
    """Return the largest amount of the groups below the threshold, if it is close."""
    amounts = []
    for number in checker.population.numbers(groups):
        try:
            published = value(checker.population.samples[number], ref)
        except Malformed:
            continue
        if isinstance(published, Quantity) and published < threshold:
            amounts.append(published)
    nearest = max(amounts, default=None)
    close = nearest is not None and nearest.nano * (MARGIN + 1) >= threshold.nano * MARGIN
    return nearest if close else None


def _in_gib(amount: Quantity) -> str:
    return f" ({amount.bytes / population.GIB:.2f} GiB)" if amount.bytes >= population.GIB else ""


def evicting_tolerations(checker: SelectorChecker, request_result: RequestResult) -> Iterator[LintFinding]:
    """Yield tolerations without an effect: a warning if a matching device has such a taint, else a note."""
    lasting = [other for other in request_result.request.tolerations if other.get("effect") == "NoExecute"]
    for number, toleration in enumerate(request_result.request.tolerations):
        if toleration.get("effect"):
            continue
        if any(_covers(other, toleration) for other in lasting):
            continue
        message = (
            f"Request {request_result.request.result_name} tolerates "
            f"{toleration.get('key') or 'every taint'} without an effect: a pod is scheduled to a device "
            "with such a NoExecute taint, and evicted at once. Effect NoSchedule avoids these devices; a "
            "second toleration with effect NoExecute keeps the pod running."
        )
        tainted = _tainted(checker, request_result, toleration)
        if tainted:
            message += f" {tainted} matching {'device has' if tainted == 1 else 'devices have'} one now."
        severity = Severity.WARNING if tainted else Severity.NOTE
        path = f"{request_result.request.path}.tolerations[{number}].effect"
        yield checker.found(LintCode.EVICTED, severity, message, path)


def _tainted(checker: SelectorChecker, request_result: RequestResult, toleration: Json) -> int:
    """Return the number of matching devices with a NoExecute taint that the toleration covers."""
    return sum(
        any(taint.effect == "NoExecute" and tolerates([toleration], taint) for taint in device.taints)
        for device in checker.population.devices(request_result.accepted)
    )


def _covers(wide: Json, narrow: Json) -> bool:
    """Return whether one toleration covers every key and value that the other covers."""
    if wide.get("key") and wide["key"] != narrow.get("key"):
        return False
    if wide.get("operator") == "Exists":
        return True
    return narrow.get("operator") != "Exists" and (wide.get("value") or "") == (narrow.get("value") or "")


def duplicates(
    specs: Sequence[NamedSpec], passages: Mapping[str, Sequence[RequestResult]]
) -> Iterator[LintFinding]:
    """Yield a finding per profile that equals an earlier one, in its spec or in its devices."""
    by_hash: dict[str, str] = {}
    by_devices: dict[str, str] = {}
    for named in specs:
        digest = spec_hash(named.spec)
        if earlier := by_hash.get(digest):
            message = f"The spec equals that of {earlier}."
            yield LintFinding(Subject.PROFILE, named.name, LintCode.SAME_SPEC, Severity.WARNING, message)
            continue
        by_hash[digest] = named.name
        mark = _mark(named, passages[named.name])
        if mark and (earlier := by_devices.get(mark)):
            message = f"The spec differs from that of {earlier}, but requests the same devices."
            yield LintFinding(Subject.PROFILE, named.name, LintCode.SAME_DEVICES, Severity.NOTE, message)
        elif mark:
            by_devices[mark] = named.name


def _mark(named: NamedSpec, passages: Sequence[RequestResult]) -> str:
    """Return a key of the requested devices, independent of how selectors are written; "" if none match."""
    if not passages or not all(
        request_result.known and request_result.accepted for request_result in passages
    ):
        return ""
    canonical_devices = canonical(named.spec)["devices"]
    rest = {"constraints": canonical_devices.get("constraints"), "config": canonical_devices.get("config")}
    named_otherwise = ("selectors", "deviceClassName", "count")
    request_marks = [
        {key: value for key, value in request_result.request.raw.items() if key not in named_otherwise}
        | {
            "count": request_result.request.count,
            "of": hex(request_result.accepted),
            "request": request_result.request.request,
        }
        for request_result in passages
    ]
    return json.dumps([rest, request_marks], sort_keys=True, default=str)
