"""
The type checker: every node gets its type, every call its possible overloads (cel-go `checker/checker.go`).

Messages are upstream's, with positions in the text. `problems` also validates literals and regular
expressions (cel-go `cel/validator.go`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import re2

from dra.cel import types
from dra.cel.syntax import (
    Call,
    Expression,
    Fold,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Message,
    NotPreviewable,
    Select,
)
from dra.cel.types import (
    NOT_HERE,
    Bindings,
    Overload,
    Type,
    equivalent,
    fit_all,
    is_dyn,
    loose,
    substitute,
    unwrapped,
)
from dra.cel.values import NAMES, TypeValue, Uint, compiled

TYPE_NAMES = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "uint": types.UINT,
    "string": types.STRING,
    "null_type": types.NULL,
    "type": types.TYPE,
    "list": types.list_of(types.parameter("A")),
    "map": types.map_of(types.parameter("A"), types.parameter("B")),
    "optional_type": types.optional_of(types.DYN),
    "net.IP": types.IP,
    "net.CIDR": types.CIDR,
}
LITERALS = {kind: NAMES[kind] for kind in (bool, int, Uint, float, str, bytes)} | {type(None): types.NULL}

type Problem = tuple[int, str]
type Fields = Mapping[str, Type]


class TypeChecker:
    """Checks one tree. `problems` says what is wrong, in no order."""

    def __init__(self, functions: Mapping[str, list[Overload]], device: Fields) -> None:
        self.functions, self.device = functions, device
        self.scopes: list[dict[str, Type]] = []
        self.bound: Bindings = {}
        self.free = 0
        self.problems: list[Problem] = []
        self.seen: list[Expression] = []

    def run(self, tree: Expression) -> None:
        """Check everything; then put what was learned of type parameters into the types."""
        self.check(tree)
        for node in self.seen:
            node.type = substitute(self.bound, node.type, free_to_dyn=True)

    def check(self, node: Expression) -> Type:
        match node:
            case Literal():
                node_type = LITERALS[type(node.value)]
            case Ident():
                node_type = self._name(node, node.name)
            case Select():
                node_type = self._select(node)
            case Call():
                node_type = self._call(node)
            case ListOf():
                node_type = self._list(node)
            case MapOf():
                node_type = self._map(node)
            case Fold():
                node_type = self._fold(node)
            case Message():
                node_type = self._message(node)
            case _:
                raise TypeError(type(node))
        node.type = node_type
        self.seen.append(node)
        return node_type

    def fail(self, node: Expression, text: str) -> Type:
        self.problems.append((node.offset, text))
        return types.ERROR

    def known(self, open_type: Type) -> Type:
        return substitute(self.bound, open_type)

    def new_type(self) -> Type:
        self.free += 1
        return types.parameter(f"_var{self.free - 1}")

    def fits(self, given: Type, expected: Type) -> bool:
        learned = fit_all(self.bound, [given], [expected])
        self.bound = self.bound if learned is None else learned
        return learned is not None

    def _lookup(self, node: Ident | Select, name: str) -> Type | None:
        if not name.startswith("."):
            for scope in reversed(self.scopes):
                if name in scope:
                    return scope[name]
        name = name.lstrip(".")
        if name == "device":
            return types.DEVICE
        if name not in TYPE_NAMES:
            if name.startswith("google.protobuf."):
                raise NotPreviewable(f"The expression uses {name}, which only a cluster can evaluate.")
            return None
        node.constant = TypeValue(name)
        return types.type_of_type(TYPE_NAMES[name])

    def _undeclared(self, node: Expression, name: str) -> Type:
        return self.fail(node, f"undeclared reference to '{name}' (in container '')")

    def _name(self, node: Ident, name: str) -> Type:
        declared = self._lookup(node, name)
        return self._undeclared(node, name) if declared is None else declared

    def _select(self, node: Select) -> Type:
        name = qualified(node)
        if name and not node.test and not any(name.split(".")[0] in scope for scope in self.scopes):
            field_type = self._lookup(node, name)
            if field_type is not None:
                return field_type
        field_type = self._field(node, node.operand, node.name)
        return types.BOOL if node.test else self.known(field_type)

    def _field(self, node: Expression, operand: Expression, name: str, *, optional: bool = False) -> Type:
        operand_type, was_optional = unwrapped(self.known(self.check(operand)))
        field_type = types.DYN
        if operand_type.kind == "map":
            field_type = operand_type.parameters[1]
        elif operand_type.kind == "message":
            if operand_type == types.DEVICE:
                field_type = self.device.get(name) or self.fail(node, f"undefined field '{name}'")
            else:
                field_type = self.fail(node, f"unexpected failed resolution of '{operand_type}'")
        elif operand_type.kind == "parameter":
            self.fits(types.DYN, operand_type)
        elif not loose(operand_type):
            self.fail(node, f"type '{operand_type}' does not support field selection")
        return types.optional_of(field_type) if was_optional or optional else field_type

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)  # noqa: S101 - the parser made it
            node.overloads = ["select_optional_field"]
            return self.known(self._field(node, node.args[0], field.value, optional=True))
        for argument in node.args:
            self.check(argument)
        if node.target is None:
            return self._resolve(node, node.function.lstrip("."))
        prefix = qualified(node.target)
        if prefix and (full := f"{prefix}.{node.function}".lstrip(".")) in self.functions:
            node.function, node.target = full, None
            return self._resolve(node, full)
        self.check(node.target)
        return self._resolve(node, node.function)

    def _resolve(self, node: Call, function: str) -> Type:
        if function in NOT_HERE:
            raise not_here(function)
        overloads = self.functions.get(function)
        if overloads is None:
            return self._undeclared(node, node.function)
        node.function = function
        argument_types = [child.type for child in node.children()]
        if function in ("_&&_", "_||_"):
            return self._logical(node)
        result: Type | None = None
        for overload in overloads:
            overload_result = self._overload(node, overload, argument_types)
            if overload_result is None:
                continue
            node.overloads.append(overload.name)
            if result is None:
                result = overload_result
            elif not is_dyn(result) and overload_result != result:
                result = types.DYN
        if result is not None:
            return result
        shown = [
            str(substitute(self.bound, argument_type, free_to_dyn=True)) for argument_type in argument_types
        ]
        before = f"{shown.pop(0)}." if node.target else ""
        return self.fail(
            node, f"found no matching overload for '{function}' applied to '{before}({', '.join(shown)})'"
        )

    def _overload(self, node: Call, overload: Overload, argument_types: list[Type]) -> Type | None:
        """Return the type that an overload gives here; None if it does not fit."""
        if overload.method is (node.target is None):
            return None
        fresh = {types.parameter(name): self.new_type() for name in overload.free}
        learned = fit_all(
            self.bound, argument_types, [substitute(fresh, parameter) for parameter in overload.parameters]
        )
        if learned is None:
            return None
        self.bound = learned
        return self.known(substitute(fresh, overload.result))

    def _logical(self, node: Call) -> Type:
        node.overloads = ["logical_and" if node.function == "_&&_" else "logical_or"]
        wrong = [term for term in node.args if not self.fits(term.type, types.BOOL)]
        for term in wrong:
            self.fail(term, f"expected type 'bool' but found '{term.type}'")
        return types.ERROR if wrong else types.BOOL

    def _join(self, before: Type | None, now: Type) -> Type:
        """Return the type of the elements so far; the check of literals refuses those that are mixed."""
        if before is None:
            return now
        return types.more_general(before, now) if self.fits(before, now) else types.DYN

    def _held(self, node: Expression, element_type: Type) -> Type:
        inner, optional = unwrapped(element_type)
        if not optional and not is_dyn(inner):
            self.fail(node, f"expected type '{types.optional_of(inner)}' but found '{inner}'")
        return inner

    def _list(self, node: ListOf) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            element_type = self.check(element)
            joined = self._join(
                joined, self._held(element, element_type) if index in node.optional else element_type
            )
        return types.list_of(joined or self.new_type())

    def _map(self, node: MapOf) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join(key, self.check(entry.key))
            map_type = self.check(entry.value)
            value = self._join(value, self._held(entry.value, map_type) if entry.optional else map_type)
        key = key or self.new_type()
        return types.map_of(key, value or self.new_type())

    def _message(self, node: Message) -> Type:
        for value in node.values:
            self.check(value)
        if node.name.lstrip(".").startswith(("google.", "kubernetes.")):
            raise NotPreviewable(f"The expression makes a {node.name}, which only a cluster can do.")
        return self._undeclared(node, node.name)

    def _fold(self, node: Fold) -> Type:
        over = self.check(node.range)
        start = self.check(node.start)
        over = self.known(over)
        first, second = self._range(node, over)
        self.scopes.append({node.accumulator: start})
        self.scopes.append({node.variable: first} | ({node.second: second} if node.second else {}))
        for part, expected in ((node.condition, types.BOOL), (node.step, start)):
            part_type = self.check(part)
            if not self.fits(expected, part_type):
                self.fail(part, f"expected type '{expected}' but found '{part_type}'")
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        return self.known(result)

    def _range(self, node: Fold, over: Type) -> tuple[Type, Type]:
        """Return the types of the variables; the second one means something only where there is one."""
        if over.kind == "list":
            element = over.parameters[0]
            return (types.INT, element) if node.second else (element, element)
        if over.kind == "map":
            return over.parameters[0], over.parameters[1]
        if over.kind in ("dyn", "error", "parameter"):
            self.fits(types.DYN, over)
            return types.DYN, types.DYN
        self.fail(
            node.range,
            f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR


def qualified(node: Expression) -> str:
    """Return `a.b.c` of a chain of plain fields; "" if it is something else."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.name)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    return ".".join([node.name, *reversed(parts)])


def not_here(function: str) -> NotPreviewable:
    return NotPreviewable(f"The expression uses {function}(), which only a cluster can evaluate.")


def every(tree: Expression) -> Iterator[Expression]:
    """Yield a node and all below it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children())


def problems(tree: Expression) -> list[Problem]:
    """Return what upstream refuses in literals: patterns, and lists and maps of mixed types."""
    messages: list[Problem] = []
    for node in every(tree):
        if isinstance(node, Call) and node.function == "matches":
            messages += _pattern(node)
        elif isinstance(node, ListOf):
            messages += _mixed(
                [
                    (element, element.type.parameters[0] if index in node.optional else element.type)
                    for index, element in enumerate(node.elements)
                ]
            )[:1]
        elif isinstance(node, MapOf):
            messages += _mixed([(entry.key, entry.key.type) for entry in node.entries])
            messages += _mixed(
                [
                    (entry.value, entry.value.type.parameters[0] if entry.optional else entry.value.type)
                    for entry in node.entries
                ]
            )
    return messages


def _pattern(call: Call) -> list[Problem]:
    """Check the first argument, as upstream does: of the function matches(text, pattern) that is the text."""
    pattern = call.args[0]
    if not isinstance(pattern, Literal) or type(pattern.value) is not str:
        return []
    try:
        compiled(pattern.value)
    except re2.error:
        return [(pattern.offset, "invalid matches argument")]
    return []


def _mixed(typed: list[tuple[Expression, Type]]) -> list[Problem]:
    return [
        (node.offset, f"expected type '{typed[0][1]}' but found '{node_type}'")
        for node, node_type in typed
        if not equivalent(typed[0][1], node_type)
    ]
