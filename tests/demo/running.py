"""A running demo for browser tests: the processes of `make demo`, in a folder and on a port of their own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Self

import httpx
import psutil

from tests import patience

ROOT = Path(__file__).resolve().parents[2]


class RunningDemo:
    """Starts `python -m demo`; `stop` sends SIGINT as Ctrl-C does and says who is left."""

    def __init__(self, home: Path, cluster: str, **environment: str) -> None:
        self.home, self.cluster = home, cluster
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.lines: list[str] = []
        # What the test run itself uses must not leak into the demo.
        clean = {
            k: v
            for k, v in os.environ.items()
            if k not in {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE"}
        }
        self.environment = {
            **clean,
            "PORT": str(self.port),
            "DEMO_HOME": str(home),
            "CLUSTER": cluster,
            "PYTHONUNBUFFERED": "1",
            **environment,
        }

    def start(self, until: str = "Dragoman is ready") -> None:
        """Start it, and return when a line says `until`."""
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demo"],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.reader = Thread(target=self._read, daemon=True)
        self.reader.start()
        deadline = time.monotonic() + patience.DEMO_READY
        while not any(until in line for line in self.lines):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError("The demo did not become ready:\n" + "".join(self.lines[-40:]))
            time.sleep(0.1)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Leave nothing behind, whatever a test has come to."""
        self.stop()

    def family(self) -> list[psutil.Process]:
        """Every process that the demo has started, itself included."""
        try:
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> list[psutil.Process]:
        """Stop by SIGINT and return the processes that are still alive: none, if all is well."""
        family = self.family()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(patience.EXIT)
        _gone, alive = psutil.wait_procs(family, timeout=3)
        for process in alive:
            process.kill()
        self.reader.join(5)
        return alive

    @contextmanager
    def client(self, name: str) -> Iterator[httpx.Client]:
        """Yield a client that has signed in as a browser does."""
        with httpx.Client(base_url=self.url, follow_redirects=True, timeout=patience.PAGE) as client:
            form = client.get("/accounts/login/").text
            csrf = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
            assert csrf is not None, form
            said = {"csrfmiddlewaretoken": csrf[1], "login": name, "password": "demo"}
            client.post("/accounts/login/", data=said)
            yield client

    def token(self, name: str) -> str:
        """Return a new API token of somebody that may do all that they may, made as a browser makes it."""
        with self.client(name) as client:
            headers = {"X-CSRFToken": client.cookies["csrftoken"], "Referer": self.url}
            client.post("/accounts/reauthenticate/", data={"password": "demo"}, headers=headers)
            answer = client.post(
                "/api/v1/tokens/",
                json={"title": "Test", "scopes": ["read", "request", "approve", "admin"]},
                headers=headers,
            )
            assert answer.status_code == 201, answer.text
            return str(answer.json()["token"])

    def kubeconfig(self, user: str, cluster: str = "fra-1") -> str:
        return (self.home / self.cluster / "clusters" / f"{cluster}.{user}.kubeconfig").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
