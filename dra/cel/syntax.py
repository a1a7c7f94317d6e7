"""The syntax tree of an expression, after macros are expanded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra.cel.kinds import ERROR, Type

DEPTH = 100  # of a tree; deeper ones would exhaust Python's stack


@dataclass(slots=True, eq=False)
class Node:
    """
    `place` is the offset in the text that messages point at, `span` where the node stands, without the
    parentheses around it; (0, 0) of what macros add. The checker fills in the type.
    """

    place: int
    span: tuple[int, int] = field(default=(0, 0), init=False)
    depth: int = field(default=1, init=False)
    type: Type = field(default=ERROR, init=False)

    def children(self) -> list[Node]:
        return []

    def settle(self) -> None:
        """Work out the depth; to be called once the children are there."""
        self.depth = 1 + max((child.depth for child in self.children()), default=0)


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A variable; the checker turns the name of a type into a Literal by setting `constant`."""

    name: str
    constant: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.name`; with `test`, has(operand.name)."""

    operand: Node
    name: str
    test: bool = False
    constant: Any = field(default=None, init=False)

    def children(self) -> list[Node]:
        return [self.operand]


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, a method (then `target` is set) or an operator. The checker fills in the overloads."""

    function: str
    target: Node | None
    args: list[Node]
    overloads: list[str] = field(default_factory=list, init=False)

    def children(self) -> list[Node]:
        return [self.target, *self.args] if self.target else self.args


@dataclass(slots=True, eq=False)
class ListOf(Node):
    """`optional` holds the indices of elements that are left out if they have no value: `[?x]`."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()

    def children(self) -> list[Node]:
        return self.elements


@dataclass(slots=True, eq=False)
class Entry:
    key: Node
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class MapOf(Node):
    entries: list[Entry]

    def children(self) -> list[Node]:
        return [part for entry in self.entries for part in (entry.key, entry.value)]


@dataclass(slots=True, eq=False)
class Message(Node):
    """`name{field: value}`. No message type can be made in a selector; kept for its error."""

    name: str
    values: list[Node]

    def children(self) -> list[Node]:
        return self.values


@dataclass(slots=True, eq=False)
class Fold(Node):
    """
    A comprehension: go over `range` while `condition` holds, replace the accumulator by `step`.

    With `second`, `variable` is the index or key and `second` the value. A binding is a fold over nothing:
    its accumulator is the bound variable.
    """

    range: Node
    variable: str
    second: str
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node

    def children(self) -> list[Node]:
        return [self.range, self.start, self.condition, self.step, self.result]

    @property
    def binding(self) -> bool:
        return self.accumulator != ACCUMULATOR and isinstance(self.range, ListOf) and not self.range.elements


ACCUMULATOR = "__result__"


def copy(node: Node) -> Node:
    """Return a tree of its own, so that each occurrence can be given its own type."""
    match node:
        case Literal():
            made: Node = Literal(node.place, node.value)
        case Ident():
            made = Ident(node.place, node.name)
        case Select():
            made = Select(node.place, copy(node.operand), node.name, node.test)
        case Call():
            target = copy(node.target) if node.target else None
            made = Call(node.place, node.function, target, [copy(one) for one in node.args])
        case ListOf():
            made = ListOf(node.place, [copy(one) for one in node.elements], node.optional)
        case MapOf():
            entries = [Entry(copy(one.key), copy(one.value), one.optional) for one in node.entries]
            made = MapOf(node.place, entries)
        case Message():
            made = Message(node.place, node.name, [copy(one) for one in node.values])
        case Fold():
            parts = (copy(node.start), copy(node.condition), copy(node.step), copy(node.result))
            names = (node.variable, node.second, node.accumulator)
            made = Fold(node.place, copy(node.range), *names, *parts)
        case _:
            raise TypeError(type(node))
    made.span = node.span
    made.settle()
    return made
