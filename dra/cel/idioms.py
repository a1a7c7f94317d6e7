"""
Common forms of selectors, read from the syntax tree: conjuncts, attribute reads and comparisons.

An expression need not be valid; a malformed one has no such form.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dra.attributes import Ref
from dra.cel.access import reference
from dra.cel.parser import parse
from dra.cel.syntax import (
    Call,
    Expression,
    Ident,
    ListOf,
    Literal,
    NotPreviewable,
    Select,
    SyntaxProblem,
    Token,
    tokens,
)

KEPT = 2048  # trees
SIGNS = {f"_{sign}_": sign for sign in (">=", "<=", ">", "<", "==", "!=")}
METHODS = {
    "isGreaterThan": ">",
    "isLessThan": "<",
    "startsWith": "begins",
    "endsWith": "ends",
    "contains": "contains",
}
KINDS: dict[type, str] = {str: "string", int: "int"}

type Span = tuple[int, int]
type Expected = tuple[str, str, Span]  # the value of a literal, its kind, and where it stands


@dataclass(frozen=True, slots=True)
class Read:
    """
    A place where an expression reads an attribute or capacity of its `table`, `device.attributes["domain"]`.

    `has` is has(…), and `optional` one of `.?` and `[?…]`; all others fail where a device lacks the name.
    """

    ref: Ref
    span: Span
    table: str
    has: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class LiteralComparison:
    """
    What is read, compared with a literal. `ref` is None for `device.driver`.

    `sign` is one of >= <= > < == != begins ends contains in; `expected` the value of the literal, of `kind`
    string, int, bool, quantity, version or list. `access` is the text of what is read, `left` the same
    with its `.orValue(…)`, `right` what it is compared with, as `quantity("1Gi")`. `operator` is whether
    `sign` stands between the two.
    """

    ref: Ref | None
    sign: str
    expected: str
    kind: str
    operator: bool
    span: Span
    literal: Span
    access: str
    left: str
    right: str


@lru_cache(maxsize=KEPT)
def conjuncts(expression: str) -> tuple[str, ...]:
    """
    Return what `&&` joins at the top of an expression, comments left out; the expression itself if nothing.

    CEL's `&&` is false if either side is, in any order and whatever the other side is (cel-spec, "Logical
    Operators"), so whatever turns an expression down turns down one of its parts.
    """
    tree = _tree(expression)
    if tree is None:
        return (expression,)
    words = tokens(expression)
    indices = [word.offset for word in words]
    parts = (slice(*(bisect_left(indices, offset) for offset in part.span)) for part in _joined(tree))
    return tuple(_written(words[part]) for part in parts)


def joined(parts: Sequence[str]) -> str:
    """Return one expression that asks for all the parts; "" for none."""
    return " && ".join(part if len(parts) == 1 else f"({part})" for part in parts)


def reads(expression: str) -> list[Read]:
    """Return all places that read an attribute or capacity, in the order of the text."""
    by_span = {}
    for node in _nodes(expression):
        if ref := reference(node):
            has = isinstance(node, Select) and node.test
            table = _at(expression, node.children()[0].span)
            by_span[node.span] = Read(ref[0], node.span, table, has, ref[1])
    return [by_span[span] for span in sorted(by_span)]


def comparisons(expression: str) -> list[LiteralComparison]:
    """Return all comparisons in an expression, in the order of the text."""
    by_span = {
        comparison.span: comparison
        for node in _nodes(expression)
        if (comparison := _comparison(expression, node))
    }
    return [by_span[span] for span in sorted(by_span)]


def comparison(expression: str) -> LiteralComparison | None:
    """Return the comparison that an expression is as a whole; None if it is something else."""
    tree = _tree(expression)
    return _comparison(expression, tree) if tree else None


def replaced(expression: str, changes: Mapping[Span, str]) -> str:
    """Return the expression with other text at some places, which do not overlap."""
    for (start, end), text in sorted(changes.items(), reverse=True):
        expression = expression[:start] + text + expression[end:]
    return expression


def quoted(text: str) -> str:
    """Return a text as CEL has it. JSON's escapes are CEL's, save those of surrogate pairs."""
    return json.dumps(text, ensure_ascii=False)


def methods(expression: str) -> str:
    """Replace `a >= b`, undefined for quantities and versions, by `a.compareTo(b) >= 0`."""
    return replaced(
        expression,
        {
            comparison.span: f"{comparison.left}.compareTo({comparison.right}) {comparison.sign} 0"
            for comparison in comparisons(expression)
            if comparison.operator and comparison.kind in ("quantity", "version")
        },
    )


def compared(left: str, sign: str, value: str, kind: str) -> str:
    """Return a comparison with a value, which is text, as CEL has it for attributes of this kind."""
    if kind not in ("version", "quantity"):
        return f"{left} {sign} {quoted(value) if kind == 'string' else value}"
    if kind == "version" and re.fullmatch(r"\d+(\.\d+)*", value):
        value += ".0" * max(0, 2 - value.count("."))  # a semantic version has three numbers
    function = "semver" if kind == "version" else "quantity"
    return f"{left}.compareTo({function}({quoted(value)})) {sign} 0"


@lru_cache(maxsize=KEPT)
def _tree(expression: str) -> Expression | None:
    """Return the tree, which many use: it is not to be changed."""
    try:
        return parse(expression)
    except (SyntaxProblem, NotPreviewable):
        return None


def _nodes(expression: str) -> Iterator[Expression]:
    tree = _tree(expression)
    left = [tree] if tree else []
    while left:
        node = left.pop()
        yield node
        left += node.children()


def _joined(node: Expression) -> Iterator[Expression]:
    if isinstance(node, Call) and node.function == "_&&_":
        for part in node.args:
            yield from _joined(part)
    else:
        yield node


def _written(words: Sequence[Token]) -> str:
    """Return tokens as text, with one space for whatever stands between two of them."""
    ends = [word.offset + len(word.text) for word in words]
    gaps = [" " if word.offset > end else "" for word, end in zip(words[1:], ends, strict=False)]
    return "".join(gap + word.text for gap, word in zip(["", *gaps], words, strict=True))


def _comparison(expression: str, node: Expression) -> LiteralComparison | None:
    match node:
        case Call(function="@in", args=[left, ListOf() as right]):
            sign, expected = "in", _listed(right)
        case Call(
            args=[Call(function="compareTo", target=Expression() as left, args=[right]), Literal(value=0)]
        ):
            sign, expected = SIGNS.get(node.function, ""), _literal(right)
        case Call(function=function, args=[left, right]):
            sign, expected = SIGNS.get(function, ""), _literal(right)
        case Call(function=function, target=Expression() as left, args=[right]):
            sign, expected = METHODS.get(function, ""), _literal(right)
        case _:
            return None
    access = left
    match left:
        case Call(function="orValue", target=Expression() as read, args=[default]) if _literal(default):
            access = read
    ref = reference(access)
    if not sign or expected is None or not (ref or _is_driver(access)) or getattr(access, "test", False):
        return None
    value, kind, literal = expected
    operator, texts = left in node.args, (_at(expression, operand.span) for operand in (access, left, right))
    return LiteralComparison(ref[0] if ref else None, sign, value, kind, operator, node.span, literal, *texts)


def _is_driver(node: Expression) -> bool:
    match node:
        case Select(operand=Ident(name="device" | ".device"), name="driver"):
            return True
    return False


def _literal(node: Expression) -> Expected | None:
    """Read a string, a whole number, true or false, and `quantity("1Gi")` and `semver("1.0.0")`."""
    match node:
        case Literal(value=bool() as flag):
            return str(flag).lower(), "bool", node.span
        case Literal(value=str() | int() as value) if type(value) in KINDS:
            return str(value), KINDS[type(value)], node.span
        case Call(
            function="quantity" | "semver" as kind, target=None, args=[Literal(value=str(text)) as argument]
        ):
            return text, "version" if kind == "semver" else kind, argument.span
    return None


def _listed(node: ListOf) -> Expected | None:
    literals = [_literal(literal) for literal in node.elements]
    values = [literal[0] for literal in literals if literal and literal[1] in ("string", "int")]
    return (", ".join(values), "list", node.span) if values and len(values) == len(literals) else None


def _at(expression: str, span: Span) -> str:
    return expression[span[0] : span[1]]
