"""Names of our modules that docs, docstrings and comments write in backticks are there."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from teams.audit.actions import ACTIONS
from tests.source import SOURCE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {"notify/chat.py"}  # of CONTRIBUTING: files to add
QUOTED = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(rf"(?<![\w./])(?:{'|'.join(SOURCE)})(?:\.[A-Za-z_]\w*)+(?![\w/-])")
FILE = re.compile(rf"(?<![\w/])(?:{'|'.join(SOURCE)}|scripts|bench)/[\w/]+\.py\b")


def prose() -> list[Path]:
    code = [
        path
        for package in SOURCE
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
    ]
    return sorted([*code, *(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


@cache
def names_in(path: Path) -> set[str]:
    """Return every name that a module binds somewhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.TypeAlias(name=ast.Name(id=name)):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias(name=name, asname=alias):
                found.add(alias or name.rpartition(".")[2])
    return found


def is_there(dotted: str) -> bool:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        for module in (place.with_suffix(".py"), place / "__init__.py"):
            if module.exists() and (length == len(parts) or parts[length] in names_in(module)):
                return True
    return False


def absent(text: str) -> Iterator[str]:
    """Yield the names of modules and files in one quotation that are not there."""
    for name in DOTTED.findall(text):
        if not name.endswith(".py") and name not in ACTIONS and not is_there(name):
            yield name
    for name in FILE.findall(text):
        if name not in EXAMPLES and not (ROOT / name).exists() and not (ROOT / "tests" / name).exists():
            yield name


def test_modules_and_files_in_backticks_are_there():
    paths = prose()
    assert len(paths) > 500
    missing = [
        (str(path.relative_to(ROOT)), name)
        for path in paths
        for text in QUOTED.findall(path.read_text())
        for name in absent(text)
    ]
    assert missing == []


def test_relative_links_of_pages_lead_to_files():
    links = [
        (path, target)
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text())
    ]
    assert len(links) > 200
    assert [(path.name, target) for path, target in links if not (path.parent / target).exists()] == []


def test_every_page_of_docs_is_linked_from_contributing():
    contents = ("CONTRIBUTING.md", "docs/decisions/README.md", "docs/user/README.md")
    named = "".join((ROOT / path).read_text() for path in contents)
    pages = [path.name for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"{name})" not in named] == []


def test_a_name_that_is_not_there_is_noticed():
    assert is_there("claims.delivery.reconcile.reconcile_claim")
    assert not is_there("claims.delivery.reconcile.settled_by_nobody")
    assert not is_there("claims.services.request")


def public_classes():
    modules = (path for path in prose() if path.suffix == ".py" and path.parent.name != "commands")
    for path in modules:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, str(path.relative_to(ROOT))


def test_public_classes_of_two_modules_have_two_names():
    places = defaultdict(list)
    for name, path in public_classes():
        places[name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_pages_say_email():
    """One word for it, not "mail" and "email" by turns."""
    markup = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}|<[^>]*>", re.DOTALL)
    texts = {path: markup.sub(" ", path.read_text()) for path in (ROOT / "templates").rglob("*.html")}
    assert [
        str(path) for path, text in texts.items() if re.search(r"\bmail(s|ed|ing)?\b", text, re.IGNORECASE)
    ] == []
