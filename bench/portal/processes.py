"""The portal's own processes over the measured database: web, worker, and the broker between them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from demo.services import answers_ping, is_healthy, redis_server

START = 60.0  # seconds that a process may take until it is ready


@contextmanager
def broker() -> Iterator[str]:
    """Yield the address of a Redis of its own."""
    server, _name = redis_server()
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        path = Path(folder) / "redis.sock"
        options = ("--port", "0", "--unixsocket", str(path), "--save", "", "--dir", folder)
        with running([server, *options, "--loglevel", "warning"], {}):
            wait_until(lambda: answers_ping(path))
            yield f"unix://{path}"


@contextmanager
def web(redis_url: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yield gunicorn with the portal's settings, one process per core, and its address."""
    port = free_port()
    command = ["gunicorn", "-c", "python:portal.serving", "--bind", f"127.0.0.1:{port}"]
    cores = {"WEB_CONCURRENCY": str(len(os.sched_getaffinity(0)))}
    with running([sys.executable, "-m", *command], environment(redis_url) | cores) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_healthy(f"{url}/healthz"))
        yield process, url


@contextmanager
def worker(redis_url: str, queues: str, threads: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a Celery worker with so many threads."""
    options = ("-Q", queues, "-P", "threads", "-c", str(threads), "--without-gossip", "--without-mingle")
    command = ["celery", "-A", "portal", "worker", *options, "--loglevel", "ERROR"]
    with running([sys.executable, "-m", *command], environment(redis_url)) as process:
        yield process


def environment(redis_url: str) -> dict[str, str]:
    """Return the environment of a process with the settings of production, without HTTPS."""
    return {
        "DJANGO_SETTINGS_MODULE": "bench.portal.web_settings",
        "REDIS_URL": redis_url,
        "LOG_LEVEL": "ERROR",
        "API_RATE": "1000000/min",
        "API_TOKEN_RATE": "1000000/min",
        "PAGE_RATE": "1000000/min",
        "IMPORT_RATE": "1000000/min",
    }


@contextmanager
def running(command: Sequence[str], extra: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process and stop it in the end."""
    process = subprocess.Popen(
        command, env=os.environ | extra, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(ready: Callable[[], bool], seconds: float = START, *, every: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not ready after {seconds:.0f} s.")
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
