"""One process of the demo: in a session of its own, its lines prefixed, stopped with all that it started."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread

_output = Lock()


def write(name: str, colour: int, line: str) -> None:
    """Print one line under the name of its process, coloured where the output is a terminal."""
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
        self._signal(signal.SIGKILL)  # whatever the group still holds; nothing, after a clean end
        self.process.wait()

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
