"""Rules of the house that a reader cannot see at a glance, checked on the sources."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.source import SOURCE

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(package for package in SOURCE if package != "demo")


def paths(*packages):
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def sources(*packages):
    for path in paths(*packages):
        yield path, ast.parse(path.read_text())


def writes_of(tree, attribute):
    """Places that assign `something.<attribute>` or pass it as a keyword to `update(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr == attribute:
                    yield node.lineno
        match node:
            case ast.Call(func=ast.Attribute(attr="update"), keywords=keywords):
                if any(keyword.arg == attribute for keyword in keywords):
                    yield node.lineno


def test_the_state_of_a_claim_has_one_writer():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in sources("claims", "usage", "portal")
        for line in writes_of(tree, "state")
    ]
    assert len(found) == 1, found
    assert found[0].startswith("claims/models/claim.py:")


def test_the_search_for_writers_finds_both_ways_of_writing():
    tree = ast.parse("claim.state = 1\nClaim.objects.filter(pk=1).update(state=2)\nclaim.states = 3")
    assert list(writes_of(tree, "state")) == [1, 2]


def test_no_code_asks_whether_it_is_under_test():
    for path in paths(*PACKAGES):
        if path.name != "settings.py":
            assert "settings.TEST" not in path.read_text(), path


def test_no_import_hides_in_a_function():
    for path, tree in sources(*PACKAGES):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                hidden = [
                    child.lineno for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom)
                ]
                assert not hidden, f"{path.relative_to(ROOT)}:{hidden}"


@pytest.mark.parametrize("attribute", ["style=", "onclick=", "hx-on", "<style", "javascript:"])
def test_no_template_needs_what_the_content_security_policy_forbids(attribute):
    for path in sorted((ROOT / "templates").rglob("*.html")):
        assert attribute not in path.read_text(), f"{attribute} in {path.relative_to(ROOT)}"


def test_nothing_of_other_people_is_committed():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not [name for name in listed.splitlines() if "vendor/" in name or "node_modules/" in name]


def test_nothing_computes_md5():
    """PostgreSQL and Python of a site that keeps to FIPS 140 refuse it."""
    source = list(paths(*PACKAGES))
    assert len(source) > 300
    assert [str(path) for path in source if re.search(r"\bmd5\b", path.read_text(), re.IGNORECASE)] == []
