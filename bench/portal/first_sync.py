"""
The first sync of a cluster over HTTP, beside a plain LIST and JSON decode of the same objects.

It runs in a fresh process, `python -m bench.portal.first_sync URL`, so that its memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from bench.costs import sampled_costs
from bench.measure import Result, family, parent, seconds_run

if TYPE_CHECKING:
    from bench.portal.cluster import ListedCluster

NAME = "bench-1"
OF_LIST = 1.5  # times the LIST and JSON decode of the same objects
MEMORY = 250.0  # MiB
SAMPLED = 0.005  # seconds between two samples of the sync


def results(cluster: ListedCluster, devices: int) -> list[Result]:
    """Mirror the cluster in a fresh process; return how long that took and how large the process became."""
    with served(cluster) as url:
        command = [sys.executable, "-m", "bench.portal.first_sync", url]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    listed, synced, size, costs = json.loads(done.stdout)
    note = f"first sync: {synced / 1000:.1f} s of CPU time, LIST and JSON decode {listed / 1000:.1f} s."
    ratio = Result("first sync", devices, "÷ LIST", [synced / listed], "×", OF_LIST, notes=[note])
    ratio.profile = costs if ratio.misses else []
    return [ratio, Result("memory: sync", devices, "after the first sync", [size], "MiB", MEMORY)]


@contextmanager
def served(cluster: ListedCluster, created: dict[str, float] | None = None) -> Iterator[str]:
    """
    Answer LIST requests with the pages of the cluster, at the address that is yielded.

    With `created` also POST requests: it gets the names of their objects, each with its time (monotonic).
    """
    names = created if created is not None else {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            manifest = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            names[manifest["metadata"]["name"]] = time.monotonic()
            manifest["metadata"] |= {"uid": str(uuid4()), "resourceVersion": "1"}
            self._send(201, json.dumps(manifest).encode())

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if cluster.pages.get(parts.path.rpartition("/")[2]) is None and created is not None:
                self._send(404, b'{"kind": "Status", "code": 404}')
                return
            pages = cluster.pages.get(parts.path.rpartition("/")[2]) or [b"[]"]
            number = int(parse_qs(parts.query).get("continue", ["0"])[0])
            following = str(number + 1) if number + 1 < len(pages) else ""
            metadata = {"resourceVersion": "1000000000", "continue": following}
            body = b'{"kind": "List", "metadata": %s, "items": %s}' % (
                json.dumps(metadata).encode(),
                pages[number],
            )
            self._send(200, body)

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """A line per request is not part of what is measured."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def use_pool() -> None:
    """Let this thread return its connections to a pool, as in production, instead of opening new ones."""
    from django.db import connection

    connection.close()
    stored = connection.settings_dict
    options = stored["OPTIONS"] | {"pool": {"min_size": 0, "max_size": 2}}
    connection.settings_dict = stored | {"CONN_MAX_AGE": 0, "OPTIONS": options}


def main(url: str) -> None:
    """Print the milliseconds of a plain LIST and of the sync, the peak of the memory (MiB), and the costs."""
    import django

    django.setup()
    from bench.portal.cluster import ListedCluster
    from bench.portal.pages import backend_pid
    from cluster.credentials import Credentials
    from cluster.kube import KubeGateway
    from cluster.protocol import Discovery, Permission
    from core.garbage import exempt_permanent_objects
    from inventory.models import Cluster
    from inventory.sync.list_watch import sync_once
    from inventory.sync.session import mirrored_kinds

    exempt_permanent_objects()  # as a worker does
    facts = ListedCluster({})

    class ListGateway(KubeGateway):
        """Lists over HTTP; the answers to everything else are constants."""

        def identity(self) -> str:
            return facts.identity()

        def discover(self) -> Discovery:
            return facts.discover()

        def allowed(self, permission: Permission) -> bool:
            return facts.allowed(permission)

    cluster = Cluster.objects.get(name=NAME)
    gateway = ListGateway(Credentials(server=url))

    def list_only() -> None:
        for kind in mirrored_kinds(cluster):
            for page in gateway.list(kind):
                len(page.items)

    def cpu_time(run: Callable[[], None]) -> float:
        """Return milliseconds of this thread and of every process of the database: the sync reconnects."""
        postmaster = parent(backend_pid())
        thread_start, database_start = time.thread_time(), seconds_run(family(postmaster))
        run()
        database = seconds_run(family(postmaster)) - database_start
        return 1000 * (time.thread_time() - thread_start + database)

    listed = cpu_time(list_only)
    use_pool()
    with sampled_costs(SAMPLED) as costs:
        synced = cpu_time(lambda: sync_once(cluster, gateway))
    print(json.dumps([listed, synced, peak_memory(), costs.lines()]))  # noqa: T201


def peak_memory() -> float:
    """Return the largest resident set in MiB; `ru_maxrss` begins with that of the parent."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


if __name__ == "__main__":
    main(sys.argv[1])
