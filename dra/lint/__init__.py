"""
Checks a catalogue against the devices that a cluster publishes.

A valid profile breaks when the fleet changes: a class is deleted, a driver renames an attribute, GPUs are
replaced. Its claims then stay pending forever, without a reason from the scheduler. The checks use held and
free devices alike: findings are about what can ever match, not about what is free now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from dra.attributes import Malformed, qualified, value
from dra.cluster_snapshot import ClusterSnapshot
from dra.devices import vendor_by_driver
from dra.lint.population import Population, Published, RequestResult, match_request, selector_stages
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
from dra.lint.rules import (
    SelectorChecker,
    devices,
    duplicates,
    evicting_tolerations,
    missed_thresholds,
    room_findings,
)
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
    Check the device classes of the snapshot and claim specs against its devices. Raises for no spec.

    The report of a cluster without devices is empty.
    """
    if not snapshot.devices:
        return LintReport()
    all_expressions = [
        expression
        for named in specs
        for request in device_requests(named.spec)
        for expression in request.expressions
    ]
    all_expressions += [
        expression
        for device_class in snapshot.classes
        for expression in expressions(device_class.get("spec") or {})
    ]
    published = Published(snapshot.devices)
    population = Population(snapshot, all_expressions, published)
    findings: list[LintFinding] = []
    for name in sorted(snapshot.class_by_name):
        findings += _class(SelectorChecker(population, published, Subject.CLASS, name))
    results_by_spec: dict[str, list[RequestResult]] = {}
    for named in specs:
        request_results = results_by_spec[named.name] = [
            match_request(population, request) for request in device_requests(named.spec)
        ]
        findings += _profile(
            SelectorChecker(population, published, Subject.PROFILE, named.name), named, request_results
        )
    findings += duplicates(specs, results_by_spec)
    matching = {name: _matching(population, results) for name, results in results_by_spec.items()}
    return LintReport(findings, matching, len(snapshot.devices))


def _matching(population: Population, request_results: Sequence[RequestResult]) -> int | None:
    if not all(request_result.known or request_result.class_missing for request_result in request_results):
        return None
    accepted = 0
    for request_result in request_results:
        accepted |= request_result.accepted
    return population.count(accepted)


def _class(checker: SelectorChecker) -> Iterator[LintFinding]:
    population, name = checker.population, checker.name
    stages = selector_stages(
        population, population.snapshot.class_expressions(name), population.all, "", f"class {name}"
    )
    for stage in stages:
        yield from checker.selector(stage)
    if any(stage.error for stage in stages):
        return
    accepted = stages[-1].accepted if stages else population.all
    if not accepted:
        message = f"The class matches none of the cluster's {devices(population.count(population.all))}."
        yield checker.found(LintCode.MATCHES_NOTHING, Severity.NOTE, message)
    elif accepted == population.all and (drivers := _drivers(population)) > 1:
        number = devices(population.count(accepted))
        message = f"The class matches all {number} of {drivers} drivers: a claim can get any of them."
        yield checker.found(LintCode.MATCHES_EVERYTHING, Severity.WARNING, message)


def _profile(
    checker: SelectorChecker, named: NamedSpec, request_results: Sequence[RequestResult]
) -> Iterator[LintFinding]:
    for problem in problems(named.spec):
        if not problem.path.endswith(".cel.expression"):
            yield checker.found(LintCode.INVALID, Severity.ERROR, problem.message, problem.path)
    for request_result in request_results:
        if request_result.class_missing:
            message = f"The cluster has no device class {request_result.request.class_name}."
            yield checker.found(
                LintCode.CLASS_MISSING,
                Severity.ERROR,
                message,
                f"{request_result.request.path}.deviceClassName",
            )
            continue
        for stage in request_result.of_request:
            yield from checker.selector(stage)
        yield from missed_thresholds(checker, request_result)
        yield from evicting_tolerations(checker, request_result)
        yield from _everything(checker, request_result)
    yield from _nothing(checker, request_results)
    yield from room_findings(checker, named, request_results)


def _nothing(checker: SelectorChecker, request_results: Sequence[RequestResult]) -> Iterator[LintFinding]:
    """Yield requests that match no device; one matching alternative is enough."""
    for request in dict.fromkeys(request_result.request.request for request_result in request_results):
        options = [
            request_result for request_result in request_results if request_result.request.request == request
        ]
        unmatched = [
            request_result
            for request_result in options
            if request_result.known and not request_result.accepted
        ]
        none_matches = len(unmatched) == len(options)
        for request_result in unmatched:
            code = LintCode.MATCHES_NOTHING if none_matches else LintCode.ALTERNATIVE_IDLE
            severity = Severity.ERROR if none_matches else Severity.NOTE
            yield checker.found(code, severity, _how(checker, request_result), request_result.request.path)


def _how(checker: SelectorChecker, request_result: RequestResult) -> str:
    """Explain which selector rejects the last devices."""
    population, request = checker.population, request_result.request
    start = population.count(population.all)
    in_class = request_result.of_request[0].reaching if request_result.of_request else request_result.accepted
    sentence = f"No device matches request {request.result_name}: of {start} in the cluster, "
    sentence += f"{population.count(in_class)} are in class {request.class_name}"
    for stage in request_result.of_request if in_class else ():
        if not stage.accepted:
            label = stage.label[0].lower() + stage.label[1:]
            return f"{sentence}, and {label} accepts none of the {population.count(stage.reaching)} left."
    return f"{sentence}."


def _everything(checker: SelectorChecker, request_result: RequestResult) -> Iterator[LintFinding]:
    population = checker.population
    if not request_result.known or request_result.accepted != population.all or request_result.request.admin:
        return
    number, drivers = devices(population.count(population.all)), _drivers(population)
    if drivers > 1:
        message = f"Request {request_result.request.result_name} matches all {number} of {drivers} drivers."
        yield checker.found(
            LintCode.MATCHES_EVERYTHING, Severity.WARNING, message, request_result.request.path
        )
    elif len(kinds := _products(population.snapshot.devices)) > 1:
        message = (
            f"Request {request_result.request.result_name} matches all {number} of the cluster, of different "
            f"products such as {' and '.join(kinds)}: a claim gets the first free one."
        )
        yield checker.found(LintCode.MATCHES_EVERYTHING, Severity.NOTE, message, request_result.request.path)


def _drivers(population: Population) -> int:
    return len({sample.driver for sample in population.samples})


def _products(pool_devices: Sequence[PoolDevice]) -> list[str]:
    """Return two different products, or the only one."""
    return list(islice(dict.fromkeys(filter(None, map(_product, pool_devices))), 2))


def _product(device: PoolDevice) -> str:
    for name in vendor_by_driver(device.driver).product:
        try:
            product = value(device, ("attributes", *qualified(device.driver, name)))
        except Malformed:
            continue
        if product is not None:
            return str(product)
    return ""
