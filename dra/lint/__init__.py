"""
What is wrong with a catalogue, on the devices that a cluster really has.

A profile that is right today breaks when the fleet changes: a class goes, a driver publishes under another
name, the GPUs that it was written for are replaced. Whoever asks for it then waits for ever, and the
scheduler tells nobody why. So the whole catalogue is checked against what the cluster publishes, held devices
and free ones alike: findings are about what could ever be, not about what is free now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from dra.cluster_snapshot import ClusterSnapshot
from dra.devices.vendors import vendor_by_driver
from dra.facts import Malformed, qualified, value
from dra.lint.population import Passage, Population, Published, passage, stages_of
from dra.lint.report import (
    DEPENDS_ON_CLUSTER,
    Fix,
    LintCode,
    LintFinding,
    LintReport,
    NamedSpec,
    Severity,
    Subject,
)
from dra.lint.rules import evicted_at_once, just_missed, room_findings, twins
from dra.lint.selectors import SelectorChecker, devices
from dra.objects import device_requests, expressions
from dra.pools import PoolDevice
from dra.validation import problems

__all__ = [
    "DEPENDS_ON_CLUSTER",
    "Fix",
    "LintCode",
    "LintFinding",
    "LintReport",
    "NamedSpec",
    "Severity",
    "Subject",
    "lint",
]


def lint(snapshot: ClusterSnapshot, specs: Sequence[NamedSpec]) -> LintReport:
    """
    Check the classes of the picture, and specs of claims, against its devices. Never raises for what they
    say.

    A cluster without devices says nothing about any of them: its report is empty.
    """
    if not snapshot.devices:
        return LintReport()
    every = [one for named in specs for ask in device_requests(named.spec) for one in ask.expressions]
    every += [one for found in snapshot.classes for one in expressions(found.get("spec") or {})]
    published = Published(snapshot.devices)
    population = Population(snapshot, every, published)
    findings: list[LintFinding] = []
    for name in sorted(snapshot.class_by_name):
        findings += _class(SelectorChecker(population, published, Subject.CLASS, name))
    passages: dict[str, list[Passage]] = {}
    for named in specs:
        made = passages[named.name] = [passage(population, ask) for ask in device_requests(named.spec)]
        findings += _profile(SelectorChecker(population, published, Subject.PROFILE, named.name), named, made)
    findings += twins(specs, passages)
    matching = {name: _matching(population, made) for name, made in passages.items()}
    return LintReport(findings, matching, len(snapshot.devices))


def _matching(population: Population, passages: Sequence[Passage]) -> int | None:
    if not all(made.known or made.class_missing for made in passages):
        return None
    accepted = 0
    for made in passages:
        accepted |= made.accepted
    return population.count(accepted)


def _class(checker: SelectorChecker) -> Iterator[LintFinding]:
    population, name = checker.population, checker.name
    stages = stages_of(
        population, population.snapshot.class_expressions(name), population.all, "", f"class {name}"
    )
    for stage in stages:
        yield from checker.selector(stage)
    if any(stage.error for stage in stages):
        return
    accepted = stages[-1].accepted if stages else population.all
    if not accepted:
        message = f"None of the {devices(population.count(population.all))} of the cluster is in the class."
        yield checker.found(LintCode.MATCHES_NOTHING, Severity.NOTE, message)
    elif accepted == population.all and (drivers := _drivers(population)) > 1:
        number = devices(population.count(accepted))
        message = f"All {number} of {drivers} drivers are in the class: a claim may get any of them."
        yield checker.found(LintCode.MATCHES_EVERYTHING, Severity.WARNING, message)


def _profile(
    checker: SelectorChecker, named: NamedSpec, passages: Sequence[Passage]
) -> Iterator[LintFinding]:
    for problem in problems(named.spec):
        if not problem.path.endswith(".cel.expression"):
            yield checker.found(LintCode.INVALID, Severity.ERROR, problem.message, problem.path)
    for made in passages:
        if made.class_missing:
            message = f"The cluster has no device class {made.ask.class_name}."
            yield checker.found(
                LintCode.CLASS_MISSING, Severity.ERROR, message, f"{made.ask.path}.deviceClassName"
            )
            continue
        for stage in made.of_request:
            yield from checker.selector(stage)
        yield from just_missed(checker, made)
        yield from evicted_at_once(checker, made)
        yield from _everything(checker, made)
    yield from _nothing(checker, passages)
    yield from room_findings(checker, named, passages)


def _nothing(checker: SelectorChecker, passages: Sequence[Passage]) -> Iterator[LintFinding]:
    """Yield requests that no device meets; of alternatives, one that does is enough."""
    for request in dict.fromkeys(made.ask.request for made in passages):
        options = [made for made in passages if made.ask.request == request]
        idle = [made for made in options if made.known and not made.accepted]
        whole = len(idle) == len(options)
        for made in idle:
            code = LintCode.MATCHES_NOTHING if whole else LintCode.ALTERNATIVE_IDLE
            severity = Severity.ERROR if whole else Severity.NOTE
            yield checker.found(code, severity, _how(checker, made), made.ask.path)


def _how(checker: SelectorChecker, made: Passage) -> str:
    """Say where the devices were lost."""
    population, ask = checker.population, made.ask
    start = population.count(population.all)
    in_class = made.of_request[0].reaching if made.of_request else made.accepted
    said = f"No device meets request {ask.result_name}: of {start} in the cluster, "
    said += f"{population.count(in_class)} are in class {ask.class_name}"
    for stage in made.of_request if in_class else ():
        if not stage.accepted:
            label = stage.label[0].lower() + stage.label[1:]
            return f"{said}, and {label} accepts none of the {population.count(stage.reaching)} left."
    return f"{said}."


def _everything(checker: SelectorChecker, made: Passage) -> Iterator[LintFinding]:
    population = checker.population
    if not made.known or made.accepted != population.all or made.ask.admin:
        return
    number, drivers = devices(population.count(population.all)), _drivers(population)
    if drivers > 1:
        message = f"Request {made.ask.result_name} accepts all {number} of {drivers} drivers."
        yield checker.found(LintCode.MATCHES_EVERYTHING, Severity.WARNING, message, made.ask.path)
    elif len(kinds := _products(population.snapshot.devices)) > 1:
        message = (
            f"Request {made.ask.result_name} accepts all {number} of the cluster, of unlike products such as "
            f"{' and '.join(kinds)}: the first free one is taken."
        )
        yield checker.found(LintCode.MATCHES_EVERYTHING, Severity.NOTE, message, made.ask.path)


def _drivers(population: Population) -> int:
    return len({sample.driver for sample in population.samples})


def _products(found: Sequence[PoolDevice]) -> list[str]:
    """Return two different products, or the only one."""
    return list(islice(dict.fromkeys(filter(None, map(_product, found))), 2))


def _product(device: PoolDevice) -> str:
    for name in vendor_by_driver(device.driver).product:
        try:
            seen = value(device, ("attributes", *qualified(device.driver, name)))
        except Malformed:
            continue
        if seen is not None:
            return str(seen)
    return ""
