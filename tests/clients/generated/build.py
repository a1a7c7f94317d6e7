"""
Clients in three languages, generated from docs/openapi.yaml by tools that people use for that, and compiled.

The tools lie in ~/.cache/dragoman/generated, as do the clients of each state of the description.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.assets import AssetsMissing, node_tool

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FILE = ROOT / "docs/openapi.yaml"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dragoman/generated"
PYTHON_TOOL = "openapi-python-client==0.29.1"
GO_TOOL = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
PYTHON_PROGRAM = """
import importlib, os, pkgutil
from uuid import UUID
import dragoman_api
from dragoman_api import AuthenticatedClient
from dragoman_api.api.claims import claims_retrieve

for module in pkgutil.walk_packages(dragoman_api.__path__, "dragoman_api."):
    importlib.import_module(module.name)
with AuthenticatedClient(base_url=os.environ["DRAGOMAN_URL"], token=os.environ["DRAGOMAN_TOKEN"]) as client:
    claim = claims_retrieve.sync(UUID(os.environ["CLAIM"]), client=client)
print(claim.name)
"""
SECONDS = 900  # to download and compile on a busy machine


class BuildFailed(Exception):
    pass


def why_unusable() -> str:
    return "" if shutil.which("go") else "Go, which compiles the generated client, is not installed."


def fingerprint(*of: Path) -> str:
    told = hashlib.sha256(f"{PYTHON_TOOL} {GO_TOOL}".encode())
    for path in of:
        told.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return told.hexdigest()[:16]


def tools() -> Path:
    return CACHE / f"tools-{fingerprint(HERE / 'typescript/package-lock.json', HERE / 'go/go.sum')}"


def run(*command: str | Path, where: Path, **environment: str) -> None:
    """Raise BuildFailed with the end of what a failing command says."""
    told = [str(part) for part in command]
    done = subprocess.run(
        told,
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode:
        raise BuildFailed(f"{' '.join(told)[:200]}: {(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def unless_there(folder: Path) -> Iterator[Path | None]:
    """Yield the folder to fill, None if it was filled before; others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / ".ready"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield None if ready.exists() else folder
        ready.touch()


def install() -> str:
    """Install the tools unless they are there; return why that is not possible, "" if all is well."""
    if reason := why_unusable():
        return reason
    uv = shutil.which("uv") or shutil.which("uv", path=ROOT / ".tools/uv/bin")
    if uv is None:
        return "uv, which installs a generator of clients, is not here; `make install` brings it."
    try:
        with unless_there(tools()) as folder:
            if folder is not None:
                run(uv, "venv", "--clear", "--python", sys.executable, folder / "python", where=folder)
                python = folder / "python/bin/python"
                run(uv, "pip", "install", "--quiet", "--python", python, PYTHON_TOOL, where=folder)
                run("go", "install", GO_TOOL, where=folder, GOBIN=str(folder / "bin"))
                run("go", "mod", "download", where=HERE / "go")
                for name in ("package.json", "package-lock.json"):
                    shutil.copy(HERE / "typescript" / name, folder)
                run(*node_tool("npm"), "ci", "--no-audit", "--no-fund", where=folder)
    except (AssetsMissing, BuildFailed, subprocess.TimeoutExpired) as error:
        return f"Generators of clients cannot be installed: {str(error)[-300:]}"
    return ""


def python(folder: Path) -> list[str]:
    generator = tools() / "python/bin/openapi-python-client"
    made = folder / "dragoman_api"
    run(generator, "generate", "--path", FILE, "--output-path", made, "--meta", "none", where=folder)
    (folder / "main.py").write_text(PYTHON_PROGRAM)
    return [str(tools() / "python/bin/python"), str(folder / "main.py")]


def go(folder: Path) -> list[str]:
    shutil.copytree(HERE / "go", folder, dirs_exist_ok=True)
    (folder / "dragoman").mkdir()
    run(tools() / "bin/oapi-codegen", "-config", "oapi-codegen.yaml", FILE, where=folder)
    run("go", "build", "-o", "program", ".", where=folder)
    return [str(folder / "program")]


def typescript(folder: Path) -> list[str]:
    for name in ("main.ts", "package.json"):
        shutil.copy(HERE / "typescript" / name, folder)
    (folder / "node_modules").symlink_to(tools() / "node_modules")
    run(tools() / "node_modules/.bin/openapi-typescript", FILE, "-o", "api.d.ts", where=folder)
    strict = ("--strict", "--module", "nodenext", "--target", "es2022", "--types", "node")
    run(tools() / "node_modules/.bin/tsc", *strict, "main.ts", "api.d.ts", where=folder)
    return [*node_tool("node"), str(folder / "main.js")]


LANGUAGES: dict[str, Callable[[Path], list[str]]] = {"Python": python, "Go": go, "TypeScript": typescript}


def command(language: str) -> list[str]:
    """Return the command of the program in this language, compiled unless it was before."""
    of = fingerprint(
        FILE, *sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    )
    with unless_there(CACHE / of / language) as folder:
        told = CACHE / of / language / "command.txt"
        if folder is not None:
            for old in CACHE.glob("*/*/command.txt"):
                if old.parent.name == language and old != told:
                    shutil.rmtree(old.parent)  # of an earlier description
            made = folder / "made"
            shutil.rmtree(made, ignore_errors=True)  # of a build that failed
            made.mkdir()
            told.write_text("\n".join(LANGUAGES[language](made)))
    return told.read_text().split("\n")
