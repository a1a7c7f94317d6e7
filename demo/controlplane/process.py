"""A program that runs in the background with its output in a file, and is gone when told so."""

import os
import random
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SECONDS_TO_END = 10
# Linux can end a child with its parent, however that ended; elsewhere only `stop` does. A parent that ended
# before `setpriv` had asked for this is not noticed by the kernel, so the child then looks whose it is.
DIE_WITH_PARENT = (
    ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"']
    if shutil.which("setpriv")
    else []
)


@dataclass(slots=True)
class Program:
    """
    One program of the control plane.

    Start it from the thread that lives longest: on Linux it dies with that one.
    """

    name: str
    command: list[str]
    log: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started.")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *([str(os.getpid())] if DIE_WITH_PARENT else []), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for us: we end the programs in order
            )

    def stop(self, *, kill: bool = False) -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_lines(self, count: int = 15) -> str:
        return (
            "\n".join(self.log.read_text(errors="replace").splitlines()[-count:]) if self.log.exists() else ""
        )


def free_ports(count: int) -> list[int]:
    """
    Return loopback ports that nobody listens on.

    From below the range that outgoing connections take theirs from, so that a program which is restarted
    finds its port still free.
    """
    found: list[int] = []
    candidates = random.sample(range(20_000, 32_000), 200)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("This machine has no free loopback ports between 20000 and 32000.")
