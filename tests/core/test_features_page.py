"""docs/features.md names code and tests; each of them is there, and a file of tests has some."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/features.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what")]


def names(cell: str) -> list[str]:
    """Return what stands between backticks, with "a/{b,c}.py" spelled out."""
    found = []
    for name in re.findall(r"`([^`]+)`", cell):
        head, brace, rest = name.partition("{")
        inner, _brace, tail = rest.partition("}")
        found += [f"{head}{one}{tail}" for one in inner.split(",")] if brace else [name]
    return found


def files_of(name: str) -> list[Path]:
    """Return the file of tests that a row names, below `tests/` or `tests/claims/`."""
    return [folder / name for folder in (ROOT / "tests", ROOT / "tests/claims") if (folder / name).is_file()]


@cache
def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def problems_of(row: str) -> Iterator[str]:
    _start, what, _page, code, tests, _end = re.split(r"(?<!\\)\|", row)
    for name in names(code):
        if not (ROOT / name).exists():
            yield f"{what.strip()}: no {name}"
    if not names(tests):
        yield f"{what.strip()}: no tests"
    for name in names(tests):
        file, marked, function = name.partition("::")
        if len(files := files_of(file)) != 1:
            yield f"{what.strip()}: {file} is {len(files)} files"
        elif not (function in functions_in(files[0]) if marked else functions_in(files[0])):
            yield f"{what.strip()}: {name} is no test"


def test_code_and_tests_of_each_row_are_there():
    assert len(ROWS) > 200
    assert [problem for row in ROWS for problem in problems_of(row)] == []


def test_a_row_with_mistakes_is_noticed():
    row = "| what | page | `core/nothing.py` | `core/test_nothing.py` `core/test_cache.py::test_nothing` |"
    assert [problem.partition(": ")[2] for problem in problems_of(row)] == [
        "no core/nothing.py",
        "core/test_nothing.py is 0 files",
        "core/test_cache.py::test_nothing is no test",
    ]


def test_every_app_is_on_the_features_page():
    code = {name.partition("/")[0] for row in ROWS for name in names(re.split(r"(?<!\\)\|", row)[3])}
    assert code >= {"portal", "usage", "claims", "inventory", "teams", "cluster", "core", "dra", "simulator"}
