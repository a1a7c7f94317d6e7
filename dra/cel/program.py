"""
The interpreter: from a checked tree to nested functions of one argument (cel-go `interpreter/`).

The argument is the frame, a list: the device, then the variables of comprehensions. A call with one possible
overload is bound when the program is planned, otherwise by its values (cel-go `common/decls/decls.go`). Like
upstream's planner, constants, their conversions and constant patterns are evaluated when the program is
planned, so their errors are compile errors. Comprehensions: `interpreter/interpretable.go`, evalFold.

Steps are counted (decision 13): one for each operation outside loops, those of a loop's body for each of its
iterations, and the size of what a function reads or returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from dra.cel import types, values
from dra.cel.access import MAX_DEVICE_STEPS, CompiledPart, Run, View, fixed, index, path, present, select
from dra.cel.kubernetes_functions import OVERLOADS
from dra.cel.standard_functions import OPERATORS, extend_in_place, insert_in_place
from dra.cel.syntax import Call, CompileError, Expression, Fold, Ident, ListOf, Literal, MapOf, Select
from dra.cel.types import Type
from dra.cel.values import (
    Failure,
    Map,
    Optional,
    Uint,
    equal,
    hashable,
    is_equal,
    matches,
    no_overload,
    type_of,
)

UNSET: Any = object()


def binding(slot: int, result: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        frame[slot] = UNSET
        return result(frame)

    return run


def fold(
    collection_run: Run,
    start: Run,
    condition: Run | None,
    step: Run,
    result: Run,
    slots: tuple[int, int, int],
    steps: int,
) -> Run:
    """
    Go over a list or map. `slots` are those of the variables, 0 for no second one, and of the accumulator;
    `steps` are those of one iteration.

    A failing step leaves its failure in the accumulator: a later step of all() or exists() may do without it.
    """
    first, second, total = slots

    def run(frame: list[Any]) -> Any:
        collection = collection_run(frame)
        entries: Iterable[Any] = _pairs(collection) if second else _singles(collection)
        frame[total] = start(frame)
        spend = frame[0].spend
        for entry in entries:
            spend(steps)
            if second:
                frame[first], frame[second] = entry
            else:
                frame[first] = entry
            if condition and condition(frame) is False:
                break
            try:
                frame[total] = step(frame)
            except Failure as failure:
                frame[total] = failure
        return result(frame)

    return run


def _pairs(collection: Any) -> Iterable[tuple[Any, Any]]:
    if type(collection) is list:
        return enumerate(collection)
    if isinstance(collection, Map):
        return [(name, collection.find(name)[0]) for name in collection]
    raise Failure(f"unsupported comprehension range type: {type_of(collection).name}")


def _singles(collection: Any) -> Iterable[Any]:
    if type(collection) is list or isinstance(collection, Map):
        return collection
    raise Failure(f"got '{type_of(collection).name}', expected iterable type")


def logical(terms: list[Run], *, stop: bool) -> Run:
    """Return && or ||: a term that decides makes up for one that fails, before it or after."""

    def run(frame: list[Any]) -> bool:
        failure: Failure | None = None
        for term in terms:
            try:
                value = term(frame)
            except Failure as failed:
                failure = failure or failed
                continue
            if type(value) is bool and value is stop:
                return stop
            if type(value) is not bool:
                failure = failure or no_overload()
        if failure:
            raise failure
        return not stop

    return run


def conditional(condition: Run, yes: Run, no: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        value = condition(frame)
        if type(value) is not bool:
            raise no_overload()
        return yes(frame) if value else no(frame)

    return run


def not_strictly_false(inner: Run) -> Run:
    def run(frame: list[Any]) -> bool:
        try:
            return inner(frame) is not False
        except Failure:
            return True

    return run


def otherwise(first: Run, default: Run, function: str) -> Run:
    unwrap = function == "orValue"

    def run(frame: list[Any]) -> Any:
        value = first(frame)
        if type(value) is not Optional:
            raise no_overload()
        if not value.present:
            return default(frame)
        return value.value if unwrap else value

    return run


def comparison(left: Run, right: Run, *, same: bool, sized: bool) -> Run:
    if sized:

        def run(frame: list[Any]) -> bool:
            left_value, right_value = left(frame), right(frame)
            frame[0].spend(min(extent(left_value), extent(right_value)))
            return equal(left_value, right_value) if same else not is_equal(left_value, right_value)

        return run
    if same:
        return lambda frame: equal(left(frame), right(frame))
    return lambda frame: not is_equal(left(frame), right(frame))  # values that cannot be compared differ


SIZED = (str, bytes, list, Map, Optional)
BYTES_PER_STEP = 64
ENDLESS = 10 * MAX_DEVICE_STEPS


def extent(value: Any) -> int:
    """Return the steps that going over a value takes: its elements, counted up to ENDLESS, and its bytes."""
    if type(value) is str or type(value) is bytes:
        return len(value) // BYTES_PER_STEP
    if not isinstance(value, SIZED):
        return 0
    steps, pending = 0, [value]
    while pending and steps < ENDLESS:
        part = pending.pop()
        if type(part) is str or type(part) is bytes:
            steps += len(part) // BYTES_PER_STEP
        elif type(part) is Optional:
            pending.append(part.value)
        elif isinstance(part, list | Map):
            steps += len(part)
            inner = part if isinstance(part, list) else [part.find(name)[0] for name in part]
            pending += [item for item in inner if isinstance(item, SIZED)]
    return steps


def _can_be_large(node: Expression) -> bool:
    is_short = isinstance(node, Literal) and not extent(node.value)
    return node.type.kind in LARGE_KINDS and not is_short


LARGE_KINDS = frozenset(("any", "bytes", "dyn", "error", "list", "map", "opaque", "parameter", "string"))
# Functions that take no longer for a large argument.
CONSTANT_TIME = frozenset(("!_", "size", "type", "dyn", "hasValue", "value", "optional.of", "first", "last"))
PAIRWISE = frozenset(
    ("distinct", "sets.contains", "sets.equivalent", "sets.intersects", "matches", "find", "findAll")
)
IN_PLACE = {"_+_": extend_in_place, "cel.@mapInsert": insert_in_place}


def caller(node: Call, arguments: list[Run], *, grown: bool) -> Run:
    """
    Return what calls the function of `node`.

    `grown` says that the first argument is the accumulator of a comprehension, which nobody else holds.
    """
    if grown and node.function in IN_PLACE:
        return _applied(IN_PLACE[node.function], arguments)  # what is added is counted where it is made
    if node.function in OPERATORS:
        implementation = OPERATORS[node.function]
    elif len(node.overloads) == 1 and not any(_open(child.type) for child in node.children()):
        implementation = OVERLOADS[node.overloads[0]]
    else:
        implementation = _guarded(node.function, node.overloads)
    if not any(map(_can_be_large, (node, *node.children()))) or node.function in CONSTANT_TIME | CONVERSIONS:
        return _applied(implementation, arguments)
    return _counted(implementation, arguments, pairwise=node.function in PAIRWISE)


def _open(value_type: Type) -> bool:
    return value_type.kind in ("dyn", "any", "error") or any(map(_open, value_type.parameters))


def _guarded(function: str, possible: list[str]) -> Callable[..., Any]:
    if len(possible) > 1:
        possible = [overload.name for overload in types.WITH_LISTS[function]]
    choices = [(types.OVERLOADS[name].parameters, OVERLOADS[name]) for name in possible if name in OVERLOADS]

    def run(*values: Any) -> Any:
        for parameters, implementation in choices:
            if len(parameters) == len(values) and all(map(matches, parameters, values)):
                return implementation(*values)
        raise no_overload(function, *values)

    return run


def _applied(implementation: Any, arguments: list[Run]) -> Run:
    match arguments:
        case [first]:
            return lambda frame: implementation(first(frame))
        case [first, second]:
            return lambda frame: implementation(first(frame), second(frame))
    return lambda frame: implementation(*(argument(frame) for argument in arguments))


def _counted(implementation: Any, arguments: list[Run], *, pairwise: bool) -> Run:
    """
    Return what calls a function and counts the size of its arguments and of a list or text that it returns.

    `pairwise` functions compare each element of one argument with each of another, or of the same.
    """

    def run(frame: list[Any]) -> Any:
        given = [argument(frame) for argument in arguments]
        extents = [extent(value) for value in given]
        if steps := sum(extents):
            pairs = prod(extents) if len(extents) > 1 else steps * steps
            frame[0].spend(steps + pairs if pairwise else steps)
        result = implementation(*given)
        if isinstance(result, str | bytes | list) and len(result) >= BYTES_PER_STEP:
            frame[0].spend(len(result) // BYTES_PER_STEP)
        return result

    return run


CONVERSIONS = frozenset(("bool", "bytes", "double", "dyn", "int", "string", "type", "uint"))
PATTERNS = frozenset(("matches", "find", "findAll"))
SIMPLE = frozenset((bool, int, Uint, float, str))


def program(tree: Expression) -> Callable[[View], Any]:
    """
    Return what evaluates a checked tree on a device; it raises `Failure` where the evaluation fails.

    Raise `CompileError` where a constant part fails.
    """
    planner = _Planner()
    try:
        run = planner.plan(tree).run
    except Failure as failure:
        raise CompileError(f"program instantiation failed: {failure}") from failure
    spare = [UNSET] * planner.slots
    steps = planner.steps

    def evaluate(view: View) -> Any:
        view.spend(steps)
        return run([view, *spare])

    return evaluate


class _Planner:
    def __init__(self) -> None:
        self.slots = 0
        self.steps = 0  # planned so far, outside the bodies of loops
        self.scopes: list[dict[str, Run]] = []
        self.grown: dict[str, bool] = {}  # accumulators that are extended in place

    def plan(self, node: Expression) -> CompiledPart:
        if isinstance(node, Literal):
            return fixed(node.value)
        self.steps += 1
        match node:
            case Ident():
                return self._name(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Fold():
                return CompiledPart(self._fold(node))
        raise TypeError(type(node))

    def _name(self, node: Ident) -> CompiledPart:
        if node.constant is not None:
            return fixed(node.constant)
        if not node.name.startswith("."):
            for scope in reversed(self.scopes):
                if node.name in scope:
                    return CompiledPart(scope[node.name])
        return CompiledPart(lambda frame: frame[0].whole())

    def _local(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def _select(self, node: Select) -> CompiledPart:
        if node.constant is not None:
            return fixed(node.constant)
        shortcut = None if self._local("device") else path(node)
        if shortcut:
            return CompiledPart(shortcut)
        return CompiledPart((present if node.test else select)(self.plan(node.operand).run, node.name))

    def _call(self, node: Call) -> CompiledPart:
        match node.function:
            case "_&&_" | "_||_":
                return CompiledPart(
                    logical([self.plan(term).run for term in node.args], stop=node.function == "_||_")
                )
            case "_?_:_":
                return CompiledPart(conditional(*(self.plan(part).run for part in node.args)))
            case "_[_]" | "_[?_]" | "_?._":
                return self._index(node)
            case "@not_strictly_false":
                return CompiledPart(not_strictly_false(self.plan(node.args[0]).run))
            case "or" | "orValue":
                first, other = (self.plan(part).run for part in node.children())
                return CompiledPart(otherwise(first, other, node.function))
        parts = [self.plan(child) for child in node.children()]
        runs = [part.run for part in parts]
        match node.function:
            case "_==_" | "_!=_":
                # Texts are compared at once; what may be a list takes a step for each element.
                sized = all(_can_be_large(child) and child.type.kind != "string" for child in node.children())
                return CompiledPart(comparison(*runs, same=node.function == "_==_", sized=sized))
            case "@in" if node.overloads == ["in_list"] and parts[1].constant:
                return _membership(runs[0], runs[1]([]))
        if node.function in PATTERNS and parts[1].constant and type(pattern := runs[1]([])) is str:
            values.use(pattern)
        grown = (
            isinstance(node.args[0], Ident) and self.grown.get(node.args[0].name, False)
            if node.args
            else False
        )
        run = caller(node, runs, grown=grown)
        if node.function in CONVERSIONS and len(parts) == 1 and parts[0].constant:
            return fixed(run([]))
        return CompiledPart(run)

    def _index(self, node: Call) -> CompiledPart:
        shortcut = None if self._local("device") else path(node)
        if shortcut:
            return CompiledPart(shortcut)
        return CompiledPart(
            index(*(self.plan(part).run for part in node.args), optional=node.function != "_[_]")
        )

    def _list(self, node: ListOf) -> CompiledPart:
        parts = [self.plan(element) for element in node.elements]
        runs, optional = [part.run for part in parts], node.optional
        if all(part.constant for part in parts) and not optional:
            return fixed([run([]) for run in runs])
        if not optional:
            return CompiledPart(lambda frame: [run(frame) for run in runs])
        return CompiledPart(
            lambda frame: _elements(((run(frame), place in optional) for place, run in enumerate(runs)))
        )

    def _map(self, node: MapOf) -> CompiledPart:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]

        def run(frame: list[Any]) -> Map:
            made = Map()
            for key, value, optional in entries:
                name, item = key.run(frame), value.run(frame)
                if optional:
                    if type(item) is not Optional:
                        raise Failure(
                            f"cannot initialize optional entry '{name}' from non-optional value {item}"
                        )
                    if not item.present:
                        made.drop(name)
                        continue
                    item = item.value
                made.put(name, item)
            return made

        if all(key.constant and value.constant and not optional for key, value, optional in entries):
            return fixed(run([]))
        return CompiledPart(run)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots

    def _fold(self, node: Fold) -> Run:
        if node.binding:
            slot, start = self._slot(), self.plan(node.start).run
            self.scopes.append({node.accumulator: _bound(slot, start)})
            run = binding(slot, self.plan(node.result).run)
            self.scopes.pop()
            return run
        over = self.plan(node.range).run
        grows = isinstance(node.start, ListOf | MapOf)
        start = _fresh(node.start) if grows else self.plan(node.start).run
        first, second, total = self._slot(), self._slot() if node.second else 0, self._slot()
        before = self.grown.get(node.accumulator, False)
        self.grown[node.accumulator] = grows
        self.scopes.append({node.accumulator: _accumulated(total)})
        self.scopes.append(
            {node.variable: _variable(first)} | ({node.second: _variable(second)} if second else {})
        )
        steps_before, self.steps = self.steps, 1
        condition = None if isinstance(node.condition, Literal) else self.plan(node.condition).run
        step = self.plan(node.step).run
        steps_of_iteration, self.steps = self.steps, steps_before
        self.scopes.pop()
        result = self.plan(node.result).run
        self.scopes.pop()
        self.grown[node.accumulator] = before
        return fold(over, start, condition, step, result, (first, second, total), steps_of_iteration)


def _fresh(start: Expression) -> Run:
    """Return what makes an empty list or map, each time another one."""
    return (lambda _frame: []) if isinstance(start, ListOf) else (lambda _frame: Map())


def _variable(slot: int) -> Run:
    return lambda frame: frame[slot]


def _accumulated(slot: int) -> Run:
    def run(frame: list[Any]) -> Any:
        value = frame[slot]
        if isinstance(value, Failure):
            raise value
        return value

    return run


def _bound(slot: int, start: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        if frame[slot] is UNSET:  # a binding that nobody reads is not evaluated, and cannot fail
            frame[slot] = start(frame)
        return frame[slot]

    return run


def _elements(parts: Any) -> list[Any]:
    elements = []
    for value, optional in parts:
        if not optional:
            elements.append(value)
        elif type(value) is not Optional:
            raise Failure(f"cannot initialize optional list element from non-optional value {value}")
        elif value.present:
            elements.append(value.value)
    return elements


def _membership(element: Run, among: list[Any]) -> CompiledPart:
    """Return `in` with a constant list, which upstream turns into a lookup."""
    if not among:
        return fixed(value=False)
    steps = extent(among)
    is_simple = all(type(item) in SIMPLE for item in among)
    texts = frozenset(among) if all(type(item) is str for item in among) else None

    def run(frame: list[Any]) -> bool:
        value = element(frame)
        if is_simple:
            hashable(value)
        if texts is not None:
            return type(value) is str and value in texts
        frame[0].spend(steps)
        return any(is_equal(value, item) for item in among)

    return CompiledPart(run)
