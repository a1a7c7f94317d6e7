"""
What the devices of a cluster publish, how many come as far as each selector, and what somebody may have
meant.

Which names the devices of a cluster publish, and which of them somebody may have meant.

Other ways to write an expression. What does not have one of the usual forms is left alone, so nothing here
has to be right: whoever uses it tries the result out.

The devices of a cluster, grouped by all that the expressions of a catalogue read of them.

Devices that agree in that get one verdict from every expression, so a fleet of thousands needs some dozen
evaluations per expression, and a set of groups is a column of the samples.

How the devices of a cluster come through the selectors of a class, and then of a request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from dra.cel import CelError, CompileError, NotPreviewable, Selector, compile_selector
from dra.cel.idioms import Comparison, Read, comparisons, quoted, reads, replaced
from dra.cel.selector import AttributeUse
from dra.cluster_snapshot import ClusterSnapshot
from dra.facts import Malformed, Ref, lookup, qualified, value
from dra.objects import DeviceRequest
from dra.pools import PoolDevice
from dra.quantity import Quantity
from dra.selector_results import DeviceMask, SelectorResults, evaluate_devices, full_mask, mask_indices
from dra.semver import Version

PARTS = ("attributes", "capacity")
KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string", Version: "version", Quantity: "quantity"}


class Published:
    """How many devices publish each name, by its full spelling."""

    def __init__(self, devices: Iterable[PoolDevice]) -> None:
        looks: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter(
            (one.driver, tuple(one.raw.get("attributes") or ()), tuple(one.raw.get("capacity") or ()))
            for one in devices
        )
        self.names: Counter[Ref] = Counter()
        for (driver, attributes, capacities), times in looks.items():
            for part, listed in zip(PARTS, (attributes, capacities), strict=True):
                for name in listed:
                    self.names[(part, *qualified(driver, name))] += times

    def has(self, ref: Ref) -> bool:
        return ref in self.names

    def closest(self, ref: Ref) -> Ref | None:
        """
        Return the name that was probably meant: a close one of the same domain, the same name elsewhere, or
        a close one anywhere. A capacity is only a capacity, save for a name that is spelled the same.
        """
        part, domain, name = ref
        other = "capacity" if part == "attributes" else "attributes"
        if (other, domain, name) in self.names:
            return (other, domain, name)
        of_part = [one for one in self.names if one[0] == part]
        here = {one[2].lower(): one for one in of_part if one[1] == domain}
        there = {one[1]: one for one in of_part if one[2] == name}
        elsewhere = {one[2].lower(): one for one in of_part if one[1] != domain}
        for wanted, known, cutoff in (
            (name.lower(), here, 0.7),
            (domain, there, 0.5),
            (name.lower(), elsewhere, 0.8),
        ):
            if close := get_close_matches(wanted, list(known), n=1, cutoff=cutoff):
                return known[close[0]]
        return None


def kinds_of(ref: Ref, devices: Iterable[PoolDevice]) -> Counter[str]:
    """Return how many of the devices publish a name as string, int, bool, version, list or quantity."""
    found: Counter[str] = Counter()
    for device in devices:
        try:
            seen = value(device, ref)
        except Malformed:
            continue
        if seen is not None:
            found[KINDS.get(type(seen), "list")] += 1
    return found


def spelled(ref: Ref) -> str:
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


def guarded(expression: str, kind_of: Callable[[Ref], str]) -> str:
    """Read with `.?name.orValue(…)` whatever is read plainly; `kind_of` tells the type of a name."""
    return replaced(
        expression,
        {
            read.whole: f"{read.table}.?{read.ref[2]}.orValue({DEFAULTS[kind_of(read.ref)]})"
            for read in _plain(expression)
        },
    )


def asked_first(expression: str) -> str:
    """Ask `has(…)` first for whatever is read plainly."""
    plain = [f"has({read.table}.{read.ref[2]})" for read in _plain(expression)]
    return " && ".join([*dict.fromkeys(plain), f"({expression})"])


def renamed(expression: str, wrong: Ref, right: Ref) -> str:
    """Read another attribute or capacity."""
    part, domain, name = right
    changes = {}
    for read in reads(expression):
        if read.ref == wrong:
            table = read.table if right[:2] == wrong[:2] else f"device.{part}[{quoted(domain)}]"
            plain = f"{table}{'.?' if read.optional else '.'}{name}"
            changes[read.whole] = f"has({plain})" if read.has else plain
    return replaced(expression, changes)


def methods(expression: str) -> str:
    """Write `a.compareTo(b) >= 0` for `a >= b`, which quantities and versions do not have."""
    return replaced(
        expression,
        {
            one.whole: f"{one.left}.compareTo({one.right}) {one.sign} 0"
            for one in comparisons(expression)
            if one.operator and one.kind in ("quantity", "version")
        },
    )


def equalities(expression: str) -> list[tuple[Ref, Comparison]]:
    """Return what is compared by `==` with a string, a number, true or false."""
    return [
        (one.ref, one)
        for one in comparisons(expression)
        if one.ref and one.operator and one.sign == "==" and one.kind in ("string", "int", "bool")
    ]


def as_kind(expression: str, equality: Comparison, wanted: str) -> str:
    """Compare with a literal of another kind."""
    left = equality.access
    if equality.left != equality.access:
        left += f".orValue({DEFAULTS[wanted]})"
    text = equality.wanted
    written = {
        "string": f"{left} == {quoted(text)}",
        "version": f"{left}.compareTo(semver({quoted(full_version(text))})) == 0",
        "quantity": f"{left}.compareTo(quantity({quoted(text)})) == 0",
    }.get(wanted, f"{left} == {text}")
    return replaced(expression, {equality.whole: written})


def full_version(text: str) -> str:
    """Return "9.0.0" for "9.0": a semantic version has three numbers."""
    return text + ".0" * max(0, 2 - text.count(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else text


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
    """Groups of alike devices of one picture. Use it for one run: it is not safe for several threads."""

    def __init__(self, snapshot: ClusterSnapshot, expressions: Iterable[str], published: Published) -> None:
        self.snapshot = snapshot
        self.every = snapshot.devices
        self._cached_results: dict[str, SelectorResults] = {}
        self._by_node: dict[int, Counter[str]] = {}
        refs: set[Ref] = set()
        self._whole = False
        for expression in expressions:
            reading = self._reading(expression) or self._reading(methods(expression))
            if reading is None:
                continue
            refs |= reading.refs
            self._whole = self._whole or bool(reading.names or reading.whole)
        meant = {published.closest(ref) for ref in refs if not published.has(ref)}
        refs |= {ref for ref in meant if ref is not None}
        self._refs = refs
        by_look: dict[Hashable, list[int]] = {}
        for place, device in enumerate(self.every):
            by_look.setdefault(self._look(device), []).append(place)
        self.places: Sequence[list[int]] = list(by_look.values())
        self.samples = [self.every[group[0]] for group in self.places]
        self.all: Groups = full_mask(len(self.places))

    def _look(self, device: PoolDevice) -> Hashable:
        raw, driver = device.raw, device.driver
        if self._whole:
            return driver, device.shareable, repr(raw.get("attributes")), repr(raw.get("capacity"))
        seen = (repr(lookup(raw.get(part) or {}, driver, domain, name)) for part, domain, name in self._refs)
        return driver, device.shareable, *seen

    def numbers(self, groups: Groups) -> Iterator[int]:
        """Return the numbers of the groups in the set."""
        return mask_indices(groups, len(self.places))

    def count(self, groups: Groups) -> int:
        """Return how many devices the groups have."""
        return sum(len(self.places[number]) for number in self.numbers(groups))

    def devices(self, groups: Groups) -> Iterator[PoolDevice]:
        for number in self.numbers(groups):
            for place in self.places[number]:
                yield self.every[place]

    def by_node(self, number: int) -> Counter[str]:
        """Return how many devices of a group are local to each node; "" counts those that several reach."""
        known = self._by_node.get(number)
        if known is None:
            known = Counter([self.every[place].node_name for place in self.places[number]])
            self._by_node[number] = known
        return known

    def results(self, expression: str) -> SelectorResults:
        """Raise `CompileError` or `NotPreviewable` for what cannot be evaluated here."""
        known = self._cached_results.get(expression)
        if known is None:
            known = self._cached_results[expression] = self._evaluate(
                compile_selector(expression, self.snapshot.features)
            )
        return known

    def _evaluate(self, selector: Selector) -> SelectorResults:
        found = evaluate_devices(selector, self.samples, list(selector.shapes(self.samples)))
        for error in found.errors.values():
            if isinstance(error, NotPreviewable):
                raise error
        return found

    def try_out(self, expression: str) -> SelectorResults | None:
        """Return what another expression says, None if it cannot be used or reads what was not foreseen."""
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
    """One selector, and the groups of devices that come as far as it."""

    label: str  # "Selector 2 of request gpu"
    path: str
    expression: str
    reaching: Groups
    judged: SelectorResults | None = None
    error: CelError | None = None  # why it says nothing about any device

    @property
    def accepted(self) -> Groups:
        return self.reaching & self.judged.mask if self.judged else 0

    @property
    def failed(self) -> Groups:
        return self.reaching & self.judged.failed_mask if self.judged else 0


@dataclass(slots=True)
class Passage:
    """All selectors of one request, those of its class first. `known` is False if one cannot be evaluated."""

    ask: DeviceRequest
    of_class: list[SelectorStage] = field(default_factory=list)
    of_request: list[SelectorStage] = field(default_factory=list)
    accepted: Groups = 0
    class_missing: bool = False

    @property
    def known(self) -> bool:
        stages = [*self.of_class, *self.of_request]
        return not self.class_missing and all(stage.error is None for stage in stages)


def stages_of(
    population: Population, expressions: Sequence[str], reaching: Groups, path: str, owner: str
) -> list[SelectorStage]:
    """Run the expressions one after the other; one that cannot be evaluated lets everything through."""
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


def passage(population: Population, ask: DeviceRequest) -> Passage:
    """Run class and request."""
    made = Passage(ask)
    reaching = population.all
    try:
        expressions = population.snapshot.class_expressions(ask.class_name)
    except KeyError:
        made.class_missing = True
        return made
    made.of_class = stages_of(population, expressions, reaching, "", f"class {ask.class_name}")
    reaching = _counters_left(made.of_class, reaching)
    owner, path = f"request {ask.result_name}", f"{ask.path}."
    made.of_request = stages_of(population, ask.expressions, reaching, path, owner)
    made.accepted = _counters_left(made.of_request, reaching)
    return made


def with_other(made: Passage, stage: SelectorStage, judged: SelectorResults) -> Groups:
    """Return what the request would accept if one of its own selectors gave another verdict."""
    left = made.of_request[0].reaching
    for one in made.of_request:
        verdict = judged if one is stage else one.judged
        left = left if verdict is None else left & verdict.mask
    return left


def _counters_left(stages: Sequence[SelectorStage], reaching: Groups) -> Groups:
    for stage in stages:
        reaching = stage.accepted if stage.judged else reaching
    return reaching
