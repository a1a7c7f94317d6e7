"""
Build what is missing of the control plane from the Go module proxy: `python -m demo.controlplane.build`.

First: which programs make a control plane, of which version, and where they are. A build takes about 12
minutes on two cores the first time, seconds when Go's own cache is warm, nothing when all is there.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULES = Path(__file__).parent / "go"
# program → (folder of the Go module, package to build)
PROGRAMS = {
    "etcd": ("etcd", "."),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}


def version() -> str:
    """Return the version of Kubernetes that go.mod names, "v1.37.1": the one place where it stands."""
    match = re.search(
        r"^require k8s\.io/kubernetes (v\S+)$", (MODULES / "kubernetes/go.mod").read_text(), re.M
    )
    if match is None:
        raise RuntimeError("demo/controlplane/go/kubernetes/go.mod requires no k8s.io/kubernetes.")
    return match[1]


def named_folder() -> Path | None:
    """Return the folder of ready programs that DRAGOMAN_CONTROLPLANE_DIR names."""
    named = os.environ.get("DRAGOMAN_CONTROLPLANE_DIR")
    return Path(named).expanduser() if named else None


def folder() -> Path:
    """Return where the programs lie, or will: outside the checkout, so that every checkout shares them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return named_folder() or cache / "dragoman/controlplane" / version()


def missing() -> list[str]:
    return [name for name in PROGRAMS if not os.access(folder() / name, os.X_OK)]


def why_unusable() -> str:
    """Return why there is no control plane here and none can be built; empty if all is well."""
    absent = missing()
    if not absent:
        return ""
    lacking = f"The control plane lacks {', '.join(absent)} in {folder()}"
    if named_folder():
        return f"{lacking}, which DRAGOMAN_CONTROLPLANE_DIR names."
    if shutil.which("go") is None:
        return f"{lacking}, and Go, which would build them, is not installed (https://go.dev/dl)."
    return ""


SECONDS_BETWEEN_LINES = 10


class BuildFailed(Exception):
    """A sentence for people: what is missing, or the last lines of the compiler."""


def ensure() -> Path:
    """Return the folder with all programs in it, building those that are missing. Raise `BuildFailed`."""
    if not missing():
        return folder()
    if reason := why_unusable():
        raise BuildFailed(reason)
    folder().mkdir(parents=True, exist_ok=True)
    with only_one_builder():
        for name in missing():  # again: another builder may have made some while this one waited
            build(name)
    return folder()


@contextmanager
def only_one_builder() -> Iterator[None]:
    with (folder() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is building the control plane; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(name: str) -> None:
    """Build one program beside its place and move it there when it is whole."""
    module, package = PROGRAMS[name]
    total = count_packages(MODULES / module, package)
    with tempfile.TemporaryDirectory(dir=folder(), prefix=f".{name}-") as beside:
        made = Path(beside) / name
        run_compiler(name, total, ["-o", str(made), package], MODULES / module)
        made.replace(folder() / name)


def count_packages(module: Path, package: str) -> int:
    """Count what will be compiled. Downloads the sources, which is why it says so."""
    say(f"{package.rsplit('/', 1)[-1].replace('.', 'etcd')}: fetching sources from the Go module proxy")
    command = ["go", "list", "-deps", package]
    listed = subprocess.run(command, cwd=module, env=environment(), capture_output=True, text=True)
    if listed.returncode:
        raise BuildFailed(f"Go could not fetch the sources of {package}:\n{listed.stderr[-2000:]}")
    return len(listed.stdout.split())


def run_compiler(name: str, total: int, arguments: list[str], module: Path) -> None:
    """Run `go build -v`, which names each package as it is compiled; those cached already are not named."""
    command = ["go", "build", "-v", "-trimpath", "-ldflags", linker_flags(), *arguments]
    started = shown = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=module, env=environment(), stderr=subprocess.PIPE, text=True
    ) as compiler:
        for line in compiler.stderr or ():
            lines.append(line)
            if time.monotonic() - shown >= SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                say(f"{name}: {len(lines)} of {total} packages compiled, {shown - started:.0f} s")
    if compiler.returncode:
        raise BuildFailed(f"Go could not build {name}:\n{''.join(lines[-20:])}")
    say(f"{name}: built in {time.monotonic() - started:.0f} s")


def linker_flags() -> str:
    """Strip, and say which version this is: without it the API server calls itself v0.0.0."""
    major, minor, _ = version().lstrip("v").split(".")
    facts = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    definitions = (f"-X k8s.io/component-base/version.{key}={value}" for key, value in facts.items())
    return " ".join(("-s -w", *definitions))


def environment() -> dict[str, str]:
    """Leave out GOFLAGS: a -mod=vendor of the caller would break the build."""
    return {key: value for key, value in os.environ.items() if key != "GOFLAGS"} | {"CGO_ENABLED": "0"}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def main() -> int:
    try:
        where = ensure()
    except BuildFailed as problem:
        say(str(problem))
        return 1
    say(f"The control plane of Kubernetes {version()} is ready in {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
