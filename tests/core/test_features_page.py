"""docs/features.md names code and tests; each of them is there, and a file of tests has some."""

import ast
import re
from pathlib import Path

import pytest

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


def path_of(name: str) -> Path:
    """Return the file of tests that a row names, below `tests/` or `tests/claims/`."""
    found = [folder / name for folder in (ROOT / "tests", ROOT / "tests/claims") if (folder / name).is_file()]
    assert len(found) == 1, f"{name} is {len(found)} files"
    return found[0]


def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_code_and_tests_of_a_row_are_there(row):
    _start, _what, _page, code, tests, _end = re.split(r"(?<!\\)\|", row)
    for name in names(code):
        assert (ROOT / name).exists(), name
    assert names(tests)
    for name in names(tests):
        file, marked, function = name.partition("::")
        known = functions_in(path_of(file))
        assert function in known if marked else known, name


def test_every_app_is_on_the_features_page():
    code = {name.partition("/")[0] for row in ROWS for name in names(re.split(r"(?<!\\)\|", row)[3])}
    assert code >= {"portal", "usage", "claims", "inventory", "teams", "cluster", "core", "dra", "simulator"}
