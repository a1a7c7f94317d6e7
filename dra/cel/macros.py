"""What looks like a function but expands to syntax (cel-go `parser/macro.go`, `ext/`, `cel/library.go`)."""

from __future__ import annotations

from collections.abc import Callable

from dra.cel.errors import SyntaxProblem
from dra.cel.syntax import ACCUMULATOR, Call, Fold, Ident, ListOf, Literal, MapOf, Node, Select, copy

UNUSED = "#unused"
SORT_INPUT = "@__sortBy_input__"
INSERT = "cel.@mapInsert"


def expand(call: Call) -> Node | None:
    """
    Return what a call stands for; None if it is an ordinary call.

    Raise `SyntaxProblem` where it is a macro with unfitting arguments.
    """
    if call.target is None:
        return _has(call) if call.function == "has" and len(call.args) == 1 else None
    macro = RECEIVERS.get((call.function, len(call.args)))
    return macro(call, call.target) if macro else None


def _settled[N: Node](node: N) -> N:
    node.settle()
    return node


def _call(place: int, function: str, *args: Node, target: Node | None = None) -> Node:
    return _settled(Call(place, function, target, list(args)))


def _accumulator(place: int) -> Node:
    return Ident(place, ACCUMULATOR)


def _has(call: Call) -> Node:
    field = call.args[0]
    if not isinstance(field, Select):
        raise SyntaxProblem(field.place, "invalid argument to has() macro")
    return Select(call.place, field.operand, field.name, test=True)


def _variable(node: Node, problem: str) -> str:
    if not isinstance(node, Ident):
        raise SyntaxProblem(node.place, problem)
    if node.name == ACCUMULATOR:
        raise SyntaxProblem(node.place, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(call: Call) -> tuple[str, str]:
    """Return the two variables of a macro that has two; the second is "" where there is one."""
    if (call.function, len(call.args)) in ONE_VARIABLE:
        wanted = "is not an identifier" if call.function in ("map", "filter") else "must be a simple name"
        return _variable(call.args[0], f"argument {wanted}"), ""
    first, second = (_variable(one, "argument must be a simple name") for one in call.args[:2])
    if first == second:
        raise SyntaxProblem(call.args[1].place, f"duplicate variable name: {first}")
    return first, second


def _fold(call: Call, target: Node, start: Node, condition: Node, step: Node, result: Node) -> Node:
    first, second = _variables(call)
    return _settled(Fold(call.place, target, first, second, ACCUMULATOR, start, condition, step, result))


def _quantifier(call: Call, target: Node) -> Node:
    """Expand all() and exists(), which stop as soon as the answer is known."""
    place, every = call.place, call.function == "all"
    _variables(call)
    so_far = _accumulator(place) if every else _call(place, "!_", _accumulator(place))
    condition = _call(place, "@not_strictly_false", so_far)
    step = _call(place, "_&&_" if every else "_||_", _accumulator(place), call.args[-1])
    return _fold(call, target, Literal(place, every), condition, step, _accumulator(place))


def _exists_one(call: Call, target: Node) -> Node:
    place = call.place
    _variables(call)
    more = _call(place, "_+_", _accumulator(place), Literal(place, 1))
    step = _call(place, "_?_:_", call.args[-1], more, _accumulator(place))
    result = _call(place, "_==_", _accumulator(place), Literal(place, 1))
    return _fold(call, target, Literal(place, 0), Literal(place, value=True), step, result)


def _collect(call: Call, target: Node, start: Node, step: Node, condition: Node | None) -> Node:
    if condition is not None:
        step = _call(call.place, "_?_:_", condition, step, _accumulator(call.place))
    return _fold(call, target, start, Literal(call.place, value=True), step, _accumulator(call.place))


def _map(call: Call, target: Node) -> Node:
    """Expand map() and transformList(): the last argument of each element, with a condition before it."""
    place = call.place
    filtered = len(call.args) == (3 if call.function == "map" else 4)
    step = _call(place, "_+_", _accumulator(place), _settled(ListOf(place, [call.args[-1]])))
    return _collect(call, target, ListOf(place, []), step, call.args[-2] if filtered else None)


def _filter(call: Call, target: Node) -> Node:
    place = call.place
    _variables(call)
    step = _call(place, "_+_", _accumulator(place), _settled(ListOf(place, [copy(call.args[0])])))
    return _collect(call, target, ListOf(place, []), step, call.args[1])


def _transform_map(call: Call, target: Node) -> Node:
    place = call.place
    first, _ = _variables(call)
    key = [Ident(place, first)] if call.function == "transformMap" else []
    step = _call(place, INSERT, _accumulator(place), *key, call.args[-1])
    return _collect(call, target, MapOf(place, []), step, call.args[2] if len(call.args) == 4 else None)


def _binding(place: int, name: str, value: Node, result: Node) -> Node:
    never = Literal(place, value=False)
    return _settled(
        Fold(place, ListOf(place, []), UNUSED, "", name, value, never, Ident(place, name), result)
    )


def _bind(call: Call, target: Node) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name, value, result = call.args
    if not isinstance(name, Ident):
        raise SyntaxProblem(name.place, "cel.bind() variable names must be simple identifiers")
    return _binding(call.place, name.name, value, result)


def _optional_map(call: Call, target: Node) -> Node:
    place = call.place
    name, result = call.args
    if not isinstance(name, Ident):
        raise SyntaxProblem(name.place, f"{call.function}() variable name must be a simple identifier")
    value = _call(place, "value", target=copy(target))
    mapped = _binding(place, name.name, value, result)
    if call.function == "optMap":
        mapped = _call(place, "optional.of", mapped)
    present = _call(place, "hasValue", target=target)
    return _call(place, "_?_:_", present, mapped, _call(place, "optional.none"))


def _sort_by(call: Call, target: Node) -> Node:
    place = call.place
    if not isinstance(target, ListOf | Select | Ident | Fold | Call):
        raise SyntaxProblem(
            target.place,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(Call(place, "map", None, call.args), Ident(place, SORT_INPUT))
    ordered = _call(place, "@sortByAssociatedKeys", keys, target=Ident(place, SORT_INPUT))
    return _binding(place, SORT_INPUT, target, ordered)


ONE_VARIABLE = frozenset(
    [(name, 2) for name in ("all", "exists", "exists_one", "map", "filter")] + [("map", 3)]
)
RECEIVERS: dict[tuple[str, int], Callable[[Call, Node], Node | None]] = {
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
