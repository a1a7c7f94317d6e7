"""
What tests need of the machine beside Python's packages: what there is of it, what is not run without it, and
how to get it. `python -m tests.machine` prepares everything before `make test` starts the tests.

As root on Debian or Ubuntu it installs what is missing (`INSTALL=0` prevents that); otherwise it prints the
command. Exit code 1 if something is missing and CI is true.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from demo.controlplane import build as controlplane
from tests import mlflow_server
from tests.clients.generated import build as generated
from tests.e2e import chromium
from tests.keycloak import server as keycloak
from tests.oracle import build as oracle


@dataclass(frozen=True, slots=True)
class Need:
    """
    Something that some tests need. `lacks` says why it cannot be used, "" if it can; `packages` of apt, the
    first that there is; `prepare` downloads or builds it once and says why it cannot, "" if all is well.
    `reasons` are what skipped tests begin with; `runs` says what they test.
    """

    name: str
    runs: str
    lacks: Callable[[], str]
    reasons: tuple[str, ...]
    packages: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()  # a command, where apt has none of the packages
    prepare: Callable[[], str] | None = None
    otherwise: str = ""  # how to get it without apt


def _built(ensure: Callable[[], object], failure: type[Exception]) -> Callable[[], str]:
    def build() -> str:
        try:
            ensure()
        except failure as error:
            return str(error)
        return ""

    return build


def _prometheus() -> str:
    absent = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not on PATH" if absent else ""


def _chromium() -> str:
    return "" if chromium.found() else "not on PATH, and CHROMIUM names none"


NEEDS = (
    Need(
        "Chromium",
        "pages in a browser, accessibility",
        _chromium,
        ("No Chromium",),
        packages=("chromium",),  # Ubuntu has it as a snap only
        fallback=(sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"),
        otherwise="name a Chromium in CHROMIUM, or .venv/bin/playwright install --with-deps chromium",
    ),
    Need(
        "Prometheus",
        "three days of usage and cost, gaps of telemetry, alert rules",
        _prometheus,
        ("prometheus is not", "promtool is not"),
        packages=("prometheus",),
        otherwise="https://prometheus.io/download",
    ),
    Need(
        "Java 17",
        "a real identity provider (Keycloak)",
        keycloak.why_unusable,
        ("There is no Java", "Java "),
        packages=("openjdk-17-jre-headless", "default-jre-headless"),
        otherwise="https://adoptium.net",
    ),
    Need(
        "Keycloak",
        "a real identity provider",
        lambda: "it needs Java 17" if keycloak.why_unusable() else "",
        ("Keycloak cannot",),
        prepare=keycloak.install,
        otherwise="Java 17 and access to Maven Central",
    ),
    Need(
        "MLflow",
        "usage of experiment tracking",
        lambda: "",
        ("MLflow", "uv, which installs MLflow"),
        prepare=mlflow_server.install,
        otherwise="access to PyPI",
    ),
    Need(
        "control plane",
        "a real Kubernetes: claims, quota, scheduler, policies",
        controlplane.why_unusable,
        ("The control plane lacks",),
        prepare=_built(controlplane.ensure, controlplane.BuildFailed),
        otherwise="install Go (https://go.dev/dl), or name ready programs in DRAGOMAN_CONTROLPLANE_DIR",
    ),
    Need(
        "generated clients",
        "clients that tools generate from the description of the API",
        generated.why_unusable,
        ("Go, which compiles", "uv, which installs a generator", "Generators of clients"),
        prepare=generated.install,
        otherwise="install Go (https://go.dev/dl); access to PyPI, npm and the Go module proxy",
    ),
    Need(
        "oracle",
        "the allocator and CEL of Kubernetes itself",
        oracle.why_unusable,
        ("Go, which would build",),
        prepare=_built(oracle.ensure, oracle.BuildFailed),
        otherwise="install Go (https://go.dev/dl)",
    ),
)


def missing() -> list[tuple[Need, str]]:
    """Return what this machine lacks, each with the reason. Downloads nothing."""
    return [(need, reason) for need in NEEDS if (reason := need.lacks())]


def apt_installs(say: Callable[[str], None], run: Callable[[Sequence[str]], int]) -> None:
    """Install what is missing and what apt has; `run` returns the exit code of a command."""
    run_once = iter([("apt-get", "update", "-q")])  # only if something is not found
    for need, _reason in missing():
        for package in need.packages:
            install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", package)
            say(f"{need.name} is missing; installing the package {package} …")
            if run(install) == 0:
                break
            if (update := next(run_once, None)) and run(update) == 0 and run(install) == 0:
                break
        else:
            if need.fallback:
                say(f"{need.name}: {' '.join(need.fallback[1:])} …")
                run(need.fallback)


def table(lacking: Iterable[tuple[Need, str]]) -> list[str]:
    """Return a line for each need: that it is there, or what will be skipped for want of it."""
    reasons = {need.name: reason for need, reason in lacking}
    lines = []
    for need in NEEDS:
        reason = reasons.get(need.name)
        state = f"missing: {' '.join(reason.split())}" if reason else "ready"
        lines.append(f"  {need.name:14} {state}")
        if reason:
            lines.append(f"  {'':14} skipped: {need.runs}. To get it: {advice(need)}")
    return lines


def advice(need: Need) -> str:
    return (
        f"apt-get install {need.packages[0]}" if need.packages and shutil.which("apt-get") else need.otherwise
    )


def command(lacking: Iterable[tuple[Need, str]]) -> str:
    """Return the one command that installs what apt has of it, "" if that is nothing."""
    packages = [need.packages[0] for need, _reason in lacking if need.packages]
    return f"sudo apt-get install -y {' '.join(packages)}" if packages and shutil.which("apt-get") else ""


def not_run(reasons: Iterable[str]) -> Counter[str]:
    """Count the tests that were skipped for want of something, by what it is."""
    counted: Counter[str] = Counter()
    for reason in reasons:
        said = reason.removeprefix("Skipped: ")
        counted.update(need.name for need in NEEDS if said.startswith(need.reasons))
    return counted


def last_line(passed: int, failed: int, reasons: Iterable[str]) -> str:
    """Return the last line of a run that was not a full one, "" for a full run."""
    counted = not_run(reasons)
    if not counted:
        return ""
    results = f"{passed:,} passed" + (f", {failed:,} failed" if failed else "")
    lacked = ", ".join(f"{name} ({number:,})" for name, number in counted.most_common())
    how = command(missing())
    return (
        f"{results}, {counted.total():,} not run for lack of {lacked}: not a full run."
        f"{' To install it: ' if how else ''}{how}"
    )


def prepare(say: Callable[[str], None], run: Callable[[Sequence[str]], int]) -> list[tuple[Need, str]]:
    """Install, download and build what is missing, as far as possible; return what is still missing."""
    may_install = os.geteuid() == 0 and shutil.which("apt-get") and os.environ.get("INSTALL") != "0"
    if may_install and missing():
        apt_installs(say, run)
    lacking = missing()
    refused = {need.name for need, _reason in lacking}
    for need in NEEDS:
        if need.prepare and need.name not in refused and (reason := need.prepare()):
            lacking.append((need, reason))
    return lacking


def _run(arguments: Sequence[str]) -> int:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-3:]
        sys.stdout.write("".join(f"  {line}\n" for line in tail))
    return done.returncode


def main() -> int:
    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    lacking = prepare(say, _run)
    if not lacking:
        return 0
    say("What the tests need of this machine:")
    for line in table(lacking):
        say(line)
    if how := command(lacking):
        say(f"Install what Debian has of it: {how}")
    return 1 if os.environ.get("CI", "").lower() == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
