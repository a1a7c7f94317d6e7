"""
docs/security-tests.md: each test of security with what it tries, from the marks of the tests.

`python -m tests.security.page` writes it, and a test holds it fresh. Marks are read from the source, so that
nothing has to be imported: `@pytest.mark.security("subject", "what it tries")` with plain texts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security-tests.md"
# Each subject, in the order of the page, with its heading.
SUBJECTS = {
    "access": "Objects of others",
    "scopes": "Tokens and scopes",
    "forgery": "Forged requests and redirects",
    "browser": "What browsers are told",
    "sign-in": "Sign-in and sessions",
    "guessing": "Guessing and floods",
    "injection": "Injection",
    "bombs": "Input that costs too much",
    "outbound": "Requests that the portal sends",
    "secrets": "Secrets",
    "races": "Races",
    "audit": "Audit log",
    "supply": "Supply chain",
}
HEAD = """# Tests of security

What each test of security tries, by subject. `python -m tests.security.page` writes this page from the marks
of the tests (`@pytest.mark.security`), and a test fails while it is stale. The [threat model](security.md)
says who attacks what, the [table of ASVS](asvs.md) which requirement each one proves.

`make test ARGS="-m security"` runs them. Those over every address take theirs from the URL conf: a new page
or endpoint is tried without a change of the tests, and one whose parameters they cannot fill fails with a
sentence.
"""


class SecurityTest(NamedTuple):
    subject: str
    tries: str
    file: str
    name: str


class NotPlain(Exception):
    """A mark is not two plain texts, or names an unknown subject; the message says where."""


def found() -> list[SecurityTest]:
    """Return every marked test, in the order of files and lines. Raises NotPlain."""
    files = (path for path in sorted((ROOT / "tests").rglob("*.py")) if "mark.security(" in path.read_text())
    return [test for path in files for test in _of(path)]


def _of(path: Path) -> Iterator[SecurityTest]:
    file = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.security":
                texts = [one.value for one in mark.args if isinstance(one, ast.Constant)]
                if len(texts) != 2 or len(mark.args) != 2 or texts[0] not in SUBJECTS:
                    subjects = ", ".join(SUBJECTS)
                    raise NotPlain(f"{file}::{node.name}: give a subject ({subjects}) and what it tries.")
                yield SecurityTest(str(texts[0]), str(texts[1]), file, node.name)


def written(tests: list[SecurityTest]) -> str:
    """Return the page."""
    parts = [HEAD]
    for subject, heading in SUBJECTS.items():
        rows = [test for test in tests if test.subject == subject]
        if rows:
            lines = [f"| {test.tries} | `{test.file}::{test.name}` |" for test in rows]
            parts.append("\n".join([f"## {heading}\n", "| what it tries | test |", "|---|---|", *lines, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(written(found()))
