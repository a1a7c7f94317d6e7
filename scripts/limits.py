"""The limits of size: file ≤ 300 lines, function ≤ 60, template ≤ 120 (CONTRIBUTING.md says why)."""

import ast
import subprocess
import sys
from pathlib import Path

FILE, FUNCTION, TEMPLATE = 300, 60, 120


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.split() if Path(name).exists()]


def main() -> int:
    over: list[str] = []
    for path in tracked("*.py"):
        if "migrations" in path.parts:
            continue
        text = path.read_text()
        if (lines := text.count("\n")) > FILE:
            over.append(f"{path}: {lines} lines; a file has {FILE} at most")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION:
                    where = f"{path}:{node.lineno}: {node.name}"
                    over.append(f"{where} has {length} lines; a function has {FUNCTION} at most")
    templates = {path: path.read_text().count("\n") for path in tracked("templates/*.html")}
    over += [
        f"{path}: {n} lines; a template has {TEMPLATE} at most"
        for path, n in templates.items()
        if n > TEMPLATE
    ]
    print("\n".join(over))
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
