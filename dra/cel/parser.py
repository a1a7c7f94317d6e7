"""From text to a syntax tree (cel-go `parser/gen/CEL.g4`, `parser/parser.go`)."""

from __future__ import annotations

from dra.cel import macros
from dra.cel.errors import NotPreviewable, SyntaxProblem
from dra.cel.syntax import DEPTH, Call, Entry, Ident, ListOf, Literal, MapOf, Message, Node, Select
from dra.cel.tokens import Token, bytes_value, text_value, tokens
from dra.cel.values import INT64, UINT64, Uint

RELATIONS = frozenset(("<", "<=", ">=", ">", "==", "!=", "in"))
SUMS, PRODUCTS = frozenset("+-"), frozenset("*/%")
BINARY = ((RELATIONS, "relation"), (SUMS, "calc"), (PRODUCTS, "calc"))
RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    )
)
OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)


def parse(text: str) -> Node:
    """
    Return the tree of an expression, macros expanded.

    Raise `SyntaxProblem` where it is malformed, `NotPreviewable` where it is nested too deeply for here.
    """
    parser = _Parser(tokens(text))
    tree = parser.expression()
    if parser.next.kind != "<EOF>":
        parser.fail("mismatched input", "<EOF>")
    return tree


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.found, self.at, self.nesting = found, 0, 0

    @property
    def next(self) -> Token:
        return self.found[self.at]

    def take(self, kind: str) -> Token | None:
        """Step over the next token if it is of this kind."""
        if self.next.kind != kind:
            return None
        self.at += 1
        return self.found[self.at - 1]

    def need(self, kind: str) -> Token:
        taken = self.take(kind)
        if taken is None:
            self.fail("mismatched input", "IDENTIFIER" if kind == "name" else f"'{kind}'")
        assert taken  # noqa: S101 - `fail` raises
        return taken

    def fail(self, what: str, wanted: str) -> None:
        raise SyntaxProblem(self.next.place, f"Syntax error: {what} '{self.next.text}' expecting {wanted}")

    def made[N: Node](self, node: N, start: int) -> N:
        """Note where a node stands in the text, from `start` to the token just read, and how deep it is."""
        before = self.found[self.at - 1]
        node.span = (start, before.place + len(before.text))
        node.settle()
        if node.depth > DEPTH:
            raise too_deep()
        return node

    def expression(self) -> Node:
        self.nesting += 1
        if self.nesting > DEPTH // 2:
            raise too_deep()
        start = self.next.place
        left = self.logical("||", "_||_")
        mark = self.take("?")
        if mark:
            yes = self.logical("||", "_||_")
            self.need(":")
            left = self.made(Call(mark.place, "_?_:_", None, [left, yes, self.expression()]), start)
        self.nesting -= 1
        return left

    def logical(self, mark: str, function: str) -> Node:
        """Read a chain of `||` or `&&` as one call: its shape makes no difference to anything."""
        start, terms, place = self.next.place, [self.terms(mark)], self.next.place
        while self.take(mark):
            terms.append(self.terms(mark))
        return self.made(Call(place, function, None, terms), start) if len(terms) > 1 else terms[0]

    def terms(self, mark: str) -> Node:
        return self.logical("&&", "_&&_") if mark == "||" else self.binary(0)

    def binary(self, level: int) -> Node:
        if level == len(BINARY):
            return self.unary()
        start = self.next.place
        left = self.binary(level + 1)
        while self.next.kind in BINARY[level][0]:
            mark = self.next
            self.at += 1
            function = "@in" if mark.kind == "in" else f"_{mark.kind}_"
            left = self.made(Call(mark.place, function, None, [left, self.binary(level + 1)]), start)
        return left

    def unary(self) -> Node:
        mark = self.next
        if mark.kind == "-" and self.found[self.at + 1].kind in ("int", "double"):
            return self.member()
        if mark.kind not in ("!", "-"):
            return self.member()
        count = 0
        while self.next.kind == mark.kind and not (
            count and mark.kind == "-" and self.found[self.at + 1].kind in ("int", "double")
        ):
            self.at += 1
            count += 1
        operand = self.member()
        call = Call(mark.place, f"{mark.kind}_", None, [operand])
        return self.made(call, mark.place) if count % 2 else operand

    def member(self) -> Node:
        start = self.next.place
        node = self.primary()
        while True:
            if dot := self.take("."):
                node = self.made(self.selection(node, dot), start)
            elif bracket := self.take("["):
                function = "_[?_]" if self.take("?") else "_[_]"
                call = Call(bracket.place, function, None, [node, self.expression()])
                self.need("]")
                node = self.made(call, start)
            else:
                return node

    def selection(self, operand: Node, dot: Token) -> Node:
        optional = self.take("?")
        if self.next.kind == "escaped":
            raise SyntaxProblem(self.next.place, "unsupported syntax: '`'")
        name = self.need("name")
        if optional:
            return Call(dot.place, "_?._", None, [operand, Literal(name.place, name.text)])
        opening = self.take("(")
        if opening is None:
            return Select(dot.place, operand, name.text)
        call = Call(opening.place, name.text, operand, self.arguments())
        return macros.expand(call) or call

    def arguments(self) -> list[Node]:
        found: list[Node] = []
        if self.take(")"):
            return found
        found.append(self.expression())
        while self.take(","):
            found.append(self.expression())
        self.need(")")
        return found

    def primary(self) -> Node:
        token = self.next
        self.at += 1
        match token.kind:
            case "(":  # leaves no node: what stands within keeps its own place
                inner = self.expression()
                self.need(")")
                return inner
            case "[":
                node = self.list(token)
            case "{":
                node = self.map(token)
            case "." | "name":
                node = self.named(token)
            case _:
                node = self.literal(token)
        return self.made(node, token.place)

    def named(self, token: Token) -> Node:
        dot = "." if token.kind == "." else ""
        name = self.need("name") if dot else token
        if message := self.message(dot + name.text):
            return message
        if name.text in RESERVED:
            raise SyntaxProblem(token.place, f"reserved identifier: {name.text}")
        opening = self.take("(")
        if opening is None:
            return Ident(name.place, dot + name.text)
        call = Call(opening.place, dot + name.text, None, self.arguments())
        return macros.expand(call) or call

    def message(self, name: str) -> Node | None:
        """Read `a.b.C{field: value}`, which only the brace tells from a chain of fields."""
        ahead = self.at
        while self.found[ahead].kind == "." and self.found[ahead + 1].kind == "name":
            name += f".{self.found[ahead + 1].text}"
            ahead += 2
        if self.found[ahead].kind != "{":
            return None
        place, self.at = self.found[ahead].place, ahead + 1
        values: list[Node] = []
        while not self.take("}"):
            self.take("?")
            self.need("name")
            self.need(":")
            values.append(self.expression())
            if not self.take(","):
                self.need("}")
                break
        return Message(place, name, values)

    def list(self, bracket: Token) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self.take("]"):
            if not elements and self.take(","):
                self.need("]")
                break
            if self.take("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if not self.take(","):
                self.need("]")
                break
        return ListOf(bracket.place, elements, frozenset(optional))

    def map(self, brace: Token) -> Node:
        entries: list[Entry] = []
        while not self.take("}"):
            if not entries and self.take(","):
                self.need("}")
                break
            optional = self.take("?") is not None
            key = self.expression()
            self.need(":")
            entries.append(Entry(key, self.expression(), optional))
            if not self.take(","):
                self.need("}")
                break
        return MapOf(brace.place, entries)

    def literal(self, token: Token) -> Node:
        sign = ""
        if token.kind == "-" and self.next.kind in ("int", "double"):
            sign, token = "-", self.next
            self.at += 1
        place = token.place - len(sign)
        match token.kind:
            case "true" | "false":
                return Literal(place, token.kind == "true")
            case "null":
                return Literal(place, None)
            case "string":
                return Literal(place, text_value(token))
            case "bytes":
                return Literal(place, bytes_value(token))
            case "double":
                return Literal(place, _double(sign + token.text, place))
            case "int":
                return Literal(place, _whole(sign + token.text, place, INT64, "invalid int literal"))
            case "uint":
                return Literal(place, Uint(_whole(token.text[:-1], place, UINT64, "invalid uint literal")))
        self.at -= 1
        self.fail("mismatched input", OPERAND)
        raise AssertionError


def too_deep() -> NotPreviewable:
    return NotPreviewable("The expression is nested more deeply than this portal allows; a cluster decides.")


def _whole(text: str, place: int, limits: range, problem: str) -> int:
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text)
    value = int(sign + digits, 16 if digits.startswith("0x") else 10) if len(digits) < 100 else None
    if value is None or value not in limits:
        raise SyntaxProblem(place, problem)
    return value


def _double(text: str, place: int) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise SyntaxProblem(place, "invalid double literal")
    return value
