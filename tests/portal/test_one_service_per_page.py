"""What a page writes with one POST is one service: one transaction, done or refused as a whole."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("claims", "core", "inventory", "notify", "portal", "teams", "usage")
SEVERAL = {
    "portal.setup.teams.team_invite": "each address is invited or refused on its own, and it is said",
    "teams.identity.provider.pre_social_login": "who signs in, then whose tokens work again",
    "teams.scim.views.group": "inside one transaction of teams.scim.views.one",
}
Defined = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(module: str) -> ast.Module | None:
    path = ROOT / f"{module.replace('.', '/')}.py"
    return ast.parse(path.read_text()) if path.exists() else None


@cache
def functions(module: str) -> dict[str, Defined]:
    body = tree(module)
    return {node.name: node for node in ast.walk(body) if isinstance(node, Defined)} if body else {}


@cache
def imported(module: str) -> dict[str, tuple[str, str]]:
    """Return what the names of a module are: of which module, and which of its functions, "" for a module."""
    names, body = {}, tree(module)
    for node in ast.walk(body) if body else ():
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                names[name.asname or name.name] = (whole, "") if tree(whole) else (node.module, name.name)
    return names


def called(call: ast.Call, module: str) -> tuple[str, str] | None:
    """Return the module and name of the function that a call names, None for others."""
    names, of = imported(module), call.func
    if isinstance(of, ast.Name):
        return (module, of.id) if of.id in functions(module) else names.get(of.id)
    if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id in names:
        owner, name = names[of.value.id]
        return None if name else (owner, of.attr)
    if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "self":
        return (module, of.attr)
    return None


def is_service(node: Defined) -> bool:
    """Return whether it is a transaction: decorated, or with one in its body."""
    marked = {ast.unparse(one).split("(")[0].split(".")[-1] for one in node.decorator_list}
    inside = {
        ast.unparse(item.context_expr).split("(")[0].split(".")[-1]
        for part in ast.walk(node)
        if isinstance(part, ast.With)
        for item in part.items
    }
    return bool({"service", "unless_taken"} & (marked | inside))


COUNTS: dict[tuple[str, str], int] = {}


def most(module: str, name: str) -> int:
    """Return how many services a call of this function calls at most, one after another."""
    node = functions(module).get(name)
    if node is None or is_service(node):
        return int(node is not None)
    if (module, name) not in COUNTS:
        COUNTS[module, name] = 0  # of a function that calls itself
        COUNTS[module, name] = in_block(node.body, module)[0]
    return COUNTS[module, name]


def in_block(statements: list[ast.stmt], module: str) -> tuple[int, bool]:
    """Return the most services of a way through these statements, and whether each way ends the function."""
    longest, going = 0, 0  # of ways that have returned, and of the one that goes on
    for node in statements:
        match node:
            case ast.If(test=test, body=body, orelse=otherwise):
                ways, going = (
                    [in_block(body, module), in_block(otherwise, module)],
                    going + calls(test, module),
                )
            case ast.Try(body=body, handlers=handlers, orelse=otherwise, finalbody=last):
                done = in_block([*body, *otherwise], module)
                ways = [
                    done,
                    *(in_block(one.body, module) for one in handlers),
                ]  # refused: nothing was written
                going += in_block(last, module)[0]
            case ast.Match(cases=cases):
                ways = [*(in_block(case.body, module) for case in cases), (0, False)]
            case ast.For(body=body) | ast.While(body=body):
                ways = [(2 * in_block(body, module)[0], False)]
            case ast.With(body=body, items=items):
                found = in_block(body, module)
                whole = any("transaction.atomic" in ast.unparse(item) for item in items)
                ways = [(min(found[0], 1), found[1]) if whole else found]
            case ast.FunctionDef() | ast.ClassDef():
                continue
            case ast.Return() | ast.Raise():
                return max(longest, going + calls(node, module)), True
            case _:
                going += calls(node, module)
                continue
        longest = max([longest, *(going + count for count, ends in ways if ends)])
        if all(ends for _count, ends in ways):
            return longest, True
        going += max(count for count, ends in ways if not ends)
    return max(longest, going), False


def calls(node: ast.AST, module: str) -> int:
    """Return how many services the calls in an expression or plain statement make."""
    found = (called(part, module) for part in ast.walk(node) if isinstance(part, ast.Call))
    return sum(most(*one) for one in found if one)


def views() -> dict[str, int]:
    """Return the functions that answer requests with the most services that they call."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name, node in functions(module).items():
                first = [*node.args.posonlyargs, *node.args.args][:2]
                if any(arg.annotation and "Request" in ast.unparse(arg.annotation) for arg in first):
                    found[f"{module}.{name}"] = most(module, name)
    return found


def test_each_view_calls_at_most_one_service_that_writes():
    found = views()
    assert sum(count == 1 for count in found.values()) > 150
    assert {name for name, count in found.items() if count > 1} == {*SEVERAL}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("invite(by=a)\ninvite(by=b)", 2),
        ("if a:\n    invite(by=a)\ninvite(by=b)", 2),
        ("if a:\n    invite(by=a)\nelse:\n    invite(by=b)", 1),
        ("if a:\n    return invite(by=a)\ninvite(by=b)", 1),
        ("try:\n    invite(by=a)\nexcept E:\n    invite(by=b)", 1),
        ("try:\n    invite(by=a)\nexcept E:\n    pass\ninvite(by=b)", 2),
        ("for a in all:\n    invite(by=a)", 2),
        ("with transaction.atomic():\n    invite(by=a)\n    invite(by=b)", 1),
        ("if revoke_invitation(by=a):\n    invite(by=b)", 2),
    ],
)
def test_services_of_the_longest_way_are_counted(text, count):
    assert in_block(ast.parse(text).body, "portal.setup.people_api")[0] == count
