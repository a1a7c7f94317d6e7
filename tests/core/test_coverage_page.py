"""docs/coverage.md names code and tests; each of them is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/coverage.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what")]


def names(cell: str) -> list[str]:
    """Return what stands between backticks, with "a/{b,c}.py" spelled out."""
    found = []
    for name in re.findall(r"`([^`]+)`", cell):
        head, brace, rest = name.partition("{")
        inner, _brace, tail = rest.partition("}")
        found += [f"{head}{one}{tail}" for one in inner.split(",")] if brace else [name]
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_code_and_tests_of_a_row_are_there(row):
    _start, _what, _page, code, tests, _end = re.split(r"(?<!\\)\|", row)
    assert names(tests)
    for name in names(code):
        assert (ROOT / name).exists(), name
    for name in names(tests):
        assert (ROOT / "tests" / name).exists() or (ROOT / "tests/claims" / name).exists(), name
