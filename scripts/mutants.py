"""The small mistakes that `make mutate` makes in a function, one at a time."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

COMPARED = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
ADDED = {ast.Add: "-", ast.Sub: "+"}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
CONDITIONS = {"filter", "exclude", "get", "Q"}  # of a query: each keyword narrows it
WRITES = {"update", "create", "update_or_create", "get_or_create", "aupdate"}  # each keyword is a column
NARROWED = {"exclude", "order_by", "distinct"}  # what a list loses without the call
UNTOLD = {"log", "logger"}
NEVER = {"__str__", "__repr__"}

Placed = ast.expr | ast.stmt | ast.keyword  # what gives its place
Change = tuple[Placed | tuple[int, int], str, str]  # what is replaced, by which text, and its name


@dataclass(frozen=True)
class Mutant:
    """`old` at `start` of the text of `path` becomes `new`; `function` is the qualified name around it."""

    path: Path
    function: str
    line: int
    start: int
    old: str
    new: str
    what: str

    def apply(self, text: str) -> str:
        end = self.start + len(self.old)
        assert text[self.start : end] == self.old, f"{self.path} has changed"  # noqa: S101
        return text[: self.start] + self.new + text[end:]

    def diff(self, text: str) -> str:
        before, after = text.splitlines(), self.apply(text).splitlines()
        name = f"{self.path}:{self.line} in {self.function}: {self.what}"
        lines = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
        return "\n".join([name, *(f"    {line}" for line in lines)])


def mutants_of(path: Path, text: str) -> list[Mutant]:
    """Return every mutant of the code within functions; what runs at import is not mutated."""
    return sorted(_Finder(path, text).found(), key=lambda mutant: (mutant.start, mutant.what))


class _Finder:
    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.begins = [0]
        for line in text.splitlines(keepends=True):
            self.begins.append(self.begins[-1] + len(line))

    def found(self) -> Iterator[Mutant]:
        yield from self._beside(ast.parse(self.text), "")

    def _beside(self, node: ast.AST, around: str) -> Iterator[Mutant]:
        """Look for functions in what runs at import; `around` is the qualified name of the classes."""
        for child in ast.iter_child_nodes(node):
            name = f"{around}.{getattr(child, 'name', '')}".lstrip(".")
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._within(child, name)
            else:
                yield from self._beside(child, name if isinstance(child, ast.ClassDef) else around)

    def _within(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[Mutant]:
        if function.name not in NEVER:
            for statement in function.body:
                yield from self._below(statement, name)

    def _below(self, node: ast.AST, function: str) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._within(node, f"{function}.{node.name}")
        elif not _is_untold(node):
            yield from self._of(node, function)
            for child in ast.iter_child_nodes(node):
                if not _is_annotation(node, child):
                    yield from self._below(child, function)

    def _of(self, node: ast.AST, function: str) -> Iterator[Mutant]:
        for old, new, what in self._changes(node):
            start, end = old if isinstance(old, tuple) else self._span(old)
            text = self.text[start:end]
            line = self.text.count("\n", 0, start) + 1
            yield Mutant(self.path, function, line, start, text, new, what)

    def _changes(self, node: ast.AST) -> Iterator[Change]:  # noqa: C901, PLR0912
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for before, op, after in zip([left, *others], ops, others, strict=False):
                    yield self._between(before, after), f" {COMPARED[type(op)]} ", "comparison"
            case ast.BoolOp(op=op, values=values):
                word = "or" if isinstance(op, ast.And) else "and"
                for before, after in pairwise(values):
                    yield self._between(before, after), f" {word} ", "and/or"
                for value in values:
                    yield value, str(isinstance(op, ast.And)), "operand dropped"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, self._text(operand), "not removed"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ADDED:
                yield self._between(left, right), f" {ADDED[type(op)]} ", "plus/minus"
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd(), right=right):
                yield node, self._text(left), "right operand dropped"
                yield node, self._text(right), "left operand dropped"
            case ast.comprehension(ifs=ifs):
                for test in ifs:
                    yield test, "True", "condition dropped"
            case ast.Assign(targets=[ast.Attribute()]):
                yield node, "pass", "assignment removed"
            case ast.For(iter=rows):
                yield rows, f"list({self._text(rows)})[:1]", "only the first"
            case ast.Continue():
                yield node, "break", "break for continue"
            case ast.ExceptHandler(body=[first, *_rest]) if not isinstance(first, ast.Raise):
                yield first, "raise", "exception passed on"
            case ast.Constant(value=bool(value)):
                yield node, str(not value), "boolean"
            case ast.Constant(value=int(value)):
                yield node, str(value + 1), "number"
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                if isinstance(node, ast.If):
                    yield test, "False", "branch dropped"
                if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
                    yield test, f"not ({self._text(test)})", "condition negated"
            case ast.Expr(value=ast.Call() as call) if not _is_untold(call):
                yield node, "pass", "call removed"
            case ast.Raise(exc=exc) if exc is not None:
                yield node, "pass", "refusal removed"
            case ast.Return(value=value) if value is not None and not _is_nothing(value):
                yield value, "None", "nothing returned"
            case ast.AugAssign(op=op, target=target, value=value) if type(op) in ADDED:
                yield self._between(target, value), f" {ADDED[type(op)]}= ", "plus/minus"
            case ast.Call():
                yield from self._of_call(node)

    def _of_call(self, node: ast.Call) -> Iterator[Change]:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
                yield node.func, SWAPPED[name], name
                for argument in node.args if len(node.args) > 1 else ():
                    yield node, f"({self._text(argument)})", "bound dropped"
            case ast.Call(func=ast.Attribute(value=rows, attr="select_for_update")):
                yield node, self._text(rows), "lock removed"
            case ast.Call(func=ast.Name(id="lock_row"), args=[rows, pk]):  # core.transactions
                yield node, f"{self._text(rows)}.get(pk={self._text(pk)})", "lock removed"
            case ast.Call(func=ast.Attribute(value=rows, attr=name)) if name in NARROWED:
                yield node, self._text(rows), f"{name} removed"
        yield from self._of_keywords(node)

    def _of_keywords(self, node: ast.Call) -> Iterator[Change]:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in CONDITIONS | WRITES:
            part_name = "condition" if name in CONDITIONS else "column"
            yield from self._without_each_keyword(node, part_name)
        for keyword in node.keywords:
            if keyword.arg == "update_fields" and isinstance(keyword.value, ast.List | ast.Tuple):
                for element in keyword.value.elts:
                    remaining = ", ".join(
                        self._text(part) for part in keyword.value.elts if part is not element
                    )
                    yield keyword.value, f"[{remaining}]", "column not saved"

    def _without_each_keyword(self, node: ast.Call, part_name: str) -> Iterator[Change]:
        parts: list[Placed] = [*node.args, *node.keywords]
        for keyword in node.keywords:
            if keyword.arg is not None:
                remaining = ", ".join(self._text(part) for part in parts if part is not keyword)
                yield node, f"{self._text(node.func)}({remaining})", f"{part_name} {keyword.arg} removed"

    def _between(self, before: Placed, after: Placed) -> tuple[int, int]:
        """Return the place of the operator between two operands, without their parentheses."""
        start, end = self._span(before)[1], self._span(after)[0]
        while (close := self.text.find(")", start, end)) >= 0:
            start = close + 1
        if (opened := self.text.find("(", start, end)) >= 0:
            end = opened
        return start, end

    def _span(self, node: Placed) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int | None, column: int | None) -> int:
        """Return the place in the text; `ast` counts columns in bytes."""
        assert line is not None and column is not None  # noqa: S101, PT018  # of what was parsed
        begin = self.begins[line - 1]
        raw = self.text[begin : self.begins[line]].encode()
        return begin + len(raw[:column].decode())

    def _text(self, node: Placed) -> str:
        start, end = self._span(node)
        return self.text[start:end]


def _is_nothing(node: ast.AST) -> bool:
    """Return whether it is None, or as false as None: "", 0, an empty list."""
    return (isinstance(node, ast.Constant) and not node.value) or not getattr(node, "elts", True)


def _is_annotation(parent: ast.AST, child: ast.AST) -> bool:
    return child is getattr(parent, "annotation", None) or child is getattr(parent, "returns", None)


def _is_untold(node: ast.AST) -> bool:
    """Return whether it is a call that only logs or prints."""
    func = getattr(node, "func", None)
    name = getattr(func, "id", None) or getattr(getattr(func, "value", None), "id", None)
    return isinstance(node, ast.Call) and name in UNTOLD
