"""From text to tokens, and from literals to values (cel-go `parser/gen/CEL.g4`, `parser/unescape.go`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from dra.cel.errors import SyntaxProblem

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
    place: int


def tokens(text: str) -> list[Token]:
    """Split `text`. Raise `SyntaxProblem` at what is no token."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise SyntaxProblem(place, f"Syntax error: token recognition error at: '{_unread(text, place)}'")
        kind, word = match.lastgroup or "", match[0]
        if kind != "space":
            own = kind == "mark" or word in KEYWORDS
            found.append(Token(word if own else kind, word, place))
        place = match.end()
    found.append(Token("<EOF>", "<EOF>", place))
    return found


def _unread(text: str, place: int) -> str:
    """Return what upstream's lexer would have read before giving up: the rest of a line after a quote."""
    if text[place] in "\"'":
        return re.split(r"[\n\r]", text[place:], maxsplit=1)[0]
    return text[place : place + (2 if text[place] in "&|=" and place + 1 < len(text) else 1)]


def text_value(token: Token) -> str:
    """Return the value of a string literal. Raise `SyntaxProblem` for an impossible code point."""
    body, raw = _body(token.text)
    if raw or "\\" not in body:
        return body
    return re.sub(ESCAPE, lambda escape: chr(_code(escape[0], token.place)), body)


def bytes_value(token: Token) -> bytes:
    """Return the value of a bytes literal; there `\\x` and octal escapes are bytes, not code points."""
    body, raw = _body(token.text[1:])
    if raw or "\\" not in body:
        return body.encode()
    made, place = bytearray(), 0
    for escape in re.finditer(ESCAPE, body):
        made += body[place : escape.start()].encode()
        if escape[0][1] in "uU":
            raise SyntaxProblem(token.place, "unable to unescape string")
        made.append(_code(escape[0], token.place))
        place = escape.end()
    return bytes(made + body[place:].encode())


def _body(written: str) -> tuple[str, bool]:
    raw = written[0] in "rR"
    quoted = written[1:] if raw else written
    size = 3 if len(quoted) >= 6 and quoted.startswith(('"""', "'''")) else 1
    return quoted[size:-size], raw


def _code(escape: str, place: int) -> int:
    sign = escape[1]
    if sign in SIMPLE:
        return SIMPLE[sign]
    code = int(escape[1:], 8) if sign in "0123" else int(escape[2:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise SyntaxProblem(place, "invalid unicode code point")
    return code
