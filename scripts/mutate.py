"""
`make mutate`: make small mistakes in the code, one at a time, and see whether a test notices.

One pytest process imports Django and collects the tests. A child forked from it runs them once and notes
which test runs which line. Then each mutant gets a child of its own with a database of its own, in which the
functions of the mutated file have other code, and only the tests that run the changed line, the quickest
first. See docs/mutation-testing.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import hashlib
import os
import pickle
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from scripts.mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".tools" / "mutate"
APPS = ("portal", "usage", "claims", "inventory", "notify", "teams", "cluster", "dra", "core")
SKIPPED = ("*/migrations/*", "*/apps.py", "*/admin.py", "portal/settings.py", "demo/*")
# Tests with processes of their own: no code in this process runs in them.
ELSEWHERE = (
    *("tests/e2e", "tests/scheduler", "tests/controlplane", "tests/claims/kubernetes", "tests/oracle"),
    *("tests/portal/test_demo_processes.py", "tests/simulator", "tests/bench", "tests/core/test_look.py"),
)
LIMIT = 60.0  # seconds of the clock for a mutant, beside ten times what its tests took


@dataclass
class Known:
    """Record of one run of the tests: seconds by test; tests by file and line."""

    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)


@dataclass
class Trial:
    """`killer` is the test that failed, "" for a survivor; `ran` is how many tests ran the line."""

    mutant: Mutant
    killer: str = ""
    ran: int = 0


class Watch:
    """Record which lines of some files run, with `sys.monitoring`, once per test."""

    tool = sys.monitoring.COVERAGE_ID

    def __init__(self, files: Iterable[str]) -> None:
        self.files = set(files)
        self.seen: set[tuple[str, int]] = set()
        sys.monitoring.use_tool_id(self.tool, "mutate")
        sys.monitoring.register_callback(self.tool, sys.monitoring.events.LINE, self.note)
        sys.monitoring.set_events(self.tool, sys.monitoring.events.LINE)

    def note(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self.files:
            self.seen.add((code.co_filename, line))
        return sys.monitoring.DISABLE

    def begin(self) -> None:
        self.seen = set()
        sys.monitoring.restart_events()


class Runner:
    """A pytest plugin that runs mutants instead of the tests."""

    def __init__(self, options: argparse.Namespace, files: list[Path]) -> None:
        self.options, self.files = options, files
        self.trials: list[Trial] = []
        self.done = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.items[:] = [item for item in session.items if not needs_processes(item)]
        known = self.known(session)
        if known.failed:
            say(f"{len(known.failed)} tests fail without a mutant and are left out: {known.failed[:5]}")
        texts = {path: path.read_text() for path in self.files}
        every = [one for path in self.files for one in mutants_of(path.relative_to(ROOT), texts[path])]
        every = [one for one in every if self.options.lines.wants(one)]
        chosen = sample(every, self.options.sample, self.options.seed)
        say(f"{len(chosen)} of {len(every)} mutants in {len(self.files)} files")
        gc.collect()
        gc.freeze()
        for trial in self.judge(session, chosen, texts, known):
            self.trials.append(trial)
            say("." if trial.killer else "S", end="")
        report(self.trials, texts, self.options.paths)
        self.done = True
        return True

    def known(self, session: pytest.Session) -> Known:
        kept = KEPT / f"{fingerprint(session.items, self.files)}.pickle"
        if not kept.exists():
            say(f"Running {len(session.items)} tests once to see which lines they run …")
            KEPT.mkdir(parents=True, exist_ok=True)
            child = fork(lambda: kept.write_bytes(pickle.dumps(run_once(session, self.files))))
            os.waitpid(child, 0)
        known: Known = pickle.loads(kept.read_bytes())  # noqa: S301  # written by ourselves
        return known

    def judge(
        self, session: pytest.Session, mutants: list[Mutant], texts: dict[Path, str], known: Known
    ) -> Iterator[Trial]:
        """Yield the result of each mutant, `jobs` at a time."""
        waiting = list(mutants)
        running: dict[int, tuple[int, Mutant, int, float]] = {}  # by the pipe that it answers to
        while waiting or running:
            while waiting and len(running) < self.options.jobs:
                mutant = waiting.pop(0)
                tests = tests_for(mutant, known)[: self.options.most]
                if not tests:
                    yield Trial(mutant)
                    continue
                limit = LIMIT + 10 * sum(known.seconds[name] for name in tests)
                reader, child = self.start(session, mutant, texts, tests)
                running[reader] = (child, mutant, len(tests), time.monotonic() + limit)
            ready, _w, _x = select.select(list(running), [], [], 0.5)
            for reader in [one for one in running if one in ready or time.monotonic() > running[one][3]]:
                child, mutant, ran, _until = running.pop(reader)
                said = os.read(reader, 4000).decode() if reader in ready else "took too long"
                os.close(reader)
                os.killpg(child, signal.SIGKILL) if reader not in ready else None
                os.waitpid(child, 0)
                yield Trial(mutant, said.removeprefix("ok"), ran)

    def start(
        self, session: pytest.Session, mutant: Mutant, texts: dict[Path, str], tests: list[str]
    ) -> tuple[int, int]:
        reader, writer = os.pipe()

        def work() -> None:
            os.setsid()
            # Views are imported with the first request, which would be too late.
            import_module(".".join(Path(mutant.path).with_suffix("").parts).removesuffix(".__init__"))
            replace_code(mutant, texts[ROOT / mutant.path])
            os.write(writer, (first_failure(session, tests) or "ok").encode()[:4000])

        child = fork(work)
        os.close(writer)
        return reader, child


class Lines:
    """The lines to mutate: all, or those that differ from a commit."""

    def __init__(self, base: str) -> None:
        self.changed: dict[str, set[int]] | None = changed_lines(base) if base else None

    def wants(self, mutant: Mutant) -> bool:
        return self.changed is None or mutant.line in self.changed.get(mutant.path.as_posix(), ())


def changed_lines(base: str) -> dict[str, set[int]]:
    command = ["git", "diff", "--unified=0", "--no-color", "--merge-base", base, "--", "*.py"]
    found: dict[str, set[int]] = {}
    name = ""
    for line in subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(name, set()).update(range(first, first + count))
    return found


def fork(work: Any) -> int:
    """Run `work` in a child process that always ends with it; return the process id."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        work()
        code = 0
    except BaseException:  # the parent reads nothing, which it takes for a death
        if log := os.environ.get("MUTATE_LOG"):
            import traceback

            with Path(log).open("a") as file:
                traceback.print_exc(file=file)
    finally:
        os._exit(code)


def run_once(session: pytest.Session, files: list[Path]) -> Known:
    known, watch = Known(), Watch(str(path) for path in files)
    watching = Failures()
    session.config.pluginmanager.register(watching)
    for item, following in pairs(session.items):
        watch.begin()
        began, failed = time.monotonic(), len(watching.failed)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        known.seconds[item.nodeid] = time.monotonic() - began
        if len(watching.failed) > failed:
            known.failed.append(item.nodeid)
            continue
        for path, line in watch.seen:
            known.lines.setdefault(path, {}).setdefault(line, set()).add(item.nodeid)
    return known


def first_failure(session: pytest.Session, tests: list[str]) -> str:
    """Return the name of the first of `tests` that fails."""
    watching = Failures()
    session.config.pluginmanager.register(watching)
    by_name = {item.nodeid: item for item in session.items}
    for item, following in pairs([by_name[name] for name in tests]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if watching.failed:  # tests.postgres drops the databases of processes that have ended
            return watching.failed[0]
    return ""


class Failures:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def pairs(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    yield from zip(items, [*items[1:], None], strict=True)


def replace_code(mutant: Mutant, text: str) -> None:
    """Replace the code of every function of the file by that of the mutant."""
    path = str(ROOT / mutant.path)
    old, new = (compile(source, path, "exec", dont_inherit=True) for source in (text, mutant.apply(text)))
    other = dict(differing(old, new))
    gc.unfreeze()  # what is frozen is not among the objects that are collected
    for function in gc.get_objects():
        # isinstance would ask the class of weak proxies, whose objects may be gone
        if type(function) is FunctionType and function.__code__.co_filename == path:
            function.__code__ = other.get(function.__code__, function.__code__)


def differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the old and new code of each changed function."""
    if old == new:
        return
    yield old, new
    olds, news = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    if len(olds) == len(news):  # else what is missing within has gone with its function
        for before, after in zip(olds, news, strict=True):
            yield from differing(before, after)


def tests_for(mutant: Mutant, known: Known) -> list[str]:
    lines = known.lines.get(str(ROOT / mutant.path), {})
    last = mutant.line + mutant.old.count("\n")
    found = {name for line in range(mutant.line, last + 1) for name in lines.get(line, ())}
    return sorted(found, key=lambda name: (known.seconds[name], name))


def needs_processes(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("controlplane") or item.get_closest_marker("browser")
    return bool(marked) or item.nodeid.startswith(ELSEWHERE)


def fingerprint(items: list[pytest.Item], files: list[Path]) -> str:
    """Return a hash of code, templates, tests and the selected tests."""
    content = hashlib.sha256("\n".join([*(item.nodeid for item in items), *map(str, files)]).encode())
    asked = {item.path for item in items}
    for folder in (*APPS, "tests", "templates"):
        for path in sorted((ROOT / folder).rglob("*")):
            other = path.name.startswith("test_") and path not in asked
            if path.suffix in (".py", ".html") and not other:
                content.update(path.read_bytes())
    return content.hexdigest()[:24]


def files_in(paths: list[str], lines: Lines) -> list[Path]:
    if not paths:
        paths = [name for name in lines.changed or () if name.startswith(APPS)]
    found = set()
    for name in paths:
        path = (ROOT / name).resolve()
        found |= set(path.rglob("*.py")) if path.is_dir() else {path} if path.exists() else set()
    names = sorted(path for path in found if path.suffix == ".py")
    return [p for p in names if not any(fnmatch.fnmatch(str(p.relative_to(ROOT)), one) for one in SKIPPED)]


def tests_of(files: list[Path]) -> list[str]:
    """Return the folders of the tests of the apps that the files are of."""
    apps = {path.relative_to(ROOT).parts[0] for path in files}
    return [f"tests/{app}" for app in sorted(apps) if (ROOT / "tests" / app).is_dir()]


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    if not count or count >= len(mutants):
        return mutants
    chosen = set(random.Random(seed).sample(range(len(mutants)), count))  # noqa: S311
    return [one for number, one in enumerate(mutants) if number in chosen]


def report(trials: list[Trial], texts: dict[Path, str], paths: list[str]) -> None:
    say("")
    survivors = [one for one in trials if not one.killer]
    for one in survivors:
        ran = f"{one.ran} tests ran it" if one.ran else "no test runs this line"
        say(f"\n{one.mutant.diff(texts[ROOT / one.mutant.path])}\n    ({ran})")
    say("")
    for path in paths if len(paths) > 1 else ():
        say(f"{path}: {score([one for one in trials if one.mutant.path.is_relative_to(path)])}")
    say(f"All: {score(trials)}")


def score(trials: list[Trial]) -> str:
    killed = sum(bool(one.killer) for one in trials)
    percent = 100 * killed // max(len(trials), 1)
    unrun = sum(not one.ran for one in trials)
    return f"{killed} of {len(trials)} mutants noticed, {percent} %; {unrun} that no test runs"


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate", description="Do the tests notice mistakes?")
    parser.add_argument("paths", nargs="*", help="files and folders, such as claims/quotas")
    parser.add_argument(
        "--changed", metavar="BASE", default="", help="only lines that differ from this commit"
    )
    parser.add_argument("--tests", nargs="+", help="tests to choose from (default: those of the same apps)")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument("--most", type=int, default=300, help="tests for one mutant, the quickest first")
    options = parser.parse_args()
    options.lines = Lines(options.changed)
    files = files_in(options.paths, options.lines)
    if not files and options.changed:
        say(f"No code of the portal differs from {options.changed}: nothing to mutate.")
        return 0
    if not files:
        parser.error("name a folder or a file of the portal, or --changed BASE")
    skipped = [f"--ignore={path}" for path in ELSEWHERE]
    tests = options.tests or tests_of(files)
    runner = Runner(options, files)
    found = pytest.main([*tests, *skipped, "-qq", "-s", "-r", "", "-p", "no:cacheprovider"], plugins=[runner])
    return 0 if runner.done else int(found) or 1


if __name__ == "__main__":
    raise SystemExit(main())
