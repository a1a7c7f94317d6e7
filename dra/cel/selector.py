"""Selectors: CEL expressions over a device, compiled once and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dra.cel.environment import affordable, checked, environment
from dra.cel.errors import CelError, EvaluationError
from dra.cel.program import program
from dra.cel.reading import Reading, reading
from dra.cel.values import Failure, Panic
from dra.cel.view import View
from dra.facts import Malformed, Selectable, lookup
from dra.features import NEWEST, Features

KEPT = 2048  # compiled expressions


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression. Threads may share it. `cost` is the API server's estimate of the worst case."""

    expression: str
    cost: int
    reading: Reading
    program: Callable[[View], Any]

    def value(self, device: Selectable) -> Any:
        """Evaluate the expression. Raise `EvaluationError` where the cluster would fail on the device."""
        try:
            return self.program(View(device))
        except (Failure, Panic, Malformed) as error:
            raise EvaluationError(str(error)) from error

    def matches(self, device: Selectable) -> bool:
        """
        Say whether the device is selected.

        Raise `EvaluationError` where the cluster would fail on it, `NotPreviewable` where it is not known.
        """
        result = self.value(device)
        if not isinstance(result, bool):
            raise EvaluationError("The expression does not give true or false for this device.")
        return result

    def shapes(self, devices: Iterable[Selectable]) -> Iterator[Hashable]:
        """Yield what the expression can see of each device: devices of one shape have one result."""
        whole = sorted(self.reading.whole)
        names = sorted(self.reading.names - self.reading.whole)
        refs = [(part, domain, name) for part, domain, name in self.reading.refs if part not in whole]
        for device in devices:
            raw, driver = device.raw, device.driver
            shape: list[Hashable] = [driver, raw.get("allowMultipleAllocations") is True]
            shape += [repr(lookup(raw.get(part) or {}, driver, domain, name)) for part, domain, name in refs]
            shape += [tuple(raw.get(part) or ()) for part in names]
            shape += [repr(raw.get(part)) for part in whole]
            yield tuple(shape)


def compile_selector(expression: str, features: Features = NEWEST) -> Selector:
    """
    Compile an expression of `selectors[].cel` for a cluster with these switches.

    Raise `CompileError` if the API server would refuse it, `NotPreviewable` if it may be right but cannot be
    run here.
    """
    outcome = _compiled(expression, features)
    if isinstance(outcome, Selector):
        return outcome
    kind, message = outcome
    raise kind(message)


@lru_cache(maxsize=KEPT)
def _compiled(expression: str, features: Features) -> Selector | tuple[type[CelError], str]:
    # Failures are kept as well: a page that shows a broken profile must not compile it again and again.
    try:
        known = environment(features)
        tree = checked(expression, known)
        run = program(tree)
        return Selector(expression, affordable(tree, known), reading(tree), run)
    except CelError as error:
        return type(error), error.message
