"""
Whether any one node could ever have what a claim asks for, were all of its devices free.

Only what is certain is told: devices that several nodes reach are counted to each of them, and where devices
are shared, one of them may serve several requests, so nothing is said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dra.lint.passage import Passage
from dra.lint.population import Groups, Population
from dra.lint.report import Code, Finding, NamedSpec, Severity
from dra.lint.selectors import Checker, devices
from dra.objects import Json, constraints
from dra.stock import MISSING

ENDLESS = 24  # alike devices of which one more was asked for: the search of Kubernetes 1.37.1 timed out


def room_findings(checker: Checker, named: NamedSpec, passages: Sequence[Passage]) -> Iterator[Finding]:
    """Yield requests that are larger than every node, and constraints that no node can meet."""
    population = checker.population
    crowded = False
    for made in passages:
        ask = made.ask
        if not made.known or not made.accepted or ask.all or _shared(population, made.accepted):
            continue
        wanted = max(ask.count, named.most) if ask.request == named.scalable else ask.count
        if wanted == 1:
            continue
        name, most = _largest(population, made.accepted)
        if ask.count > most:
            crowded = True
            message = (
                f"Request {ask.result_name} asks for {devices(ask.count)} on one node; the most that match "
                f"on one are {most}, on {name}."
            )
            if most >= ENDLESS:
                message += (
                    " The scheduler tries them in every order for 10 s before it gives up on the pod, and "
                    "schedules no other meanwhile."
                )
            yield checker.found(Code.TOO_MANY, Severity.ERROR, message, f"{ask.path}.count")
        elif wanted > most:
            message = (
                f"People may ask for up to {devices(wanted)}; no node has more than {most} that match "
                f"({name} has), and a claim is met by one node."
            )
            yield checker.found(Code.LIMIT_TOO_HIGH, Severity.NOTE, message, f"{ask.path}.count")
    if not crowded:
        for number, constraint in enumerate(constraints(named.spec)):
            yield from _constraint(checker, number, constraint, passages)


def _constraint(
    checker: Checker, number: int, constraint: Json, passages: Sequence[Passage]
) -> Iterator[Finding]:
    attribute = str(constraint.get("matchAttribute") or constraint.get("distinctAttribute") or "")
    names = constraint.get("requests") or ()
    bound = [one for one in passages if not names or {one.ask.request, one.ask.result_name} & {*names}]
    population = checker.population
    accepted = 0
    for made in bound:
        accepted |= made.accepted
    if not attribute or not accepted or not all(made.known for made in bound):
        return
    needed = _needed(bound)
    values = population.picture.stock.values(attribute)
    groups = _by_node(population, accepted, values)
    path = f"devices.constraints[{number}]"
    # Another alternative of the same request may do without the constraint.
    free = {one.ask.request for one in passages if one not in bound} & {one.ask.request for one in bound}
    severity = Severity.NOTE if free else Severity.ERROR
    if not groups:
        what = f"none of the {devices(population.count(accepted))} that match publishes it"
        message = f"The constraint is about {attribute}, but {what}, so none is ever chosen."
        meant = checker.published.closest(("attributes", *_split(attribute)))
        if meant and meant[0] == "attributes":
            message += f" {devices(checker.published.names[meant])} publish {meant[1]}/{meant[2]}."
        yield checker.found(Code.CONSTRAINT, severity, message, path)
        return
    if _shared(population, accepted):
        return
    together = bool(constraint.get("matchAttribute"))
    best = {node: max(seen.values()) if together else len(seen) for node, seen in groups.items()}
    name, most = max(best.items(), key=lambda one: one[1])
    if needed > most:
        message = (
            f"{needed} devices of {'one' if together else 'different'} {attribute} are needed, "
            f"and no node has more than {most} ({name} has)."
        )
        yield checker.found(Code.CONSTRAINT, severity, message, path)


def _needed(passages: Sequence[Passage]) -> int:
    """Return the least number of devices that a constraint over these requests binds together."""
    least: dict[str, int] = {}
    for made in passages:
        ask = made.ask
        count = 1 if ask.all else ask.count
        least[ask.request] = min(least.get(ask.request, count), count)
    return sum(least.values())


def _by_node(population: Population, groups: Groups, values: Sequence[int]) -> Mapping[str, Counter[int]]:
    """Count per node how many of the devices have each value; devices without one do not count."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    everywhere: Counter[int] = Counter()
    for number in population.numbers(groups):
        for place in population.places[number]:
            if (seen := values[place]) != MISSING:
                node = population.every[place].node_name
                (found[node] if node else everywhere)[seen] += 1
    for counted in found.values():
        counted.update(everywhere)
    return found or ({"any node": everywhere} if everywhere else {})


def _largest(population: Population, groups: Groups) -> tuple[str, int]:
    """Return the node that has most of the devices, and how many."""
    counted: Counter[str] = Counter()
    for number in population.numbers(groups):
        counted.update(population.by_node(number))
    everywhere = counted.pop("", 0)
    name, most = max(counted.items(), key=lambda one: (one[1], one[0]), default=("any node", 0))
    return name, most + everywhere


def _shared(population: Population, groups: Groups) -> bool:
    return any(population.samples[number].shareable for number in population.numbers(groups))


def _split(attribute: str) -> tuple[str, str]:
    domain, _, name = attribute.rpartition("/")
    return domain, name
