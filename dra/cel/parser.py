"""
The parser: from text to a syntax tree with macros expanded.

Sources: cel-go `parser/gen/CEL.g4`, `parser/parser.go`; macros: `parser/macro.go`, `ext/`, `cel/library.go`.
"""

from __future__ import annotations

from collections.abc import Callable

from dra.cel.syntax import (
    ACCUMULATOR,
    DEPTH,
    Call,
    Entry,
    Expression,
    Fold,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Message,
    NotPreviewable,
    Select,
    SyntaxProblem,
    Token,
    bytes_value,
    copy,
    text_value,
    tokens,
)
from dra.cel.values import INT64, UINT64, Uint

UNUSED = "#unused"
SORT_INPUT = "@__sortBy_input__"
INSERT = "cel.@mapInsert"


def expand(call: Call) -> Expression | None:
    """
    Return what a call stands for; None if it is an ordinary call.

    Raise `SyntaxProblem` where it is a macro with unfitting arguments.
    """
    if call.target is None:
        return _has(call) if call.function == "has" and len(call.args) == 1 else None
    macro = RECEIVERS.get((call.function, len(call.args)))
    return macro(call, call.target) if macro else None


def _settled[N: Expression](node: N) -> N:
    node.settle()
    return node


def _call(offset: int, function: str, *args: Expression, target: Expression | None = None) -> Expression:
    return _settled(Call(offset, function, target, list(args)))


def _accumulator(offset: int) -> Expression:
    return Ident(offset, ACCUMULATOR)


def _has(call: Call) -> Expression:
    field = call.args[0]
    if not isinstance(field, Select):
        raise SyntaxProblem(field.offset, "invalid argument to has() macro")
    return Select(call.offset, field.operand, field.name, test=True)


def _variable(node: Expression, problem: str) -> str:
    if not isinstance(node, Ident):
        raise SyntaxProblem(node.offset, problem)
    if node.name == ACCUMULATOR:
        raise SyntaxProblem(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(call: Call) -> tuple[str, str]:
    """Return the two variables of a macro that has two; the second is "" where there is one."""
    if (call.function, len(call.args)) in ONE_VARIABLE:
        message = "is not an identifier" if call.function in ("map", "filter") else "must be a simple name"
        return _variable(call.args[0], f"argument {message}"), ""
    first, second = (_variable(argument, "argument must be a simple name") for argument in call.args[:2])
    if first == second:
        raise SyntaxProblem(call.args[1].offset, f"duplicate variable name: {first}")
    return first, second


def _fold(
    call: Call,
    target: Expression,
    start: Expression,
    condition: Expression,
    step: Expression,
    result: Expression,
) -> Expression:
    first, second = _variables(call)
    return _settled(Fold(call.offset, target, first, second, ACCUMULATOR, start, condition, step, result))


def _quantifier(call: Call, target: Expression) -> Expression:
    """Expand all() and exists(), which stop as soon as the answer is known."""
    offset, universal = call.offset, call.function == "all"
    _variables(call)
    so_far = _accumulator(offset) if universal else _call(offset, "!_", _accumulator(offset))
    condition = _call(offset, "@not_strictly_false", so_far)
    step = _call(offset, "_&&_" if universal else "_||_", _accumulator(offset), call.args[-1])
    return _fold(call, target, Literal(offset, universal), condition, step, _accumulator(offset))


def _exists_one(call: Call, target: Expression) -> Expression:
    offset = call.offset
    _variables(call)
    more = _call(offset, "_+_", _accumulator(offset), Literal(offset, 1))
    step = _call(offset, "_?_:_", call.args[-1], more, _accumulator(offset))
    result = _call(offset, "_==_", _accumulator(offset), Literal(offset, 1))
    return _fold(call, target, Literal(offset, 0), Literal(offset, value=True), step, result)


def _collect(
    call: Call, target: Expression, start: Expression, step: Expression, condition: Expression | None
) -> Expression:
    if condition is not None:
        step = _call(call.offset, "_?_:_", condition, step, _accumulator(call.offset))
    return _fold(call, target, start, Literal(call.offset, value=True), step, _accumulator(call.offset))


def _map(call: Call, target: Expression) -> Expression:
    """Expand map() and transformList(): the last argument of each element, with a condition before it."""
    offset = call.offset
    filtered = len(call.args) == (3 if call.function == "map" else 4)
    step = _call(offset, "_+_", _accumulator(offset), _settled(ListOf(offset, [call.args[-1]])))
    return _collect(call, target, ListOf(offset, []), step, call.args[-2] if filtered else None)


def _filter(call: Call, target: Expression) -> Expression:
    offset = call.offset
    _variables(call)
    step = _call(offset, "_+_", _accumulator(offset), _settled(ListOf(offset, [copy(call.args[0])])))
    return _collect(call, target, ListOf(offset, []), step, call.args[1])


def _transform_map(call: Call, target: Expression) -> Expression:
    offset = call.offset
    first, _ = _variables(call)
    key = [Ident(offset, first)] if call.function == "transformMap" else []
    step = _call(offset, INSERT, _accumulator(offset), *key, call.args[-1])
    return _collect(call, target, MapOf(offset, []), step, call.args[2] if len(call.args) == 4 else None)


def _binding(offset: int, name: str, value: Expression, result: Expression) -> Expression:
    never = Literal(offset, value=False)
    return _settled(
        Fold(offset, ListOf(offset, []), UNUSED, "", name, value, never, Ident(offset, name), result)
    )


def _bind(call: Call, target: Expression) -> Expression | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name, value, result = call.args
    if not isinstance(name, Ident):
        raise SyntaxProblem(name.offset, "cel.bind() variable names must be simple identifiers")
    return _binding(call.offset, name.name, value, result)


def _optional_map(call: Call, target: Expression) -> Expression:
    offset = call.offset
    name, result = call.args
    if not isinstance(name, Ident):
        raise SyntaxProblem(name.offset, f"{call.function}() variable name must be a simple identifier")
    value = _call(offset, "value", target=copy(target))
    mapped = _binding(offset, name.name, value, result)
    if call.function == "optMap":
        mapped = _call(offset, "optional.of", mapped)
    present = _call(offset, "hasValue", target=target)
    return _call(offset, "_?_:_", present, mapped, _call(offset, "optional.none"))


def _sort_by(call: Call, target: Expression) -> Expression:
    offset = call.offset
    if not isinstance(target, ListOf | Select | Ident | Fold | Call):
        raise SyntaxProblem(
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(Call(offset, "map", None, call.args), Ident(offset, SORT_INPUT))
    ordered = _call(offset, "@sortByAssociatedKeys", keys, target=Ident(offset, SORT_INPUT))
    return _binding(offset, SORT_INPUT, target, ordered)


ONE_VARIABLE = frozenset(
    [(name, 2) for name in ("all", "exists", "exists_one", "map", "filter")] + [("map", 3)]
)
RECEIVERS: dict[tuple[str, int], Callable[[Call, Expression], Expression | None]] = {
    **{(name, count): _quantifier for name in ("all", "exists") for count in (2, 3)},
    **{(name, 3): _exists_one for name in ("exists_one", "existsOne")},
    ("exists_one", 2): _exists_one,  # existsOne with one variable is not a macro of Kubernetes
    **dict.fromkeys((("map", 2), ("map", 3)), _map),
    **{("transformList", count): _map for count in (3, 4)},
    **{(name, count): _transform_map for name in ("transformMap", "transformMapEntry") for count in (3, 4)},
    ("filter", 2): _filter,
    ("bind", 3): _bind,
    ("optMap", 2): _optional_map,
    ("optFlatMap", 2): _optional_map,
    ("sortBy", 2): _sort_by,
}


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


def parse(text: str) -> Expression:
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
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.at, self.nesting = tokens, 0, 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self, kind: str) -> Token | None:
        """Step over the next token if it is of this kind."""
        if self.next.kind != kind:
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def need(self, kind: str) -> Token:
        token = self.take(kind)
        if token is None:
            self.fail("mismatched input", "IDENTIFIER" if kind == "name" else f"'{kind}'")
        assert token  # noqa: S101 - `fail` raises
        return token

    def fail(self, problem: str, expected: str) -> None:
        raise SyntaxProblem(
            self.next.offset, f"Syntax error: {problem} '{self.next.text}' expecting {expected}"
        )

    def made[N: Expression](self, node: N, start: int) -> N:
        """Note where a node stands in the text, from `start` to the token just read, and how deep it is."""
        before = self.tokens[self.at - 1]
        node.span = (start, before.offset + len(before.text))
        node.settle()
        if node.depth > DEPTH:
            raise too_deep()
        return node

    def expression(self) -> Expression:
        self.nesting += 1
        if self.nesting > DEPTH // 2:
            raise too_deep()
        start = self.next.offset
        left = self.logical("||", "_||_")
        mark = self.take("?")
        if mark:
            yes = self.logical("||", "_||_")
            self.need(":")
            left = self.made(Call(mark.offset, "_?_:_", None, [left, yes, self.expression()]), start)
        self.nesting -= 1
        return left

    def logical(self, mark: str, function: str) -> Expression:
        """Read a chain of `||` or `&&` as one call: its shape makes no difference to anything."""
        start, terms, offset = self.next.offset, [self.terms(mark)], self.next.offset
        while self.take(mark):
            terms.append(self.terms(mark))
        return self.made(Call(offset, function, None, terms), start) if len(terms) > 1 else terms[0]

    def terms(self, mark: str) -> Expression:
        return self.logical("&&", "_&&_") if mark == "||" else self.binary(0)

    def binary(self, level: int) -> Expression:
        if level == len(BINARY):
            return self.unary()
        start = self.next.offset
        left = self.binary(level + 1)
        while self.next.kind in BINARY[level][0]:
            mark = self.next
            self.at += 1
            function = "@in" if mark.kind == "in" else f"_{mark.kind}_"
            left = self.made(Call(mark.offset, function, None, [left, self.binary(level + 1)]), start)
        return left

    def unary(self) -> Expression:
        mark = self.next
        if mark.kind == "-" and self.tokens[self.at + 1].kind in ("int", "double"):
            return self.member()
        if mark.kind not in ("!", "-"):
            return self.member()
        count = 0
        while self.next.kind == mark.kind and not (
            count and mark.kind == "-" and self.tokens[self.at + 1].kind in ("int", "double")
        ):
            self.at += 1
            count += 1
        operand = self.member()
        call = Call(mark.offset, f"{mark.kind}_", None, [operand])
        return self.made(call, mark.offset) if count % 2 else operand

    def member(self) -> Expression:
        start = self.next.offset
        node = self.primary()
        while True:
            if dot := self.take("."):
                node = self.made(self.selection(node, dot), start)
            elif bracket := self.take("["):
                function = "_[?_]" if self.take("?") else "_[_]"
                call = Call(bracket.offset, function, None, [node, self.expression()])
                self.need("]")
                node = self.made(call, start)
            else:
                return node

    def selection(self, operand: Expression, dot: Token) -> Expression:
        optional = self.take("?")
        if self.next.kind == "escaped":
            raise SyntaxProblem(self.next.offset, "unsupported syntax: '`'")
        name = self.need("name")
        if optional:
            return Call(dot.offset, "_?._", None, [operand, Literal(name.offset, name.text)])
        opening = self.take("(")
        if opening is None:
            return Select(dot.offset, operand, name.text)
        call = Call(opening.offset, name.text, operand, self.arguments())
        return expand(call) or call

    def arguments(self) -> list[Expression]:
        arguments_: list[Expression] = []
        if self.take(")"):
            return arguments_
        arguments_.append(self.expression())
        while self.take(","):
            arguments_.append(self.expression())
        self.need(")")
        return arguments_

    def primary(self) -> Expression:
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
        return self.made(node, token.offset)

    def named(self, token: Token) -> Expression:
        dot = "." if token.kind == "." else ""
        name = self.need("name") if dot else token
        if message := self.message(dot + name.text):
            return message
        if name.text in RESERVED:
            raise SyntaxProblem(token.offset, f"reserved identifier: {name.text}")
        opening = self.take("(")
        if opening is None:
            return Ident(name.offset, dot + name.text)
        call = Call(opening.offset, dot + name.text, None, self.arguments())
        return expand(call) or call

    def message(self, name: str) -> Expression | None:
        """Read `a.b.C{field: value}`, which only the brace tells from a chain of fields."""
        ahead = self.at
        while self.tokens[ahead].kind == "." and self.tokens[ahead + 1].kind == "name":
            name += f".{self.tokens[ahead + 1].text}"
            ahead += 2
        if self.tokens[ahead].kind != "{":
            return None
        offset, self.at = self.tokens[ahead].offset, ahead + 1
        values: list[Expression] = []
        while not self.take("}"):
            self.take("?")
            self.need("name")
            self.need(":")
            values.append(self.expression())
            if not self.take(","):
                self.need("}")
                break
        return Message(offset, name, values)

    def list(self, bracket: Token) -> Expression:
        elements: list[Expression] = []
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
        return ListOf(bracket.offset, elements, frozenset(optional))

    def map(self, brace: Token) -> Expression:
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
        return MapOf(brace.offset, entries)

    def literal(self, token: Token) -> Expression:
        sign = ""
        if token.kind == "-" and self.next.kind in ("int", "double"):
            sign, token = "-", self.next
            self.at += 1
        offset = token.offset - len(sign)
        match token.kind:
            case "true" | "false":
                return Literal(offset, token.kind == "true")
            case "null":
                return Literal(offset, None)
            case "string":
                return Literal(offset, text_value(token))
            case "bytes":
                return Literal(offset, bytes_value(token))
            case "double":
                return Literal(offset, _double(sign + token.text, offset))
            case "int":
                return Literal(offset, _whole(sign + token.text, offset, INT64, "invalid int literal"))
            case "uint":
                return Literal(offset, Uint(_whole(token.text[:-1], offset, UINT64, "invalid uint literal")))
        self.at -= 1
        self.fail("mismatched input", OPERAND)
        raise AssertionError


def too_deep() -> NotPreviewable:
    return NotPreviewable("The expression is nested more deeply than this portal allows; a cluster decides.")


def _whole(text: str, offset: int, limits: range, problem: str) -> int:
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text)
    value = int(sign + digits, 16 if digits.startswith("0x") else 10) if len(digits) < 100 else None
    if value is None or value not in limits:
        raise SyntaxProblem(offset, problem)
    return value


def _double(text: str, offset: int) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise SyntaxProblem(offset, "invalid double literal")
    return value
