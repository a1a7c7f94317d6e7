"""Starts the processes of the demo in order, watches them, and stops them in the other order."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType

from portal.demo.child import Child, write
from portal.demo.config import ROOT, Config
from portal.demo.failure import DemoFailure

COLOURS = (36, 35, 33, 32, 34, 95, 96, 93)
NEEDED_MIB = 500


class Stopped(BaseException):
    """Somebody pressed Ctrl-C or sent SIGTERM. Not an Exception: nobody who tries something may catch it."""


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

    def wait(self, what: str, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready`; raise DemoFailure when a process dies or the time is over."""
        deadline = time.monotonic() + seconds
        while not ready():
            self.check_children()
            if time.monotonic() > deadline:
                logs = self.config.home / "logs"
                raise DemoFailure(f"{what} was not ready after {seconds:.0f} s. The logs are in {logs}.")
            time.sleep(0.05)

    def check_children(self) -> None:
        """Raise Stopped if somebody asked for it, and DemoFailure if a process has ended."""
        if self.stopping:
            raise Stopped
        for child in self.children:
            if child.exit_code is not None:
                said = "\n".join(f"    {line}" for line in child.last)
                raise DemoFailure(
                    f"{child.name} has ended with exit code {child.exit_code}. Its last lines:\n{said}\n"
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
        """Stop what speaks to people first and the database last; leave no process behind."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # once is enough
        for child in self.children:
            child.quiet = True  # how each of them says good-bye stands in its log
        storage = [child for child in self.children if child.name in {"database", "redis"}]
        others = [child for child in self.children if child not in storage]
        for group in (others, storage):
            for child in reversed(group):
                child.ask_to_stop()
            deadline = time.monotonic() + 10
            for child in reversed(group):
                child.make_stop(deadline)


def check_port(port: int) -> None:
    """Raise DemoFailure if somebody listens there."""
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
