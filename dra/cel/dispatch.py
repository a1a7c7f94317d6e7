"""
Which implementation a call runs (cel-go `common/decls/decls.go`).

Where the types were known and leave one overload, it runs at once; where they were not, the values decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel import signatures
from dra.cel.access import Run
from dra.cel.functions import OVERLOADS, WHOLE
from dra.cel.functions.operators import extend_in_place, insert_in_place
from dra.cel.kinds import Type
from dra.cel.syntax import Call
from dra.cel.values import matches, no_overload

IN_PLACE = {"_+_": extend_in_place, "cel.@mapInsert": insert_in_place}


def caller(node: Call, arguments: list[Run], *, grown: bool) -> Run:
    """
    Return what calls the function of `node`.

    `grown` says that the first argument is the accumulator of a comprehension, which nobody else holds.
    """
    if grown and node.function in IN_PLACE:
        return _applied(IN_PLACE[node.function], arguments)
    if node.function in WHOLE:
        return _applied(WHOLE[node.function], arguments)
    if len(node.overloads) == 1 and not any(_open(child.type) for child in node.children()):
        return _applied(OVERLOADS[node.overloads[0]], arguments)
    return _applied(_guarded(node.function, node.overloads), arguments)


def _open(one: Type) -> bool:
    return one.kind in ("dyn", "any", "error") or any(map(_open, one.parameters))


def _guarded(function: str, possible: list[str]) -> Callable[..., Any]:
    if len(possible) > 1:
        possible = [one.name for one in signatures.WITH_LISTS[function]]
    choices = [
        (signatures.OVERLOADS[name].parameters, OVERLOADS[name]) for name in possible if name in OVERLOADS
    ]

    def run(*values: Any) -> Any:
        for parameters, implementation in choices:
            if len(parameters) == len(values) and all(map(matches, parameters, values)):
                return implementation(*values)
        raise no_overload(function, *values)

    return run


def _applied(implementation: Any, arguments: list[Run]) -> Run:
    match arguments:
        case [one]:
            return lambda frame: implementation(one(frame))
        case [one, two]:
            return lambda frame: implementation(one(frame), two(frame))
    return lambda frame: implementation(*(argument(frame) for argument in arguments))
