"""The Go program around the code of Kubernetes: built once per state of its sources, beside the checkout."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from demo.controlplane.build import BuildFailed, environment

SOURCES = Path(__file__).parent / "go"


def program() -> Path:
    """Return where the program lies, or will: a change of its sources gives another folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "dragoman/oracle" / fingerprint() / "oracle"


def fingerprint() -> str:
    told = hashlib.sha256()
    for path in [*sorted(SOURCES.glob("*.go")), SOURCES / "go.mod", SOURCES / "go.sum"]:
        told.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return told.hexdigest()[:16]


def why_unusable() -> str:
    """Return why upstream cannot be asked here; empty if it can."""
    if os.access(program(), os.X_OK) or shutil.which("go"):
        return ""
    return (
        "Go, which would build the code of Kubernetes to compare with, is not installed (https://go.dev/dl)."
    )


def ensure() -> Path:
    """Return the program, built if need be: seconds with Go's own cache warm. Raise `BuildFailed`."""
    if os.access(program(), os.X_OK):
        return program()
    if reason := why_unusable():
        raise BuildFailed(reason)
    folder = program().parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(program(), os.X_OK):  # another process may have built it meanwhile
            _build(folder)
    return program()


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        made = Path(beside) / "oracle"
        command = ["go", "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", str(made), "."]
        done = subprocess.run(command, cwd=SOURCES, env=environment(), capture_output=True, text=True)
        if done.returncode:
            raise BuildFailed(f"Go could not build the program of tests/oracle/go:\n{done.stderr[-2000:]}")
        made.replace(program())
