"""
From a typed tree to something that runs: nested functions of one argument (cel-go `interpreter/`).

The argument is the frame, a list: first the device, then the variables of comprehensions. Upstream's planner
works out constants, conversions of constants and constant patterns ahead; what fails there fails to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel import logic, patterns
from dra.cel.access import Code, Run, fixed, index, path, present, select
from dra.cel.dispatch import caller
from dra.cel.errors import CompileError
from dra.cel.folds import UNSET, binding, fold
from dra.cel.syntax import Call, Fold, Ident, ListOf, Literal, MapOf, Node, Select
from dra.cel.values import Failure, Map, Optional, Uint, hashable, is_equal
from dra.cel.view import View

CONVERSIONS = frozenset(("bool", "bytes", "double", "dyn", "int", "string", "type", "uint"))
PATTERNS = frozenset(("matches", "find", "findAll"))
SIMPLE = frozenset((bool, int, Uint, float, str))


def program(tree: Node) -> Callable[[View], Any]:
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
    return lambda view: run([view, *spare])


class _Planner:
    def __init__(self) -> None:
        self.slots = 0
        self.scopes: list[dict[str, Run]] = []
        self.grown: dict[str, bool] = {}  # accumulators that are extended in place

    def plan(self, node: Node) -> Code:
        match node:
            case Literal():
                return fixed(node.value)
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
                return Code(self._fold(node))
        raise TypeError(type(node))

    def _name(self, node: Ident) -> Code:
        if node.constant is not None:
            return fixed(node.constant)
        if not node.name.startswith("."):
            for scope in reversed(self.scopes):
                if node.name in scope:
                    return Code(scope[node.name])
        return Code(lambda frame: frame[0].whole())

    def _local(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def _select(self, node: Select) -> Code:
        if node.constant is not None:
            return fixed(node.constant)
        shortcut = None if self._local("device") else path(node)
        if shortcut:
            return Code(shortcut)
        return Code((present if node.test else select)(self.plan(node.operand).run, node.name))

    def _call(self, node: Call) -> Code:
        match node.function:
            case "_&&_" | "_||_":
                return Code(
                    logic.logical([self.plan(term).run for term in node.args], stop=node.function == "_||_")
                )
            case "_?_:_":
                return Code(logic.conditional(*(self.plan(part).run for part in node.args)))
            case "_[_]" | "_[?_]" | "_?._":
                return self._index(node)
            case "@not_strictly_false":
                return Code(logic.not_strictly_false(self.plan(node.args[0]).run))
            case "or" | "orValue":
                first, other = (self.plan(part).run for part in node.children())
                return Code(logic.otherwise(first, other, node.function))
        parts = [self.plan(child) for child in node.children()]
        runs = [part.run for part in parts]
        match node.function:
            case "_==_":
                return Code(logic.comparison(*runs, same=True))
            case "_!=_":
                return Code(logic.comparison(*runs, same=False))
            case "@in" if node.overloads == ["in_list"] and parts[1].constant:
                return _membership(runs[0], runs[1]([]))
        if node.function in PATTERNS and parts[1].constant and type(pattern := runs[1]([])) is str:
            patterns.use(pattern)
        grown = (
            isinstance(node.args[0], Ident) and self.grown.get(node.args[0].name, False)
            if node.args
            else False
        )
        run = caller(node, runs, grown=grown)
        if node.function in CONVERSIONS and len(parts) == 1 and parts[0].constant:
            return fixed(run([]))
        return Code(run)

    def _index(self, node: Call) -> Code:
        shortcut = None if self._local("device") else path(node)
        if shortcut:
            return Code(shortcut)
        return Code(index(*(self.plan(part).run for part in node.args), optional=node.function != "_[_]"))

    def _list(self, node: ListOf) -> Code:
        parts = [self.plan(element) for element in node.elements]
        runs, optional = [part.run for part in parts], node.optional
        if all(part.constant for part in parts) and not optional:
            return fixed([run([]) for run in runs])
        if not optional:
            return Code(lambda frame: [run(frame) for run in runs])
        return Code(
            lambda frame: _elements(((run(frame), place in optional) for place, run in enumerate(runs)))
        )

    def _map(self, node: MapOf) -> Code:
        entries = [(self.plan(one.key), self.plan(one.value), one.optional) for one in node.entries]

        def run(frame: list[Any]) -> Map:
            made = Map()
            for key, value, optional in entries:
                name, held = key.run(frame), value.run(frame)
                if optional:
                    if type(held) is not Optional:
                        raise Failure(
                            f"cannot initialize optional entry '{name}' from non-optional value {held}"
                        )
                    if not held.present:
                        made.drop(name)
                        continue
                    held = held.value
                made.put(name, held)
            return made

        if all(key.constant and value.constant and not optional for key, value, optional in entries):
            return fixed(run([]))
        return Code(run)

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
        condition = None if isinstance(node.condition, Literal) else self.plan(node.condition).run
        step = self.plan(node.step).run
        self.scopes.pop()
        result = self.plan(node.result).run
        self.scopes.pop()
        self.grown[node.accumulator] = before
        return fold(over, start, condition, step, result, (first, second, total))


def _fresh(start: Node) -> Run:
    """Return what makes an empty list or map, each time another one."""
    return (lambda _frame: []) if isinstance(start, ListOf) else (lambda _frame: Map())


def _variable(slot: int) -> Run:
    return lambda frame: frame[slot]


def _accumulated(slot: int) -> Run:
    def run(frame: list[Any]) -> Any:
        found = frame[slot]
        if isinstance(found, Failure):
            raise found
        return found

    return run


def _bound(slot: int, start: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        if frame[slot] is UNSET:  # a binding that nobody reads is not evaluated, and cannot fail
            frame[slot] = start(frame)
        return frame[slot]

    return run


def _elements(found: Any) -> list[Any]:
    made = []
    for value, optional in found:
        if not optional:
            made.append(value)
        elif type(value) is not Optional:
            raise Failure(f"cannot initialize optional list element from non-optional value {value}")
        elif value.present:
            made.append(value.value)
    return made


def _membership(element: Run, among: list[Any]) -> Code:
    """Return `in` with a constant list, which upstream turns into a lookup."""
    if not among:
        return fixed(value=False)
    if not all(type(one) in SIMPLE for one in among):
        return Code(lambda frame: _contains(element(frame), among))

    def run(frame: list[Any]) -> bool:
        value = element(frame)
        hashable(value)
        return _contains(value, among)

    return Code(run)


def _contains(element: Any, among: list[Any]) -> bool:
    return any(is_equal(element, one) for one in among)
