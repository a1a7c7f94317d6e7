"""How the devices of a cluster come through the selectors of a class, and then of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra.cel import CelError
from dra.lint.population import Groups, Population
from dra.objects import Ask
from dra.verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class Stage:
    """One selector, and the groups of devices that come as far as it."""

    label: str  # "Selector 2 of request gpu"
    path: str
    expression: str
    reaching: Groups
    judged: Verdicts | None = None
    error: CelError | None = None  # why it says nothing about any device

    @property
    def accepted(self) -> Groups:
        return self.reaching & self.judged.column if self.judged else 0

    @property
    def failed(self) -> Groups:
        return self.reaching & self.judged.errors if self.judged else 0


@dataclass(slots=True)
class Passage:
    """All selectors of one request, those of its class first. `known` is False if one cannot be evaluated."""

    ask: Ask
    of_class: list[Stage] = field(default_factory=list)
    of_request: list[Stage] = field(default_factory=list)
    accepted: Groups = 0
    class_missing: bool = False

    @property
    def known(self) -> bool:
        stages = [*self.of_class, *self.of_request]
        return not self.class_missing and all(stage.error is None for stage in stages)


def stages_of(
    population: Population, expressions: Sequence[str], reaching: Groups, path: str, owner: str
) -> list[Stage]:
    """Run the expressions one after the other; one that cannot be evaluated lets everything through."""
    stages = []
    for number, expression in enumerate(expressions):
        label = f"Selector {number + 1} of {owner}" if len(expressions) > 1 else f"The selector of {owner}"
        where = f"{path}selectors[{number}].cel.expression"
        try:
            stage = Stage(label, where, expression, reaching, population.judge(expression))
            reaching = stage.accepted
        except CelError as error:
            stage = Stage(label, where, expression, reaching, error=error)
        stages.append(stage)
    return stages


def passage(population: Population, ask: Ask) -> Passage:
    """Run class and request."""
    made = Passage(ask)
    reaching = population.all
    try:
        expressions = population.picture.class_expressions(ask.class_name)
    except KeyError:
        made.class_missing = True
        return made
    made.of_class = stages_of(population, expressions, reaching, "", f"class {ask.class_name}")
    reaching = _left(made.of_class, reaching)
    owner, path = f"request {ask.result_name}", f"{ask.path}."
    made.of_request = stages_of(population, ask.expressions, reaching, path, owner)
    made.accepted = _left(made.of_request, reaching)
    return made


def with_other(made: Passage, stage: Stage, judged: Verdicts) -> Groups:
    """Return what the request would accept if one of its own selectors gave another verdict."""
    left = made.of_request[0].reaching
    for one in made.of_request:
        verdict = judged if one is stage else one.judged
        left = left if verdict is None else left & verdict.column
    return left


def _left(stages: Sequence[Stage], reaching: Groups) -> Groups:
    for stage in stages:
        reaching = stage.accepted if stage.judged else reaching
    return reaching
