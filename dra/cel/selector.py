"""
Selectors: CEL expressions over a device, compiled once and cached.

The environment is that of the API server for new selectors (dynamic-resource-allocation `cel/compile.go`).
`reading` returns the attributes and capacities that an expression reads, without evaluating it. Devices with
equal values for them have equal results, so thousands of devices need a handful of evaluations. Stored
expressions are compiled like the scheduler compiles them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dra.attributes import Malformed, Ref, Selectable, lookup
from dra.cel import checker as literals
from dra.cel import cost, types
from dra.cel.access import View, Work, reference, table
from dra.cel.checker import Problem, TypeChecker
from dra.cel.cost_functions import VariablePart, device_parts
from dra.cel.parser import parse
from dra.cel.program import program
from dra.cel.syntax import (
    Call,
    CelError,
    CompileError,
    EvaluationError,
    Expression,
    Fold,
    Ident,
    Select,
    SyntaxProblem,
)
from dra.cel.types import FUNCTIONS, WITH_LISTS, Overload, Type
from dra.cel.values import Failure, Panic
from dra.features import NEWEST, STORED, Features

MAX_BYTES = 10_240  # k8s.io/api `resource/v1/types.go`, CELSelectorExpressionMaxLength
TOO_COMPLEX = "too complex, exceeds cost limit"


@dataclass(frozen=True, slots=True)
class Environment:
    """The variable `device` and the functions, as the switches of a cluster have them."""

    device: Mapping[str, Type]
    attribute: Type
    functions: Mapping[str, list[Overload]]
    parts: VariablePart


@lru_cache(maxsize=8)
def environment(features: Features = NEWEST) -> Environment:
    attribute = types.DYN if features.list_type_attributes else types.ANY
    fields = {
        "driver": types.STRING,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    functions = WITH_LISTS if features.list_type_attributes else FUNCTIONS
    parts = device_parts(list_type_attributes=features.list_type_attributes)
    return Environment(fields, attribute, functions, parts)


def checked(text: str, environment: Environment) -> Expression:
    """
    Return the typed tree of an expression.

    Raise `CompileError` in the words of the API server, `NotPreviewable` for what is not known here.
    """
    if len(text.encode()) > MAX_BYTES:
        raise CompileError(f"Too long: may not be more than {MAX_BYTES} bytes")
    try:
        tree = parse(text)
    except SyntaxProblem as problem:
        raise _refusal(text, [(problem.offset, problem.text)]) from None
    checker = TypeChecker(environment.functions, environment.device)
    checker.run(tree)
    problems = checker.problems or literals.problems(tree)
    if problems:
        raise _refusal(text, problems)
    if tree.type not in (types.BOOL, environment.attribute):
        unknown = "" if environment.attribute == types.BOOL else " or the unknown type"
        raise CompileError(f"must evaluate to bool{unknown}, not {_shown(tree.type)}")
    return tree


def affordable(tree: Expression, environment: Environment) -> int:
    """Return the cost of a typed tree in the worst case. Raise `CompileError` if it is above the limit."""
    worst = cost.estimate(tree, environment.parts)
    if worst > cost.LIMIT:
        raise CompileError(TOO_COMPLEX)
    return worst


def _shown(value_type: Type) -> str:
    return re.sub(r"\bany\b", "google.protobuf.Any", re.sub(r"\bnull\b", "null_type", str(value_type)))


def _refusal(text: str, problems: list[Problem]) -> CompileError:
    placed = sorted(
        ((*_place(text, offset), message) for offset, message in problems), key=lambda position: position[:2]
    )
    lines = text.split("\n")
    messages = [
        f"ERROR: <input>:{line}:{column + 1}: {message}{_snippet(lines[line - 1], column)}"
        for line, column, message in placed
    ]
    return CompileError("compilation failed: " + "\n".join(messages))


def _place(text: str, offset: int) -> tuple[int, int]:
    """Return the line, from 1, and the column, from 0, of an offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1)


def _snippet(line: str, column: int) -> str:
    """Return the line and a caret below the column; wide characters get wide dots."""
    line = line.replace("\t", " ")
    dots = "".join("．" if len(char.encode()) > 1 else "." for char in line[:column])
    caret = "＾" if len(line) > column and len(line[column].encode()) > 1 else "^"
    return f"\n | {line}\n | {dots}{caret}"


@dataclass(slots=True)
class AttributeUse:
    """
    What an expression reads of a device, besides driver and `allowMultipleAllocations`.

    `names` holds "attributes" or "capacity" where it matters which names there are, `whole` where the values
    of any name may matter, as in a loop over names and values.
    """

    refs: set[Ref] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)


def reading(tree: Expression) -> AttributeUse:
    """Tell what a tree reads; too much where a local variable is named `device`."""
    use = AttributeUse()
    _visit(tree, use)
    return use


def _visit(node: Expression, use: AttributeUse) -> None:
    ref = reference(node)
    if ref:
        use.refs.add(ref[0])
        return
    match node:
        case Ident(name="device" | ".device"):
            use.whole |= {"attributes", "capacity"}
        case Select(operand=Ident(name="device" | ".device"), test=False):
            if part := table(node):
                use.whole.add(part)
        case Call(function="@in", args=[element, container]) if part := _names(container):
            use.names.add(part)
            _visit(element, use)
        case Call(function="size") if part := _names(node.children()[0]):
            use.names.add(part)
        case Fold() if not node.second and (part := _names(node.range)):
            use.names.add(part)
            for child in node.children()[1:]:
                _visit(child, use)
        case _:
            for child in node.children():
                _visit(child, use)


def _names(node: Expression) -> str:
    """Return the table that `device.attributes` or `device.attributes["domain"]` is of; "" if neither."""
    if part := table(node):
        return part
    match node:
        case Call(function="_[_]", args=[operand, _]) | Select(operand=operand, test=False):
            return table(operand)
    return ""


KEPT = 2048  # compiled expressions


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression. Threads may share it. `cost` is the API server's estimate of the worst case."""

    expression: str
    cost: int
    reading: AttributeUse
    program: Callable[[View], Any]

    def value(self, device: Selectable, work: Work | None = None) -> Any:
        """
        Evaluate the expression, and count its steps in `work`.

        Raise `EvaluationError` where the cluster would fail on it, `NotPreviewable` after too many steps.
        """
        try:
            return self.program(View(device, work or Work()))
        except (Failure, Panic, Malformed) as error:
            raise EvaluationError(str(error)) from error

    def matches(self, device: Selectable, work: Work | None = None) -> bool:
        """
        Say whether the device is selected; `work` counts the steps of the selector on several devices.

        Raise `EvaluationError` where the cluster would fail on it, `NotPreviewable` where it is not known.
        """
        result = self.value(device, work)
        if not isinstance(result, bool):
            raise EvaluationError("The expression does not give true or false for this device.")
        return result

    def shapes(self, devices: Iterable[Selectable]) -> Iterator[Hashable]:
        """Yield what the expression can see of each device: devices of one shape have one result."""
        whole_maps = sorted(self.reading.whole)
        names = sorted(self.reading.names - self.reading.whole)
        refs = [(part, domain, name) for part, domain, name in self.reading.refs if part not in whole_maps]
        for device in devices:
            raw, driver = device.raw, device.driver
            shape: list[Hashable] = [driver, raw.get("allowMultipleAllocations") is True]
            shape += [repr(lookup(raw.get(part) or {}, driver, domain, name)) for part, domain, name in refs]
            shape += [tuple(raw.get(part) or ()) for part in names]
            shape += [repr(raw.get(part)) for part in whole_maps]
            yield tuple(shape)


def compile_selector(expression: str, features: Features = NEWEST) -> Selector:
    """
    Compile an expression of `selectors[].cel` for a cluster with these switches.

    Raise `CompileError` if the API server would refuse it, `NotPreviewable` if it may be right but cannot be
    run here.
    """
    return _selector(_compiled(expression, features))


def _selector(outcome: Selector | tuple[type[CelError], str]) -> Selector:
    if isinstance(outcome, Selector):
        return outcome
    kind, message = outcome
    raise kind(message)


@lru_cache(maxsize=KEPT)
def _compiled(expression: str, features: Features) -> Selector | tuple[type[CelError], str]:
    # Failures are kept as well: a page that shows a broken profile must not compile it again and again.
    try:
        cached = environment(features)
        tree = checked(expression, cached)
        run = program(tree)
        return Selector(expression, affordable(tree, cached), reading(tree), run)
    except CelError as error:
        return type(error), error.message


def compile_stored(expression: str) -> Selector:
    """
    Compile an expression whatever it may cost, and whatever the cluster has switched off since.

    Raise `CompileError` if Kubernetes 1.37 does not understand it, `NotPreviewable` if it may be right but
    cannot be run here.
    """
    return _selector(_compiled_as_stored(expression))


@lru_cache(maxsize=KEPT)
def _compiled_as_stored(expression: str) -> Selector | tuple[type[CelError], str]:
    cached = environment(STORED)
    try:
        tree = checked(expression, cached)
        return Selector(expression, cost.estimate(tree, cached.parts), reading(tree), program(tree))
    except CelError as error:
        return type(error), error.message
