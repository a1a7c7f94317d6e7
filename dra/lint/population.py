"""
Device groups of a cluster and the published names, for checks of selectors; and rewrites of expressions.

Devices are grouped by the values that the expressions of a catalogue read, so a fleet of thousands needs some
dozen evaluations per expression. Rewrites handle the common forms of conditions; callers evaluate the result
before they propose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from dra.attributes import Malformed, Ref, Version, lookup, qualified, value
from dra.cel import CelError, CompileError, NotPreviewable, Selector, compile_selector
from dra.cel.idioms import LiteralComparison, Read, compared, comparisons, methods, quoted, reads, replaced
from dra.cel.selector import AttributeUse
from dra.cluster_snapshot import ClusterSnapshot
from dra.objects import DeviceRequest
from dra.pools import PoolDevice
from dra.quantity import Quantity
from dra.selector_results import DeviceMask, SelectorResults, evaluate_devices, full_mask, mask_indices
from dra.validation import suggested_selector

PARTS = ("attributes", "capacity")
KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string", Version: "version", Quantity: "quantity"}


class Published:
    """Number of devices that publish each qualified name."""

    def __init__(self, devices: Iterable[PoolDevice]) -> None:
        shapes: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter(
            (
                device.driver,
                tuple(device.raw.get("attributes") or ()),
                tuple(device.raw.get("capacity") or ()),
            )
            for device in devices
        )
        self.names: Counter[Ref] = Counter()
        for (driver, attributes, capacities), number in shapes.items():
            for part, listed in zip(PARTS, (attributes, capacities), strict=True):
                for name in listed:
                    self.names[(part, *qualified(driver, name))] += number

    def has(self, ref: Ref) -> bool:
        return ref in self.names

    def closest(self, ref: Ref) -> Ref | None:
        """
        Return the published name that was probably meant: a similar one in the same domain, the same name in
        another domain, or a similar one in any domain. Only an equal name may be of the other part.
        """
        part, domain, name = ref
        other_part = "capacity" if part == "attributes" else "attributes"
        if (other_part, domain, name) in self.names:
            return (other_part, domain, name)
        of_part = [published_ref for published_ref in self.names if published_ref[0] == part]
        same_domain = {
            published_ref[2].lower(): published_ref for published_ref in of_part if published_ref[1] == domain
        }
        same_name = {published_ref[1]: published_ref for published_ref in of_part if published_ref[2] == name}
        other_domains = {
            published_ref[2].lower(): published_ref for published_ref in of_part if published_ref[1] != domain
        }
        for text, candidates, cutoff in (
            (name.lower(), same_domain, 0.7),
            (domain, same_name, 0.5),
            (name.lower(), other_domains, 0.8),
        ):
            if close := get_close_matches(text, list(candidates), n=1, cutoff=cutoff):
                return candidates[close[0]]
        return None


def published_kinds(ref: Ref, devices: Iterable[PoolDevice]) -> Counter[str]:
    """Return the number of devices per type of a name: string, int, bool, version, list or quantity."""
    kinds: Counter[str] = Counter()
    for device in devices:
        try:
            published_value = value(device, ref)
        except Malformed:
            continue
        if published_value is not None:
            kinds[KINDS.get(type(published_value), "list")] += 1
    return kinds


def qualified_name(ref: Ref) -> str:
    """Return "attribute gpu.nvidia.com/profile"."""
    return f"{'attribute' if ref[0] == 'attributes' else 'capacity'} {ref[1]}/{ref[2]}"


DEFAULTS = {
    "string": '""',
    "int": "0",
    "bool": "false",
    "version": 'semver("0.0.0")',
    "quantity": 'quantity("0")',
}
GIB, MIB = 2**30, 2**20


def guarded(expression: str, usual_kind: Callable[[Ref], str]) -> str:
    """Add `.?name.orValue(…)` to plain reads; `kind_of` returns the type of a name."""
    return replaced(
        expression,
        {
            read.span: f"{read.table}.?{read.ref[2]}.orValue({DEFAULTS[usual_kind(read.ref)]})"
            for read in _plain(expression)
        },
    )


def with_presence_tests(expression: str) -> str:
    """Add `has(…)` for plain reads in front."""
    plain = [f"has({read.table}.{read.ref[2]})" for read in _plain(expression)]
    return " && ".join([*dict.fromkeys(plain), f"({expression})"])


def renamed(expression: str, wrong: Ref, right: Ref) -> str:
    """Replace an attribute or capacity by another."""
    part, domain, name = right
    changes = {}
    for read in reads(expression):
        if read.ref == wrong:
            table = read.table if right[:2] == wrong[:2] else f"device.{part}[{quoted(domain)}]"
            plain = f"{table}{'.?' if read.optional else '.'}{name}"
            changes[read.span] = f"has({plain})" if read.has else plain
    return replaced(expression, changes)


def literals(expression: str) -> list[tuple[Ref, LiteralComparison]]:
    """Return comparisons by an operator with a string, a number or a boolean."""
    return [
        (comparison.ref, comparison)
        for comparison in comparisons(expression)
        if comparison.ref and comparison.operator and comparison.kind in ("string", "int", "bool")
    ]


def as_kind(expression: str, literal: LiteralComparison, kind: str) -> str:
    """Compare with a literal of another type."""
    left = literal.access
    if literal.left != literal.access:
        left += f".orValue({DEFAULTS[kind]})"
    return replaced(expression, {literal.span: compared(left, literal.sign, literal.expected, kind)})


def below(amount: Quantity) -> str:
    """Return the next round amount at or below: 79Gi for 81559Mi."""
    unit, suffix = (GIB, "Gi") if amount.bytes >= 20 * GIB else (MIB, "Mi")
    if amount.bytes < MIB:
        return str(amount)
    return f"{amount.bytes // unit}{suffix}"


def _plain(expression: str) -> list[Read]:
    return [read for read in reads(expression) if not read.has and not read.optional]


type Groups = DeviceMask


class Population:
    """Groups of equivalent devices of one snapshot, for one run. Not safe for threads."""

    def __init__(self, snapshot: ClusterSnapshot, expressions: Iterable[str], published: Published) -> None:
        self.snapshot = snapshot
        self.pool_devices = snapshot.devices
        self._cached_results: dict[str, SelectorResults] = {}
        self._by_node: dict[int, Counter[str]] = {}
        refs: set[Ref] = set()
        self._whole = False
        for expression in expressions:
            reading = self._reading(expression) or self._reading(
                suggested_selector(expression) or methods(expression)
            )
            if reading is None:
                continue
            refs |= reading.refs
            self._whole = self._whole or bool(reading.names or reading.whole)
        closest_names = {published.closest(ref) for ref in refs if not published.has(ref)}
        refs |= {ref for ref in closest_names if ref is not None}
        self._refs = refs
        by_shape: dict[Hashable, list[int]] = {}
        for index, device in enumerate(self.pool_devices):
            by_shape.setdefault(self._shape(device), []).append(index)
        self.device_indices: Sequence[list[int]] = list(by_shape.values())
        self.samples = [self.pool_devices[group[0]] for group in self.device_indices]
        self.all: Groups = full_mask(len(self.device_indices))

    def _shape(self, device: PoolDevice) -> Hashable:
        raw, driver = device.raw, device.driver
        if self._whole:
            return driver, device.shareable, repr(raw.get("attributes")), repr(raw.get("capacity"))
        values = (
            repr(lookup(raw.get(part) or {}, driver, domain, name)) for part, domain, name in self._refs
        )
        return driver, device.shareable, *values

    def numbers(self, groups: Groups) -> Iterator[int]:
        """Yield the numbers of the groups in the set."""
        return mask_indices(groups, len(self.device_indices))

    def count(self, groups: Groups) -> int:
        """Return the number of devices in the groups."""
        return sum(len(self.device_indices[number]) for number in self.numbers(groups))

    def devices(self, groups: Groups) -> Iterator[PoolDevice]:
        for number in self.numbers(groups):
            for index in self.device_indices[number]:
                yield self.pool_devices[index]

    def by_node(self, number: int) -> Counter[str]:
        """Return the number of a group's devices per node; "" counts those that multiple nodes reach."""
        counts = self._by_node.get(number)
        if counts is None:
            counts = Counter([self.pool_devices[index].node_name for index in self.device_indices[number]])
            self._by_node[number] = counts
        return counts

    def results(self, expression: str) -> SelectorResults:
        """Return the results of an expression. Raise `CompileError` or `NotPreviewable`."""
        results = self._cached_results.get(expression)
        if results is None:
            results = self._cached_results[expression] = self._evaluate(
                compile_selector(expression, self.snapshot.features)
            )
        return results

    def _evaluate(self, selector: Selector) -> SelectorResults:
        results = evaluate_devices(selector, self.samples, list(selector.shapes(self.samples)))
        for error in results.errors.values():
            if isinstance(error, NotPreviewable):
                raise error
        return results

    def try_out(self, expression: str) -> SelectorResults | None:
        """Return the results of a rewrite, None if it is invalid or reads other attributes."""
        try:
            selector = compile_selector(expression, self.snapshot.features)
            reading = selector.reading
            foreseen = not (reading.names or reading.whole) and reading.refs <= self._refs
            return self._evaluate(selector) if self._whole or foreseen else None
        except (CompileError, NotPreviewable):
            return None

    def _reading(self, expression: str) -> AttributeUse | None:
        try:
            return compile_selector(expression, self.snapshot.features).reading
        except CelError:
            return None


@dataclass(frozen=True, slots=True)
class SelectorStage:
    """One selector, and the groups of devices that reach it."""

    label: str  # "Selector 2 of request gpu"
    path: str
    expression: str
    reaching: Groups
    results: SelectorResults | None = None
    error: CelError | None = None  # if the expression is invalid

    @property
    def accepted(self) -> Groups:
        return self.reaching & self.results.mask if self.results else 0

    @property
    def failed(self) -> Groups:
        return self.reaching & self.results.failed_mask if self.results else 0


@dataclass(slots=True)
class RequestResult:
    """The selectors of one request, those of its class first. `known` is False if one is not evaluable."""

    request: DeviceRequest
    of_class: list[SelectorStage] = field(default_factory=list)
    of_request: list[SelectorStage] = field(default_factory=list)
    accepted: Groups = 0
    class_missing: bool = False

    @property
    def known(self) -> bool:
        stages = [*self.of_class, *self.of_request]
        return not self.class_missing and all(stage.error is None for stage in stages)


def selector_stages(
    population: Population, expressions: Sequence[str], reaching: Groups, path: str, owner: str
) -> list[SelectorStage]:
    """Evaluate the expressions in order; one that cannot be evaluated accepts all devices."""
    stages = []
    for number, expression in enumerate(expressions):
        label = f"Selector {number + 1} of {owner}" if len(expressions) > 1 else f"The selector of {owner}"
        where = f"{path}selectors[{number}].cel.expression"
        try:
            stage = SelectorStage(label, where, expression, reaching, population.results(expression))
            reaching = stage.accepted
        except CelError as error:
            stage = SelectorStage(label, where, expression, reaching, error=error)
        stages.append(stage)
    return stages


def match_request(population: Population, request: DeviceRequest) -> RequestResult:
    """Evaluate the selectors of the class and of the request."""
    result = RequestResult(request)
    reaching = population.all
    try:
        expressions = population.snapshot.class_expressions(request.class_name)
    except KeyError:
        result.class_missing = True
        return result
    result.of_class = selector_stages(population, expressions, reaching, "", f"class {request.class_name}")
    reaching = _remaining(result.of_class, reaching)
    owner, path = f"request {request.result_name}", f"{request.path}."
    result.of_request = selector_stages(population, request.expressions, reaching, path, owner)
    result.accepted = _remaining(result.of_request, reaching)
    return result


def accepted_with(request_result: RequestResult, stage: SelectorStage, results: SelectorResults) -> Groups:
    """Return the devices that the request accepts with other results of one of its selectors."""
    left = request_result.of_request[0].reaching
    for own_stage in request_result.of_request:
        stage_results = results if own_stage is stage else own_stage.results
        left = left if stage_results is None else left & stage_results.mask
    return left


def _remaining(stages: Sequence[SelectorStage], reaching: Groups) -> Groups:
    for stage in stages:
        reaching = stage.accepted if stage.results else reaching
    return reaching
