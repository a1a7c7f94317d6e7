"""
Print figures of the structure: files, module sizes, names that cross a subject of `claims`. No gate.

    python scripts/structure.py             counts from the sources
    python scripts/structure.py --request   also the modules that run when the request form is sent
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"

try:
    import pytest
except ImportError:  # another Python: start again with that of the project
    if not PYTHON.exists() or Path(sys.executable) == PYTHON:
        sys.exit(f"{PYTHON} does not exist or has no pytest: run make, then {PYTHON} {' '.join(sys.argv)}")
    os.execv(PYTHON, [str(PYTHON), *sys.argv])  # noqa: S606

SOURCE = (
    "demo",
    "portal",
    "usage",
    "claims",
    "inventory",
    "notify",
    "teams",
    "cluster",
    "dra",
    "core",
    "simulator",
)
SHARED = {"models", "management"}  # folders of claims that are no subject


def modules() -> dict[str, Path]:
    """Return every source file that git knows, migrations apart, by its dotted name."""
    patterns = [f"{package}/*.py" for package in SOURCE]
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [Path(name) for name in listed.stdout.split() if "/migrations/" not in name]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def subject(module: str) -> str:
    """Return the subject of claims that a module belongs to, "" if it belongs to none."""
    parts = module.split(".")
    in_subject = len(parts) > 2 and parts[0] == "claims" and parts[1] not in SHARED
    return parts[1] if in_subject else ""


def imported(module: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the module of each name that a module imports from our own code."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                qualified = f"{node.module}.{alias.name}"
                yield qualified if qualified in known else node.module


SENT = "tests/claims/requests/test_request_pages.py::test_a_request_makes_a_claim_and_leads_to_it"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """As a plugin of pytest: print the modules whose functions run while the test client posts a form."""
    from django.test import Client

    ran: set[str] = set()
    packages = tuple(f"{ROOT}/{package}/" for package in SOURCE)

    def record(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(packages):
            ran.add(frame.f_code.co_filename.removeprefix(f"{ROOT}/"))

    def post(client: Client, *args: Any, **fields: Any) -> Any:
        sys.setprofile(record)
        try:
            return original(client, *args, **fields)
        finally:
            sys.setprofile(None)

    original, Client.post = Client.post, post  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Client.post = original  # type: ignore[method-assign]
    print(f"\nModules that run when the request form is sent: {len(ran)}")
    print("\n".join(f"  {name}" for name in sorted(ran)))


def main() -> None:
    known = modules()
    lines = {name: len((ROOT / path).read_text().splitlines()) for name, path in known.items()}
    files = Counter(name.partition(".")[0] for name in known)
    filled = sum(number > 1 for number in lines.values())
    print(
        f"{len(known)} Python files, {filled} with more than one line: "
        + ", ".join(f"{package} {files[package]}" for package in SOURCE)
    )
    written = [count for name, count in lines.items() if count > 10]
    print(f"Median module: {median(written):.0f} lines; {sum(count > 500 for count in written)} above 500")
    crossing: Counter[tuple[str, str]] = Counter()
    for name, path in known.items():
        for other in imported(name, path, known):
            if subject(name) and subject(other) and subject(name) != subject(other):
                crossing[subject(name), subject(other)] += 1
    both = sorted({pair for pair in crossing if pair[::-1] in crossing and pair < pair[::-1]})
    print(f"{sum(crossing.values())} imported names cross a subject of claims")
    print(f"Pairs of subjects that import each other: {both or 'none'}")
    if "--request" in sys.argv:
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "scripts.structure", SENT]
        sys.exit(subprocess.run(command, cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
