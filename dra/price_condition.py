"""
The condition of a rate: a CEL expression over what the price of a device may depend on.

The language, its messages and its limits are those of selectors; the variable `device` has other fields, as a
price is known for longer than the slice that published the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dra.cel import types
from dra.cel.access import View, Work
from dra.cel.cost_functions import VariablePart
from dra.cel.program import program
from dra.cel.selector import Environment, affordable, checked
from dra.cel.syntax import CelError, EvaluationError
from dra.cel.types import WITH_LISTS
from dra.cel.values import Failure, Names, Panic
from dra.price_facts import PriceFacts

LABELS, LABEL_NAME, LABEL_VALUE = 256, 317, 63  # at most, of a node; Kubernetes limits names and values
ENVIRONMENT = Environment(
    device={
        "cluster": types.STRING,
        "driver": types.STRING,
        "product": types.STRING,
        "partition": types.STRING,
        "capacityType": types.STRING,
        "nodeLabels": types.map_of(types.STRING, types.STRING),
    },
    attribute=types.BOOL,
    functions=WITH_LISTS,
    parts=VariablePart(
        0,
        {
            "cluster": VariablePart(63),
            "driver": VariablePart(63),
            "product": VariablePart(120),
            "partition": VariablePart(64),
            "capacityType": VariablePart(9),
            "nodeLabels": VariablePart(
                LABELS,
                keys=VariablePart(LABEL_NAME),
                values=VariablePart(LABEL_VALUE),
                any_name=VariablePart(LABEL_VALUE),
            ),
        },
    ),
)


class _FactsView(View):
    """Reads the facts of a device, and counts the steps of an expression."""

    __slots__ = ("_fields",)

    def __init__(self, facts: PriceFacts, work: Work) -> None:
        super().__init__(_Nothing(facts.driver), work)
        self._fields: dict[str, Any] = {
            "cluster": facts.cluster,
            "driver": facts.driver,
            "product": facts.product,
            "partition": facts.partition,
            "capacityType": facts.capacity_type,
            "nodeLabels": Names(dict(facts.node_labels)),
        }

    def field(self, name: str) -> Any:
        return self._fields[name]

    def whole(self) -> Names:
        return Names(self._fields)


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A device that publishes nothing."""

    driver: str

    @property
    def raw(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class PriceCondition:
    """A compiled condition. Threads may share it."""

    expression: str
    program: Callable[[View], Any]

    def holds(self, facts: PriceFacts, work: Work | None = None) -> bool:
        """
        Say whether the condition is true of a device.

        Raise `EvaluationError` where it fails, as for a label that the node lacks; `NotPreviewable` after too
        many steps.
        """
        try:
            return self.program(_FactsView(facts, work or Work())) is True
        except (Failure, Panic) as error:
            raise EvaluationError(str(error)) from error


def compile_condition(expression: str) -> PriceCondition:
    """Compile a condition. Raise `CompileError` or `NotPreviewable` with a sentence."""
    outcome = _compiled(expression)
    if isinstance(outcome, PriceCondition):
        return outcome
    kind, message = outcome
    raise kind(message)


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> PriceCondition | tuple[type[CelError], str]:
    try:
        tree = checked(expression, ENVIRONMENT)
        affordable(tree, ENVIRONMENT)
        return PriceCondition(expression, program(tree))
    except CelError as error:
        return type(error), error.message
