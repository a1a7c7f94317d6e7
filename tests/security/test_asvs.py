"""docs/asvs.md answers every requirement, and what it names exists."""

import re
from collections import Counter
from pathlib import Path

from tests.security import page

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "asvs.md"
# Numbers and levels of the standard, without its text.
REQUIREMENTS = Path(__file__).with_name("asvs-5.0.0-level-2.txt")
ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| ([^|]+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
ANSWERS = {"met", "in part", "not met", "not applicable"}
NAMED = re.compile(r"`([\w./-]+/[\w./-]+?)(?:::(\w+))?`")


def rows():
    return ROW.findall(DOCUMENT.read_text())


def test_each_requirement_of_levels_1_and_2_has_its_row_and_no_other():
    wanted = [line.split()[0] for line in REQUIREMENTS.read_text().splitlines()]
    assert len(wanted) == 253
    assert [number for number, _about, _answer, _where in rows()] == wanted


def test_each_answer_is_one_of_four_and_says_what_is_missing():
    for number, _about, answer, where in rows():
        assert answer in ANSWERS, number
        if answer == "not met":
            assert "Needed:" in where, f"{number}: say what would be needed"
        if answer == "met":
            assert len(where) > 3, number
    counted = Counter(answer for _number, _about, answer, _where in rows())
    told = " · ".join(f"{counted[name]} {name}" for name in ("met", "in part", "not met", "not applicable"))
    assert f"\n{told}.\n" in DOCUMENT.read_text()


def test_each_test_and_file_that_is_named_exists():
    missing = []
    for document in (DOCUMENT, ROOT / "docs" / "security.md"):
        for path, name in NAMED.findall(document.read_text()):
            file = ROOT / path
            if not file.exists() or (name and f"def {name}(" not in file.read_text()):
                missing.append(f"{document.name}: {path}::{name}")
    assert missing == []


def test_most_tests_that_are_named_are_marked():
    """A requirement that a test proves is tried by it: the page of tests should list it."""
    named = {(path, name) for path, name in NAMED.findall(DOCUMENT.read_text()) if name}
    marked = {(test.file, test.name) for test in page.found()}
    assert len(named & marked) > len(named) * 0.75
