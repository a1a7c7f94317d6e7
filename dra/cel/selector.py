"""Selectors: CEL expressions over a device, compiled once and kept."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dra.cel import engine
from dra.cel.errors import CelError, CompileError, EvaluationError, NotPreviewable
from dra.cel.growth import too_large
from dra.cel.scan import TABLES, Reading, scan
from dra.facts import Json, Malformed, Selectable, entries, value

MAX_BYTES = 10_240  # the API's limit of an expression
KEPT = 2048  # compiled expressions


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression. Threads may share it."""

    expression: str
    reading: Reading
    program: Any

    def matches(self, device: Selectable) -> bool:
        """
        Say whether the device is selected.

        Raise `EvaluationError` where the cluster would fail on it, `NotPreviewable` where this portal cannot
        tell.
        """
        try:
            variables = self._variables(device)
        except Malformed as error:
            raise EvaluationError(str(error)) from error
        outcome = engine.evaluate(self.program, variables)
        if outcome.missing_key and self.reading.loose:
            raise NotPreviewable(
                "The expression looks up a domain in a way that only a cluster can evaluate."
            )
        if outcome.exhausted:
            raise NotPreviewable(
                "The expression takes more steps than this portal allows; a cluster decides."
            )
        if outcome.error:
            raise EvaluationError(outcome.error)
        if not isinstance(outcome.result, bool):
            raise EvaluationError("The expression does not give true or false for this device.")
        return outcome.result

    def shapes(self, devices: Iterable[Selectable]) -> Iterator[Hashable]:
        """Yield what the expression can see of each device: devices of one shape have one result."""
        if self.reading.everything:
            for device in devices:
                raw = device.raw
                yield device.driver, _shareable(raw), repr(raw.get("attributes")), repr(raw.get("capacity"))
            return
        refs = [(part, domain, name, f"{domain}/{name}") for part, domain, name in self.reading.refs]
        for device in devices:
            raw, driver = device.raw, device.driver
            shape: list[Hashable] = [driver, _shareable(raw)]
            for part, domain, name, full in refs:
                listed = raw.get(part) or {}
                entry = listed.get(full)
                if entry is None and domain == driver:
                    entry = listed.get(name)
                shape.append(repr(entry))
            yield tuple(shape)

    def _variables(self, device: Selectable) -> dict[str, Any]:
        variables: dict[str, Any] = {
            "driver": device.driver,
            "allowMultipleAllocations": _shareable(device.raw),
        }
        for part, table in TABLES.items():
            named: dict[str, dict[str, Any]] = {}
            if self.reading.everything:
                for domain, name, found in entries(device, part):
                    named.setdefault(domain, {})[name] = engine.carry(found)
            else:
                for ref in self.reading.refs:
                    if ref[0] == part and (found := value(device, ref)) is not None:
                        named.setdefault(ref[1], {})[ref[2]] = engine.carry(found)
            variables[part] = named
            variables[table] = {domain: {} for domain in self.reading.domains} | named
        return variables


def _shareable(raw: Json) -> bool:
    return raw.get("allowMultipleAllocations") is True


def compile_selector(expression: str) -> Selector:
    """
    Compile an expression of `selectors[].cel`.

    Raise `CompileError` if the API server would refuse it, `NotPreviewable` if it may be right but cannot be
    run here.
    """
    outcome = _compiled(expression)
    if isinstance(outcome, Selector):
        return outcome
    kind, message = outcome
    raise kind(message)


@lru_cache(maxsize=KEPT)
def _compiled(expression: str) -> Selector | tuple[type[CelError], str]:
    # Failures are kept as well: a page that shows a broken profile must not compile it again and again.
    if len(expression.encode()) > MAX_BYTES:
        return CompileError, f"The expression is longer than {MAX_BYTES} bytes."
    if too_large(expression):
        return NotPreviewable, "The expression could build more than this portal can hold; a cluster decides."
    reading = scan(expression)
    try:
        return Selector(expression, reading, engine.compile_program(expression, reading.text))
    except CelError as error:
        return type(error), error.message
