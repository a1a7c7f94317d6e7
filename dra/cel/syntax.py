"""
Errors, tokens, literals (cel-go `parser/gen/CEL.g4`, `parser/unescape.go`) and the nodes of the syntax tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dra.cel.types import ERROR, Type


class CelError(Exception):
    """An expression could not be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CompileError(CelError):
    """The expression is wrong whatever the device: the API server refuses it, in these words."""


class EvaluationError(CelError):
    """
    The expression fails on some device, such as by naming an attribute that the device lacks.

    Upstream gives up on the whole pod then, not on this device alone.
    """


class NotPreviewable(CelError):
    """
    The expression may be right, but it uses a part of CEL that the portal cannot run: never guess its result.
    """


class SyntaxProblem(Exception):
    """Something is wrong at an offset of the text. Becomes part of a `CompileError`."""

    def __init__(self, offset: int, text: str) -> None:
        super().__init__(text)
        self.offset, self.text = offset, text


ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
QUOTED = (
    rf'[rR]"""(?s:.*?)"""|[rR]\'\'\'(?s:.*?)\'\'\'|[rR]"[^"\n\r]*"|[rR]\'[^\'\n\r]*\''
    rf'|"""(?:{ESCAPE}|[^\\])*?"""|\'\'\'(?:{ESCAPE}|[^\\])*?\'\'\''
    rf'|"(?:{ESCAPE}|[^\\"\n\r])*"|\'(?:{ESCAPE}|[^\\\'\n\r])*\''
)
TOKEN = re.compile(
    rf"""(?P<space>(?:[\t\ \r\n\f]|//[^\n]*)+)
      | (?P<bytes>[bB](?:{QUOTED}))
      | (?P<string>{QUOTED})
      | (?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
      | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<escaped>`[A-Za-z0-9_.\-/\ ]+`)
      | (?P<mark>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])""",
    re.VERBOSE,
)
KEYWORDS = frozenset(("in", "true", "false", "null"))
SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11} | {c: ord(c) for c in "\"'\\?`"}


class Token(NamedTuple):
    """`kind` is a group of `TOKEN`; marks and keywords are their own kind. The last one is `<EOF>`."""

    kind: str
    text: str
    offset: int


def tokens(text: str) -> list[Token]:
    """Split `text`. Raise `SyntaxProblem` at what is no token."""
    words: list[Token] = []
    offset = 0
    while offset < len(text):
        match = TOKEN.match(text, offset)
        if match is None:
            raise SyntaxProblem(
                offset, f"Syntax error: token recognition error at: '{_unread(text, offset)}'"
            )
        kind, word = match.lastgroup or "", match[0]
        if kind != "space":
            is_keyword = kind == "mark" or word in KEYWORDS
            words.append(Token(word if is_keyword else kind, word, offset))
        offset = match.end()
    words.append(Token("<EOF>", "<EOF>", offset))
    return words


def _unread(text: str, offset: int) -> str:
    """Return what upstream's lexer would have read before giving up: the rest of a line after a quote."""
    if text[offset] in "\"'":
        return re.split(r"[\n\r]", text[offset:], maxsplit=1)[0]
    return text[offset : offset + (2 if text[offset] in "&|=" and offset + 1 < len(text) else 1)]


def text_value(token: Token) -> str:
    """Return the value of a string literal. Raise `SyntaxProblem` for an impossible code point."""
    body, raw = _body(token.text)
    if raw or "\\" not in body:
        return body
    return re.sub(ESCAPE, lambda escape: chr(_code(escape[0], token.offset)), body)


def bytes_value(token: Token) -> bytes:
    """Return the value of a bytes literal; there `\\x` and octal escapes are bytes, not code points."""
    body, raw = _body(token.text[1:])
    if raw or "\\" not in body:
        return body.encode()
    made, offset = bytearray(), 0
    for escape in re.finditer(ESCAPE, body):
        made += body[offset : escape.start()].encode()
        if escape[0][1] in "uU":
            raise SyntaxProblem(token.offset, "unable to unescape string")
        made.append(_code(escape[0], token.offset))
        offset = escape.end()
    return bytes(made + body[offset:].encode())


def _body(written: str) -> tuple[str, bool]:
    raw = written[0] in "rR"
    quoted = written[1:] if raw else written
    size = 3 if len(quoted) >= 6 and quoted.startswith(('"""', "'''")) else 1
    return quoted[size:-size], raw


def _code(escape: str, offset: int) -> int:
    sign = escape[1]
    if sign in SIMPLE:
        return SIMPLE[sign]
    code = int(escape[1:], 8) if sign in "0123" else int(escape[2:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise SyntaxProblem(offset, "invalid unicode code point")
    return code


DEPTH = 100  # of a tree; deeper ones would exhaust Python's stack


@dataclass(slots=True, eq=False)
class Expression:
    """
    `offset` is the place in the text that messages point at, `span` where the node stands, without the
    parentheses around it; (0, 0) of what macros add. The checker fills in the type.
    """

    offset: int
    span: tuple[int, int] = field(default=(0, 0), init=False)
    depth: int = field(default=1, init=False)
    type: Type = field(default=ERROR, init=False)

    def children(self) -> list[Expression]:
        return []

    def settle(self) -> None:
        """Work out the depth; to be called once the children are there."""
        self.depth = 1 + max((child.depth for child in self.children()), default=0)


@dataclass(slots=True, eq=False)
class Literal(Expression):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Expression):
    """A variable; the checker turns the name of a type into a Literal by setting `constant`."""

    name: str
    constant: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Expression):
    """`operand.name`; with `test`, has(operand.name)."""

    operand: Expression
    name: str
    test: bool = False
    constant: Any = field(default=None, init=False)

    def children(self) -> list[Expression]:
        return [self.operand]


@dataclass(slots=True, eq=False)
class Call(Expression):
    """A function, a method (then `target` is set) or an operator. The checker fills in the overloads."""

    function: str
    target: Expression | None
    args: list[Expression]
    overloads: list[str] = field(default_factory=list, init=False)

    def children(self) -> list[Expression]:
        return [self.target, *self.args] if self.target else self.args


@dataclass(slots=True, eq=False)
class ListOf(Expression):
    """`optional` holds the indices of elements that are left out if they have no value: `[?x]`."""

    elements: list[Expression]
    optional: frozenset[int] = frozenset()

    def children(self) -> list[Expression]:
        return self.elements


@dataclass(slots=True, eq=False)
class Entry:
    key: Expression
    value: Expression
    optional: bool


@dataclass(slots=True, eq=False)
class MapOf(Expression):
    entries: list[Entry]

    def children(self) -> list[Expression]:
        return [part for entry in self.entries for part in (entry.key, entry.value)]


@dataclass(slots=True, eq=False)
class Message(Expression):
    """`name{field: value}`. No message type can be made in a selector; kept for its error."""

    name: str
    values: list[Expression]

    def children(self) -> list[Expression]:
        return self.values


@dataclass(slots=True, eq=False)
class Fold(Expression):
    """
    A comprehension: go over `range` while `condition` holds, replace the accumulator by `step`.

    With `second`, `variable` is the index or key and `second` the value. A binding is a fold over nothing:
    its accumulator is the bound variable.
    """

    range: Expression
    variable: str
    second: str
    accumulator: str
    start: Expression
    condition: Expression
    step: Expression
    result: Expression

    def children(self) -> list[Expression]:
        return [self.range, self.start, self.condition, self.step, self.result]

    @property
    def binding(self) -> bool:
        return self.accumulator != ACCUMULATOR and isinstance(self.range, ListOf) and not self.range.elements


ACCUMULATOR = "__result__"


def copy(node: Expression) -> Expression:
    """Return a tree of its own, so that each occurrence can be given its own type."""
    match node:
        case Literal():
            copied: Expression = Literal(node.offset, node.value)
        case Ident():
            copied = Ident(node.offset, node.name)
        case Select():
            copied = Select(node.offset, copy(node.operand), node.name, node.test)
        case Call():
            target = copy(node.target) if node.target else None
            copied = Call(node.offset, node.function, target, [copy(child) for child in node.args])
        case ListOf():
            copied = ListOf(node.offset, [copy(child) for child in node.elements], node.optional)
        case MapOf():
            entries = [Entry(copy(child.key), copy(child.value), child.optional) for child in node.entries]
            copied = MapOf(node.offset, entries)
        case Message():
            copied = Message(node.offset, node.name, [copy(child) for child in node.values])
        case Fold():
            parts = (copy(node.start), copy(node.condition), copy(node.step), copy(node.result))
            names = (node.variable, node.second, node.accumulator)
            copied = Fold(node.offset, copy(node.range), *names, *parts)
        case _:
            raise TypeError(type(node))
    copied.span = node.span
    copied.settle()
    return copied
