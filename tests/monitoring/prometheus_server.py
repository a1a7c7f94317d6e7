"""
A real Prometheus for tests, and pages of metrics for it to scrape.

`running_prometheus` starts Debian's `prometheus` on a free port; `Exposition` serves texts over HTTP.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import yaml

from demo.controlplane.client import eventually
from demo.controlplane.harness import Program, free_ports
from tests.patience import PROGRAM_READY
from tests.prometheus import prometheus_program

SCRAPE_EVERY = 0.5  # seconds


COUNTED = re.compile(r"^(\w+_(?:bucket|count|sum|total)(?:\{.*\})?) (\S+)$", re.M)


def growing(text: str) -> Callable[[], str]:
    """Return what a program says that goes on counting: with each scrape its counters are larger."""
    scrapes = count(1)

    def page() -> str:
        number = next(scrapes)
        return COUNTED.sub(lambda sample: f"{sample[1]} {float(sample[2]) * number}", text)

    return page


class Exposition:
    """Serves the texts of `pages` by path until the end of the block."""

    def __init__(self, pages: Mapping[str, str | Callable[[], str]]) -> None:
        self.pages = dict(pages)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                page = self.pages.get(handler.path)
                text = page() if callable(page) else page
                handler.send_response(404 if text is None else 200)
                handler.send_header("Content-Type", "text/plain; version=0.0.4")
                handler.end_headers()
                handler.wfile.write((text or "").encode())

            def log_message(handler, *_: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Exposition:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def scrape(self, job: str, path: str) -> dict[str, Any]:
        """Return the `scrape_configs` entry of a page."""
        return {"job_name": job, "metrics_path": path, "static_configs": [{"targets": [self.address]}]}


@dataclass(frozen=True, slots=True)
class RunningPrometheus:
    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query, a list of `{"metric": …, "value": [time, text]}`."""
        answer = httpx.post(f"{self.url}/api/v1/query", data={"query": expression}, trust_env=False)
        assert answer.status_code == 200, answer.text
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def wait_for_samples(self, jobs: int, *, scrapes: int = 3) -> None:
        """Return when each of the jobs was scraped so often that rates can be computed."""
        scraped = f"count(count_over_time(up[1h]) >= {scrapes} and up == 1)"
        eventually(
            lambda: [row["value"][1] for row in self.query(scraped)] == [str(jobs)],
            seconds=PROGRAM_READY,
            subject=f"{scrapes} scrapes of {jobs} jobs",
        )


@contextmanager
def running_prometheus(
    folder: Path, scrape_configs: Sequence[Mapping[str, Any]], *, rules: Mapping[str, Any] | None = None
) -> Iterator[RunningPrometheus]:
    """A Prometheus that scrapes these twice a second, with `rules` evaluated as often."""
    binary, (port,) = prometheus_program("prometheus"), free_ports(1)
    every = f"{SCRAPE_EVERY * 1000:.0f}ms"
    config: dict[str, Any] = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "scrape_configs": list(scrape_configs),
    }
    if rules:
        groups = [{**group, "interval": every} for group in rules["groups"]]
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        config["rule_files"] = ["rules.yaml"]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    program = Program(
        "prometheus",
        [
            binary,
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        folder / "prometheus.log",
    )
    program.start()
    url = f"http://127.0.0.1:{port}"
    try:
        ends = time.monotonic() + PROGRAM_READY
        while not answers(f"{url}/-/ready"):
            assert program.running, program.last_lines()
            assert time.monotonic() < ends, program.last_lines()
            time.sleep(0.05)
        yield RunningPrometheus(url)
    finally:
        program.stop(kill=True)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=2).is_success
    except httpx.HTTPError:
        return False


def run_promtool(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [prometheus_program("promtool"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
