"""What is checked of a typed tree besides types (cel-go `cel/validator.go`): mixed literals, bad patterns."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from dra.cel.checker import Problem
from dra.cel.kinds import Type, equivalent
from dra.cel.patterns import compiled
from dra.cel.syntax import Call, ListOf, Literal, MapOf, Node


def every(tree: Node) -> Iterator[Node]:
    """Yield a node and all below it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children())


def problems(tree: Node) -> list[Problem]:
    found: list[Problem] = []
    for node in every(tree):
        if isinstance(node, Call) and node.function == "matches":
            found += _pattern(node)
        elif isinstance(node, ListOf):
            found += _mixed(
                [
                    (one, one.type.parameters[0] if index in node.optional else one.type)
                    for index, one in enumerate(node.elements)
                ]
            )[:1]
        elif isinstance(node, MapOf):
            found += _mixed([(entry.key, entry.key.type) for entry in node.entries])
            found += _mixed(
                [
                    (entry.value, entry.value.type.parameters[0] if entry.optional else entry.value.type)
                    for entry in node.entries
                ]
            )
    return found


def _pattern(call: Call) -> list[Problem]:
    """Check the first argument, as upstream does: of the function matches(text, pattern) that is the text."""
    pattern = call.args[0]
    if not isinstance(pattern, Literal) or type(pattern.value) is not str:
        return []
    try:
        compiled(pattern.value)
    except re2.error:
        return [(pattern.place, "invalid matches argument")]
    return []


def _mixed(typed: list[tuple[Node, Type]]) -> list[Problem]:
    return [
        (node, f"expected type '{typed[0][1]}' but found '{found}'")
        for node, found in ((one.place, kind) for one, kind in typed)
        if not equivalent(typed[0][1], found)
    ]
