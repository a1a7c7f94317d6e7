"""
Which service each page and each operation of the API calls, read from the source.

A service is a public function with the keyword `by`, the person who acts. A page or an operation calls what
it names, directly or through other functions and classes of the portal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "notify", "teams", "inventory", "claims", "usage", "portal")
PEOPLE = ("User", "User | None", "AbstractBaseUser")
API = "portal.api_urls"

type Name = tuple[str, str]  # module and name in it


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module

    @cached_property
    def imports(self) -> dict[str, Name]:
        """Return what each imported name is; a module has the name ""."""
        found: dict[str, Name] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}
        return found

    @cached_property
    def parts(self) -> dict[str, list[ast.stmt]]:
        """Return the statements that define each name of the module."""
        found: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node)
        return found


@cache
def modules() -> dict[str, Module]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not {"migrations", "management"} & set(path.parts):
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                found[name] = Module(name, ast.parse(path.read_text()))
    return found


def is_service(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and any(
            one.arg == "by" and one.annotation is not None and ast.unparse(one.annotation) in PEOPLE
            for one in node.args.kwonlyargs
        )
    )


@cache
def services() -> frozenset[Name]:
    return frozenset(
        (module.name, node.name)
        for module in modules().values()
        for node in module.tree.body
        if is_service(node)
    )


def named_in(nodes: Iterable[ast.AST], module: Module) -> Iterator[Name]:
    imports, parts = module.imports, module.parts
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                if node.id in parts:
                    yield module.name, node.id
                elif node.id in imports:
                    yield imports[node.id]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                package, name = imports.get(node.value.id, ("", ""))
                of = f"{package}.{name}" if name else package
                if of in modules():
                    yield of, node.attr


@cache
def calls() -> dict[Name, frozenset[Name]]:
    return {
        (module.name, name): frozenset(named_in(nodes, module))
        for module in modules().values()
        for name, nodes in module.parts.items()
    }


def reached_from(starts: Iterable[Name]) -> set[Name]:
    seen: set[Name] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += calls().get(name, ())
    return seen


def by_pages() -> set[Name]:
    addresses = [one for one in modules().values() if one.name.endswith(".urls")]
    return reached_from(name for one in addresses for name in named_in([one.tree], one))


def by_api() -> set[Name]:
    addresses = modules()[API]
    return reached_from(named_in([addresses.tree], addresses))
