"""
What is odd about a whole spec: room on no node, thresholds, tolerations, twins.

Whether any one node could ever have what a claim asks for, were all of its devices free.

Only what is certain is told: devices that several nodes reach are counted to each of them, and where
devices are shared, one of them may serve several requests, so nothing is said.

A threshold that leaves devices out by a rounding: an “80 GB” H100 publishes 81559Mi, which is 79.6 GiB.

Tolerations without an effect.

They let a pod be scheduled to a device with a NoExecute taint, and against eviction only a toleration with
effect NoExecute counts (pkg/controller/devicetainteviction): the pod starts and is deleted at once.

Profiles that ask for the same as another.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from dra.canonical import canonical, spec_hash
from dra.cel.idioms import Comparison, comparisons, quoted, replaced
from dra.device_index import MISSING
from dra.facts import Malformed, Ref, value
from dra.lint import population
from dra.lint.population import Groups, Passage, Population, with_other
from dra.lint.report import LintCode, LintFinding, NamedSpec, Severity, Subject
from dra.lint.selectors import SelectorChecker, devices
from dra.objects import Json, constraints
from dra.quantity import Quantity, QuantityError
from dra.taints import tolerates

ENDLESS = 24  # alike devices of which one more was asked for: the search of Kubernetes 1.37.1 timed out


def room_findings(
    checker: SelectorChecker, named: NamedSpec, passages: Sequence[Passage]
) -> Iterator[LintFinding]:
    """Yield requests that are larger than every node, and constraints that no node can meet."""
    population = checker.population
    crowded = False
    for made in passages:
        ask = made.ask
        if not made.known or not made.accepted or ask.all or _shared(population, made.accepted):
            continue
        wanted = max(ask.count, named.max_count) if ask.request == named.scalable else ask.count
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
            yield checker.found(LintCode.TOO_MANY, Severity.ERROR, message, f"{ask.path}.count")
        elif wanted > most:
            message = (
                f"People may ask for up to {devices(wanted)}; no node has more than {most} that match "
                f"({name} has), and a claim is met by one node."
            )
            yield checker.found(LintCode.LIMIT_TOO_HIGH, Severity.NOTE, message, f"{ask.path}.count")
    if not crowded:
        for number, constraint in enumerate(constraints(named.spec)):
            yield from _constraint(checker, number, constraint, passages)


def _constraint(
    checker: SelectorChecker, number: int, constraint: Json, passages: Sequence[Passage]
) -> Iterator[LintFinding]:
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
    values = population.snapshot.device_index.values(attribute)
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
        yield checker.found(LintCode.CONSTRAINT, severity, message, path)
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
        yield checker.found(LintCode.CONSTRAINT, severity, message, path)


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


MARGIN = 20  # a value within 1/20 below the threshold was meant


def just_missed(checker: SelectorChecker, made: Passage) -> Iterator[LintFinding]:
    """Yield a finding for each threshold of the request that devices miss by at most 5 %."""
    for stage in made.of_request:
        for asked, ref, least in _thresholds(stage.expression) if stage.judged else ():
            nearest = _nearest(checker, stage.reaching & ~stage.accepted, ref, least)
            if nearest is None:
                continue
            text = population.below(nearest)
            lower = replaced(stage.expression, {asked.literal: quoted(text)})
            judged = checker.population.try_out(lower)
            gained = with_other(made, stage, judged) & ~made.accepted if judged else 0
            if not gained:
                continue
            number = checker.population.count(gained)
            message = (
                f"{stage.label} asks for {ref[2]} of at least {least}; {devices(number)} that would match "
                f"otherwise {'publishes' if number == 1 else 'publish'} {nearest}{_in_gib(nearest)}, such as "
                f"{next(checker.population.devices(gained))}. {text} leaves head-room."
            )
            fix = checker.fix(stage, lower)
            yield checker.found(LintCode.JUST_MISSED, Severity.WARNING, message, stage.path, fix)


def _thresholds(expression: str) -> Iterator[tuple[Comparison, Ref, Quantity]]:
    for asked in comparisons(expression):
        if asked.ref and asked.kind == "quantity" and asked.sign in (">=", ">"):
            with suppress(QuantityError):
                yield asked, asked.ref, Quantity.parse(asked.wanted)


def _nearest(checker: SelectorChecker, groups: Groups, ref: Ref, least: Quantity) -> Quantity | None:
    """Return the largest amount below the threshold among the groups, if it is close."""
    amounts = []
    for number in checker.population.numbers(groups):
        try:
            seen = value(checker.population.samples[number], ref)
        except Malformed:
            continue
        if isinstance(seen, Quantity) and seen < least:
            amounts.append(seen)
    nearest = max(amounts, default=None)
    close = nearest is not None and nearest.nano * (MARGIN + 1) >= least.nano * MARGIN
    return nearest if close else None


def _in_gib(amount: Quantity) -> str:
    return f" ({amount.bytes / population.GIB:.2f} GiB)" if amount.bytes >= population.GIB else ""


def evicted_at_once(checker: SelectorChecker, made: Passage) -> Iterator[LintFinding]:
    """Yield tolerations of the request that have no effect: a warning where they lead to such devices now."""
    lasting = [one for one in made.ask.tolerations if one.get("effect") == "NoExecute"]
    for number, toleration in enumerate(made.ask.tolerations):
        if toleration.get("effect"):
            continue
        if any(_covers(one, toleration) for one in lasting):
            continue
        message = (
            f"Request {made.ask.result_name} tolerates {toleration.get('key') or 'every taint'} without an "
            "effect: a pod is scheduled to a device with such a NoExecute taint, and evicted at once. With "
            "effect NoSchedule it gets none of these; a second toleration with effect NoExecute lets it stay."
        )
        tainted = _tainted(checker, made, toleration)
        if tainted:
            message += f" {devices(tainted)} that match {'has' if tainted == 1 else 'have'} one now."
        severity = Severity.WARNING if tainted else Severity.NOTE
        path = f"{made.ask.path}.tolerations[{number}].effect"
        yield checker.found(LintCode.EVICTED, severity, message, path)


def _tainted(checker: SelectorChecker, made: Passage, toleration: Json) -> int:
    """Count devices of the request whose slice has a NoExecute taint that the toleration covers."""
    return sum(
        any(taint.effect == "NoExecute" and tolerates([toleration], taint) for taint in device.taints)
        for device in checker.population.devices(made.accepted)
    )


def _covers(wide: Json, narrow: Json) -> bool:
    """Say whether one toleration is of every key and value that the other is of."""
    if wide.get("key") and wide["key"] != narrow.get("key"):
        return False
    if wide.get("operator") == "Exists":
        return True
    return narrow.get("operator") != "Exists" and (wide.get("value") or "") == (narrow.get("value") or "")


def twins(specs: Sequence[NamedSpec], passages: Mapping[str, Sequence[Passage]]) -> Iterator[LintFinding]:
    """Yield one finding for each profile that says or asks for the same as an earlier one."""
    by_hash: dict[str, str] = {}
    by_devices: dict[str, str] = {}
    for named in specs:
        digest = spec_hash(named.spec)
        if other := by_hash.get(digest):
            message = f"It says the same as {other}: both ask the cluster for exactly the same."
            yield LintFinding(Subject.PROFILE, named.name, LintCode.SAME_SPEC, Severity.WARNING, message)
            continue
        by_hash[digest] = named.name
        mark = _mark(named, passages[named.name])
        if mark and (other := by_devices.get(mark)):
            message = f"It is written differently from {other}, but the same devices match, equally many."
            yield LintFinding(Subject.PROFILE, named.name, LintCode.SAME_DEVICES, Severity.NOTE, message)
        elif mark:
            by_devices[mark] = named.name


def _mark(named: NamedSpec, passages: Sequence[Passage]) -> str:
    """Describe what is asked for by the devices that match, not by how it is written; "" if none do."""
    if not passages or not all(made.known and made.accepted for made in passages):
        return ""
    said = canonical(named.spec)["devices"]
    rest = {"constraints": said.get("constraints"), "config": said.get("config")}
    named_otherwise = ("selectors", "deviceClassName", "count")
    asks = [
        {key: value for key, value in made.ask.raw.items() if key not in named_otherwise}
        | {"count": made.ask.count, "of": hex(made.accepted), "request": made.ask.request}
        for made in passages
    ]
    return json.dumps([rest, asks], sort_keys=True, default=str)
