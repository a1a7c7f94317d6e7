"""docs/locking.md names every row lock of the portal, and for each a race that runs without it as well."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.transactions import lock_row

ROOT = Path(__file__).resolve().parents[2]
APPS = ("claims", "cluster", "core", "dra", "inventory", "portal", "teams", "usage")
CALLS = {"select_for_update", "lock_row", "lock_quotas"}
SQL = re.compile(r"\bpg_(try_)?advisory|\bFOR (NO KEY )?UPDATE\b|\bLOCK TABLE\b", re.IGNORECASE)
LIKELY = re.compile(f"{'|'.join(CALLS)}|{SQL.pattern}", re.IGNORECASE)  # so that only few files are parsed
ITSELF = f"{lock_row.__module__}.{lock_row.__name__}"  # whoever calls it has a row in the table
ROW = re.compile(r"^\| `([\w.]+)` \| [^|]+ \| (`tests/[^|]+) \|$", re.MULTILINE)


def locks_in(source: str, module: str) -> set[str]:
    """Return the functions that lock rows, by their full names."""
    return {name for name, node in _named(ast.parse(source), module) if _locks(node)}


def _named(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the full name of the function or class, or the module, that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _named(child, f"{name}.{child.name}")
        elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):  # a docstring
            yield name, child
            yield from _named(child, name)


def _locks(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in CALLS
        case ast.Constant(value=str(text)):
            return SQL.search(text) is not None
    return False


@pytest.fixture(scope="module")
def table() -> dict[str, list[str]]:
    """Return the tests by lock, as docs/locking.md has them."""
    rows = ROW.findall((ROOT / "docs" / "locking.md").read_text())
    return {name: re.findall(r"`([^`]+)`", tests) for name, tests in rows}


def test_every_lock_of_the_source_is_in_the_table_and_no_other(table):
    found = set()
    for path in sorted(path for app in APPS for path in (ROOT / app).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if ".migrations." not in module and LIKELY.search(source := path.read_text()):
            found |= locks_in(source, module)
    assert found - {ITSELF} == set(table)


def test_every_test_of_the_table_takes_that_lock_away(table):
    wanted = {(lock, test) for lock, tests in table.items() for test in tests}
    found = set()
    for lock, test in wanted:
        path, name = test.split("::")
        functions = [node for node in ast.walk(ast.parse((ROOT / path).read_text())) if _is(node, name)]
        found |= {(lock, test) for function in functions if lock in _taken_away(function)}
    assert found == wanted


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _taken_away(function: ast.AST) -> set[str]:
    """Return the locks without which a test runs in one of its cases."""
    found = set()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="without_lock"), args=[_, ast.Constant(value=str(name))]):
                found.add(name)
    return found


@pytest.mark.parametrize(
    ("source", "locks"),
    [
        ("def f(): rows.select_for_update(no_key=True).get()", {"m.f"}),
        ("def f(): return lock_row(rows, pk)", {"m.f"}),
        ("def f(): quotas.lock_quotas(team=team)", {"m.f"}),
        ("class C:\n  def f(self):\n    def g(): lock_row(rows, pk)\n    g()", {"m.C.f.g"}),
        ("rows = Claim.objects.select_for_update()", {"m"}),
        ("def f(): cursor.execute('SELECT pg_try_advisory_lock(1)')", {"m.f"}),
        ("def f(): cursor.execute(f'SELECT 1 FROM {table} for update')", {"m.f"}),
        ("def f():\n  'Takes rows FOR UPDATE.'\n  return rows.get()", set()),
        ("def f(): block(rows); rows.unlock_quotas", set()),
    ],
)
def test_a_lock_is_found_wherever_it_is_written(source, locks):
    assert locks_in(source, "m") == locks
