"""
Figures of the structure: files, sizes of modules, names that cross a subject of `claims`. A mirror, no gate.

    python scripts/structure.py
"""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
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
    """Return the subject of claims that a module belongs to, "" if it is none of one."""
    parts = module.split(".")
    is_one = len(parts) > 2 and parts[0] == "claims" and parts[1] not in SHARED
    return parts[1] if is_one else ""


def imported(module: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the module of each name that a module imports from our own code."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module


def main() -> None:
    known = modules()
    lines = {name: len((ROOT / path).read_text().splitlines()) for name, path in known.items()}
    files = Counter(name.partition(".")[0] for name in known)
    print(f"{len(known)} Python files: " + ", ".join(f"{package} {files[package]}" for package in SOURCE))
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


if __name__ == "__main__":
    main()
