"""
The processes of the demo: each in its own session with prefixed lines; started in order, watched, and stopped
in reverse order.

First: settings of the demo from the environment, its files below DEMO_HOME, and its failure.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from types import FrameType


class DemoFailure(Exception):
    """Why the demo cannot start or continue: one sentence with the next step."""


ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Config:
    home: Path
    port: int
    real: bool  # the real control plane instead of the simulator
    empty: bool  # nothing is set up but the account of the platform admin

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> Path:
        """Redis's socket. A path has at most 107 bytes, so a deep DEMO_HOME gets a socket below /tmp."""
        near = self.home / "redis.sock"
        return near if len(str(near)) < 100 else Path(f"/tmp/dragoman-{os.getuid()}-{self.port}.sock")  # noqa: S108

    def secret(self, name: str) -> str:
        """Return a secret of this demo, created at its first start and readable only for its owner."""
        path = self.home / f"{name}.secret"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(48))
        return path.read_text()


def from_environment() -> Config:
    """Read PORT, DEMO_HOME, CLUSTER and EMPTY; raise DemoFailure for an invalid value."""
    port, kind = os.environ.get("PORT", "8000"), os.environ.get("CLUSTER", "sim")
    empty = os.environ.get("EMPTY", "") not in ("", "0", "false")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise DemoFailure(f"PORT is {port!r}; it must be a number from 1 to 65535.")
    if kind not in {"sim", "real"}:
        raise DemoFailure(f"CLUSTER is {kind!r}; it must be sim or real.")
    home = (ROOT / os.environ.get("DEMO_HOME", ".demo")).resolve()
    # The two kinds of cluster have different devices: each has its own database.
    folder = f"{kind}-empty" if empty else kind
    return Config(home=home / folder, port=int(port), real=kind == "real", empty=empty)


_output = Lock()


def write(name: str, colour: int, line: str) -> None:
    """Print one line under the name of its process, colored if the output is a terminal."""
    label = f"{name:>9} │ "
    if sys.stdout.isatty():
        label = f"\033[{colour}m{label}\033[0m"
    with _output:
        sys.stdout.write(label + line + "\n")
        sys.stdout.flush()


class Child:
    def __init__(
        self, name: str, colour: int, command: Sequence[str], environment: dict[str, str], log: Path
    ) -> None:
        self.name, self.colour, self.command = name, colour, list(command)
        self.environment, self.log = environment, log
        self.last: deque[str] = deque(maxlen=8)
        self.quiet = True  # until the portal is ready only the log file gets the lines
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, which stops everything in order
        )
        Thread(target=self._copy, daemon=True, name=f"log of {self.name}").start()

    def _copy(self) -> None:
        if self.process is None or self.process.stdout is None:
            return
        with self.log.open("a", encoding="utf-8") as log, contextlib.suppress(ValueError):
            for line in self.process.stdout:
                text = line.rstrip()
                self.last.append(text)
                log.write(text + "\n")
                log.flush()
                if not self.quiet:
                    write(self.name, self.colour, text)

    @property
    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def make_stop(self, deadline: float) -> None:
        """Wait until `deadline` (monotonic seconds); then kill the whole group."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.1, deadline - time.monotonic()))
        self._signal(signal.SIGKILL)  # what the group still holds; nothing after a clean end
        self.process.wait()

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)


COLOURS = (36, 35, 33, 32, 34, 95, 96, 93)
NEEDED_MIB = 500


class Stopped(BaseException):
    """Ctrl-C or SIGTERM. A BaseException, so that no `except Exception` catches it."""


class Supervisor:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.children: list[Child] = []
        self.environment = dict(os.environ)
        self.began = time.monotonic()
        self.stopping = False  # said again by `check_children`: Python drops what is raised in a finalizer

    def say(self, text: str) -> None:
        write("demo", 1, text)

    def trap_signals(self) -> None:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self.stopping = True
            raise Stopped

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGHUP, stop)

    def check_disk(self) -> None:
        try:
            self.config.home.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.config.home).free
        except OSError as error:
            raise DemoFailure(
                f"{self.config.home} cannot be used: {error.strerror}. Set DEMO_HOME."
            ) from error
        if free < NEEDED_MIB * 2**20:
            raise DemoFailure(
                f"{self.config.home} has {free // 2**20} MiB free; the demo needs {NEEDED_MIB} MiB. "
                "Make room or set DEMO_HOME."
            )

    def run(self, title: str, *arguments: str) -> None:
        """Run `manage.py …` to its end, its lines shown; raise DemoFailure if it fails."""
        self.say(title)
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(command, env=self.environment, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-6:])
            raise DemoFailure(f"{title} failed:\n{tail}")

    def start(self, name: str, *command: str) -> Child:
        colour = COLOURS[len(self.children) % len(COLOURS)]
        logs = self.config.home / "logs"
        logs.mkdir(exist_ok=True)
        child = Child(name, colour, command, self.environment, logs / f"{name}.log")
        self.children.append(child)
        child.start()
        return child

    def wait(self, subject: str, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready`; raise DemoFailure when a process dies or the time is up."""
        deadline = time.monotonic() + seconds
        while not ready():
            self.check_children()
            if time.monotonic() > deadline:
                logs = self.config.home / "logs"
                raise DemoFailure(f"{subject} was not ready after {seconds:.0f} s. The logs are in {logs}.")
            time.sleep(0.05)

    def check_children(self) -> None:
        """Raise Stopped after Ctrl-C or SIGTERM, and DemoFailure if a process has ended."""
        if self.stopping:
            raise Stopped
        for child in self.children:
            if child.exit_code is not None:
                output = "\n".join(f"    {line}" for line in child.last)
                raise DemoFailure(
                    f"{child.name} has ended with exit code {child.exit_code}. Its last lines:\n{output}\n"
                    f"The whole log is {child.log}."
                )

    def watch(self) -> None:
        """Show every line from now on, until a process dies or somebody stops the demo."""
        for child in self.children:
            child.quiet = False
        while True:
            self.check_children()
            time.sleep(0.3)

    def stop(self) -> None:
        """Stop web first and the database last; leave no process running."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # once is enough
        for child in self.children:
            child.quiet = True  # the log has their last lines
        storage = [child for child in self.children if child.name in {"database", "redis"}]
        others = [child for child in self.children if child not in storage]
        for group in (others, storage):
            for child in reversed(group):
                child.ask_to_stop()
            deadline = time.monotonic() + 10
            for child in reversed(group):
                child.make_stop(deadline)


def check_port(port: int) -> None:
    """Raise DemoFailure if the port is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise DemoFailure(
                    f"Port {port} is in use. Choose another one: make demo PORT={port + 1}"
                ) from error
            raise DemoFailure(f"Port {port} cannot be used: {error.strerror}.") from error
