"""
The cost estimate of an expression, as the API server computes it (cel-go `checker/cost.go`).

The API server rejects a selector above `LIMIT`. The scheduler also tracks the actual cost, which is at most
the estimate but for single units, so it is not tracked here.
"""

from __future__ import annotations

from typing import NamedTuple

from dra.cel.cost_functions import (
    NOTHING_YET,
    ONE,
    UNKNOWN,
    AccessPath,
    Argument,
    Estimate,
    Size,
    VariablePart,
    call_cost,
    capped,
    size_at,
)
from dra.cel.syntax import ACCUMULATOR, Call, Expression, Fold, Ident, ListOf, Literal, MapOf, Message, Select
from dra.cel.types import Type

LIMIT = 1_000_000  # k8s.io/api `resource/v1/types.go`, CELSelectorExpressionMaxCost
LIST, MAP, MESSAGE = 10, 30, 40  # of making one
SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))


class Contents(NamedTuple):
    """The sizes of the keys and values of a list or map."""

    kind: str
    key: Size
    value: Size


class Local(NamedTuple):
    path: AccessPath
    size: Size | None
    contents: Contents | None


def estimate(tree: Expression, device: VariablePart) -> int:
    """Return the cost of a checked tree in the worst case, at most 2**64 - 1."""
    return _Estimator(device).cost(tree)


class _Estimator:
    def __init__(self, device: VariablePart) -> None:
        self.device = device
        self.paths: dict[Expression, AccessPath] = {}
        self.locals: dict[str, list[Local]] = {}
        self.sizes: dict[Expression, Size] = {}
        self.contents: dict[Expression, Contents] = {}

    def cost(self, node: Expression) -> int:
        match node:
            case Ident():
                local = self.local(node.name)
                self.paths[node] = local.path if local else (node.name,)
                return 1
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListOf() | MapOf():
                return self._literal(node)
            case Fold():
                return self._binding(node) if node.binding else self._fold(node)
            case Message():
                return capped(MESSAGE + sum(map(self.cost, node.values)))
        return 0

    def local(self, name: str) -> Local | None:
        scopes = self.locals.get(name)
        return scopes[-1] if scopes else None

    def push(self, name: str, path: AccessPath, size: Size | None, contents: Contents | None = None) -> None:
        self.locals.setdefault(name, []).append(Local(path, size, contents))

    def path(self, node: Expression) -> AccessPath:
        if isinstance(node, Ident) and (local := self.local(node.name)):
            return local.path
        return self.paths.get(node, ())

    def size(self, node: Expression) -> Size | None:
        """Return what is known of the size of a node's value."""
        if node in self.sizes:
            return self.sizes[node]
        match node:
            case Literal(value=str() | bytes() as value):
                return Size(len(value), len(value))
            case Literal():
                return ONE
            case ListOf(elements=parts) | MapOf(entries=parts):
                return Size(len(parts), len(parts))
        declared = size_at(self.path(node), self.device)
        if declared:
            self.sizes[node] = declared
            return declared
        if _scalar(node.type):
            return ONE
        local = self.local(node.name) if isinstance(node, Ident) else None
        return local.size if local else None

    def inside(self, node: Expression) -> Contents | None:
        if node in self.contents:
            return self.contents[node]
        local = self.local(node.name) if isinstance(node, Ident) else None
        return local.contents if local else None

    def note(self, node: Expression, size: Size | None, contents: Contents | None = None) -> None:
        if size:
            self.sizes[node] = size
        if contents:
            self.contents[node] = contents

    def argument(self, node: Expression) -> Argument:
        path = self.path(node)
        if path and path[0] == ACCUMULATOR:
            path = ()
        return Argument(path, node.type, node, self.size(node))

    def _select(self, node: Select) -> int:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if node.operand.type.kind in ("map", "message"):
            cost += 1
        self.paths[node] = (*self.path(node.operand), node.name)
        return capped(cost)

    def _call(self, node: Call) -> int:
        if node.function == "dyn":
            cost = self.cost(node.args[0])
            self.note(node, self.size(node.args[0]), self.inside(node.args[0]))
            return capped(cost + 1)
        costs = [self.cost(argument) for argument in node.args]
        arguments = [self.argument(argument) for argument in node.args]
        before = self.cost(node.target) if node.target else 0
        target = self.argument(node.target) if node.target else None
        worst, size = 0, None
        for overload in node.overloads:
            estimate = self._overload(node, overload, target, arguments, costs)
            worst = max(worst, estimate.cost)
            if estimate.size:
                size = size.union(estimate.size) if size else estimate.size
            if overload in ("index_list", "index_map"):
                inside = self.inside(node.args[0])
                size = inside.value if inside else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[node] = (*self.path(node.args[0]), step)
            size = size or self.size(node)
        self.note(node, size)
        return capped(before + worst)

    def _overload(
        self, node: Call, overload: str, target: Argument | None, arguments: list[Argument], costs: list[int]
    ) -> Estimate:
        if overload == "conditional":
            yes, no = (self.inside(part) for part in node.args[1:])
            self.note(node, None, _union(yes, no))
            size = (arguments[1].size or UNKNOWN).union(arguments[2].size or UNKNOWN)
            return Estimate(capped(costs[0] + max(costs[1], costs[2])), size)
        if overload in ("logical_and", "logical_or"):
            return Estimate(capped(sum(costs)))
        if overload in ("add_string", "add_bytes", "add_list"):
            self.note(node, None, _union(*(self.inside(part) for part in node.args)))
        estimate = call_cost(node.function, overload, target, arguments, self.device)
        return Estimate(capped(estimate.cost + sum(costs)), estimate.size)

    def _literal(self, node: ListOf | MapOf) -> int:
        """Estimate a list or map that is written out."""
        parts = node.children()
        cost = capped(sum(map(self.cost, parts)) + (LIST if isinstance(node, ListOf) else MAP))
        if isinstance(node, ListOf):
            self.contents[node] = Contents("list", ONE, self._range(node.elements))
        else:
            keys, values = [entry.key for entry in node.entries], [entry.value for entry in node.entries]
            self.contents[node] = Contents("map", self._range(keys), self._range(values))
        return cost

    def _range(self, nodes: list[Expression]) -> Size:
        size = NOTHING_YET if nodes else Size(0, 0)
        for node in nodes:
            size = size.union(self.size(node) or UNKNOWN)
        return size

    def _binding(self, node: Fold) -> int:
        cost = self.cost(node.range) + self.cost(node.start)
        self.push(node.accumulator, self.path(node.start), self.size(node.start), self.inside(node.start))
        cost += self.cost(node.result)
        self.locals[node.accumulator].pop()
        self.note(node, self.size(node.result), self.inside(node.result))
        return capped(cost)

    def _fold(self, node: Fold) -> int:
        cost = self.cost(node.range) + self.cost(node.start)
        self.push(node.accumulator, self.path(node.start), self.size(node.start), self.inside(node.start))
        inside = self.inside(node.range)
        kind = inside.kind if inside else node.range.type.kind
        keys, values = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
        key, value = (inside.key, inside.value) if inside else (None, None)
        path = self.path(node.range)
        if node.second:
            self.push(node.variable, (*path, keys), key)
            self.push(node.second, (*path, values), value)
        elif kind == "list":
            self.push(node.variable, (*path, values), value)
        else:
            self.push(node.variable, (*path, keys), key)
        per_step = capped(self.cost(node.condition) + self.cost(node.step))
        self.locals[node.variable].pop()
        if node.second:
            self.locals[node.second].pop()
        cost += self.cost(node.result)
        self.locals[node.accumulator].pop()
        count = self.size(node.range) or UNKNOWN
        if isinstance(node.start, Literal):
            self.note(node, self.size(node.start))
        elif isinstance(node.start, ListOf | MapOf):
            self.note(node, count, self.inside(node.step))
        return capped(cost + count.most * per_step)


def _union(left: Contents | None, right: Contents | None) -> Contents | None:
    if left is None or right is None:
        return None
    return Contents(left.kind, left.key.union(right.key), left.value.union(right.value))


def _scalar(value_type: Type) -> bool:
    return value_type.kind in SCALARS or (
        value_type.name == "optional_type" and _scalar(value_type.parameters[0])
    )
