"""Fields and indices at run time (cel-go `interpreter/attributes.go`): of maps, lists and optional values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dra.cel.syntax import Call, Ident, Literal, Node, Select
from dra.cel.values import NONE, Failure, Map, Optional, Uint, some, type_of
from dra.cel.view import MISSING
from dra.facts import Ref

type Run = Callable[[list[Any]], Any]


class Code(NamedTuple):
    """What evaluates a part of an expression; `constant` if it needs no device for it."""

    run: Run
    constant: bool = False


def fixed(value: Any) -> Code:
    return Code(lambda _frame: value, constant=True)


def reference(node: Node) -> tuple[Ref, bool] | None:
    """Return what `device.attributes["domain"].name` reads, and whether as an optional; else None."""
    match node:
        case Select(operand=operand, name=name):
            optional = False
        case Call(function="_[_]" | "_[?_]" | "_?._" as function, args=[operand, Literal(value=str(name))]):
            optional = function != "_[_]"
        case _:
            return None
    domain = _domain(operand)
    return ((domain[0], domain[1], name), optional) if domain else None


def table(node: Node) -> str:
    """Return "attributes" or "capacity" of `device.attributes` and `device.capacity`; "" of anything else."""
    match node:
        case Select(
            operand=Ident(name="device" | ".device"), name="attributes" | "capacity" as part, test=False
        ):
            return part
    return ""


def _domain(node: Node) -> tuple[str, str] | None:
    match node:
        case Select(operand=operand, name=name, test=False):
            pass
        case Call(function="_[_]", args=[operand, Literal(value=str(name))]):
            pass
        case _:
            return None
    part = table(operand)
    return (part, name) if part else None


def path(node: Node) -> Run | None:
    """Return what reads one thing of the device at once; None if the node is something else."""
    match node:
        case Select(operand=Ident(name="device" | ".device"), name=name, test=False):
            return _field(name)
    found = reference(node)
    if found is None:
        return None
    ref, optional = found
    if isinstance(node, Select) and node.test:
        return lambda frame: frame[0].read(ref) is not MISSING
    if optional:
        return lambda frame: NONE if (value := frame[0].read(ref)) is MISSING else some(value)

    def run(frame: list[Any]) -> Any:
        value = frame[0].read(ref)
        if value is MISSING:
            raise Failure(f"no such key: {ref[2]}")
        return value

    return run


def _field(name: str) -> Run:
    if name == "driver":
        return lambda frame: frame[0].driver
    if name == "allowMultipleAllocations":
        return lambda frame: frame[0].shareable
    return lambda frame: frame[0].domains(name)


def select(operand: Run, name: str) -> Run:
    return index(operand, lambda _frame: name, optional=False)


def present(operand: Run, name: str) -> Run:
    """Return has()."""

    def run(frame: list[Any]) -> bool:
        value = operand(frame)
        if type(value) is Optional:
            return value.present and _find(value.value, name)[1]
        return _find(value, name)[1]

    return run


def index(operand: Run, key: Run, *, optional: bool) -> Run:
    """Return `operand[key]`; an optional operand, or `[?key]`, gives an optional value."""

    def run(frame: list[Any]) -> Any:
        value = operand(frame)
        if type(value) is Optional:
            if not value.present:
                return NONE
            return _maybe(value.value, key(frame))
        if optional:
            return _maybe(value, key(frame))
        name = key(frame)
        found, there = _find(value, name)
        if there:
            return found
        shown = str(name).lower() if type(name) is bool else name
        raise Failure(f"index out of bounds: {shown}" if type(value) is list else f"no such key: {shown}")

    return run


def _maybe(value: Any, key: Any) -> Optional:
    found, there = _find(value, key)
    return some(found) if there else NONE


def _find(value: Any, key: Any) -> tuple[Any, bool]:
    """Return an entry and whether it is there; what is neither map nor list has none."""
    if isinstance(value, Map):
        return value.find(key)
    if type(value) is not list:
        return None, False
    place = _whole(key)
    return (value[place], True) if 0 <= place < len(value) else (None, False)


def _whole(key: Any) -> int:
    if type(key) is int or type(key) is Uint:
        return int(key)
    if type(key) is float:
        if key.is_integer():
            return int(key)
        raise Failure(f"unsupported index value {key} in list")
    raise Failure(f"unsupported index type '{type_of(key).name}' in list")
