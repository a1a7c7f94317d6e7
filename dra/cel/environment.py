"""
The CEL environment of the API server for new selectors (dynamic-resource-allocation `cel/compile.go`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dra.cel import checker as literals
from dra.cel import cost, kinds
from dra.cel.checker import Problem, TypeChecker
from dra.cel.cost_functions import VariablePart, device_parts
from dra.cel.kinds import Type
from dra.cel.parser import parse
from dra.cel.signatures import FUNCTIONS, WITH_LISTS, Overload
from dra.cel.syntax import CompileError, Node, SyntaxProblem
from dra.features import NEWEST, Features

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
    attribute = kinds.DYN if features.list_type_attributes else kinds.ANY
    fields = {
        "driver": kinds.STRING,
        "attributes": kinds.map_of(kinds.STRING, kinds.map_of(kinds.STRING, attribute)),
        "capacity": kinds.map_of(kinds.STRING, kinds.map_of(kinds.STRING, kinds.QUANTITY)),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = kinds.BOOL
    functions = WITH_LISTS if features.list_type_attributes else FUNCTIONS
    parts = device_parts(list_type_attributes=features.list_type_attributes)
    return Environment(fields, attribute, functions, parts)


def checked(text: str, known: Environment) -> Node:
    """
    Return the typed tree of an expression.

    Raise `CompileError` in the words of the API server, `NotPreviewable` for what is not known here.
    """
    if len(text.encode()) > MAX_BYTES:
        raise CompileError(f"Too long: may not be more than {MAX_BYTES} bytes")
    try:
        tree = parse(text)
    except SyntaxProblem as problem:
        raise _refusal(text, [(problem.place, problem.text)]) from None
    checker = TypeChecker(known.functions, known.device)
    checker.run(tree)
    problems = checker.problems or literals.problems(tree)
    if problems:
        raise _refusal(text, problems)
    if tree.type not in (kinds.BOOL, known.attribute):
        raise CompileError(f"must evaluate to bool or the unknown type, not {_shown(tree.type)}")
    return tree


def affordable(tree: Node, known: Environment) -> int:
    """Return the cost of a typed tree in the worst case. Raise `CompileError` if it is above the limit."""
    worst = cost.estimate(tree, known.parts)
    if worst > cost.LIMIT:
        raise CompileError(TOO_COMPLEX)
    return worst


def _shown(one: Type) -> str:
    return re.sub(r"\bany\b", "google.protobuf.Any", re.sub(r"\bnull\b", "null_type", str(one)))


def _refusal(text: str, problems: list[Problem]) -> CompileError:
    placed = sorted(((*_place(text, offset), said) for offset, said in problems), key=lambda one: one[:2])
    lines = text.split("\n")
    told = [
        f"ERROR: <input>:{line}:{column + 1}: {said}{_snippet(lines[line - 1], column)}"
        for line, column, said in placed
    ]
    return CompileError("compilation failed: " + "\n".join(told))


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
