"""
A real Prometheus on a loopback port, as Debian packages it, for tests, and pages of metrics for it to scrape.

`RealPrometheus` is one process, `running_prometheus` one for the length of a block; `Exposition` serves texts
over HTTP.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests import patience


def prometheus_program(name: str = "prometheus") -> str:
    """Return where `prometheus` or `promtool` is; skip the test without it, and fail it in CI."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed; it comes with Debian's package prometheus"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class RealPrometheus:
    """
    One process with its data in `folder`. It scrapes `targets` (addresses of /metrics) and `jobs`
    (`scrape_configs`) each `every`, and evaluates `rules` as often.

    `web` is what its `--web.config.file` says (https://prometheus.io/docs/prometheus/latest/configuration/https/).
    """

    folder: Path
    targets: tuple[str, ...] = ()
    jobs: Sequence[Mapping[str, Any]] = ()
    rules: Mapping[str, Any] | None = None
    every: str = "1s"
    web: Mapping[str, Any] = field(default_factory=dict)
    auth: tuple[str, str] | None = None  # for the test's own requests
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        scheme = "https" if "tls_server_config" in self.web else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "prometheus.log"

    def backfill(self, lines: Iterable[str]) -> None:
        """Add blocks of samples in the past, in the text format of OpenMetrics without its last line."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = self.folder / "history.om"
        text.write_text("\n".join([*lines, "# EOF", ""]))
        command = ["tsdb", "create-blocks-from", "openmetrics", str(text), str(self.folder / "data")]
        subprocess.run(
            [prometheus_program("promtool"), *command],
            check=True,
            capture_output=True,
            timeout=patience.COMMAND,
        )

    def start(self, until: Callable[[], bool] | None = None) -> None:
        """Start it, and wait until it is ready, or until `until` is true."""
        self.folder.mkdir(parents=True, exist_ok=True)
        jobs = [
            {
                "job_name": f"exporter-{number}",
                "scheme": httpx.URL(target).scheme,
                "metrics_path": httpx.URL(target).path,
                "static_configs": [{"targets": [httpx.URL(target).netloc.decode()]}],
            }
            for number, target in enumerate(self.targets)
        ]
        intervals = ("scrape_interval", "scrape_timeout", "evaluation_interval")
        content: dict[str, Any] = {
            "global": dict.fromkeys(intervals, self.every),
            "scrape_configs": [*jobs, *self.jobs],
        }
        if self.rules:
            groups = [{**group, "interval": self.every} for group in self.rules["groups"]]
            (self.folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
            content["rule_files"] = ["rules.yml"]
        config, web = self.folder / "prometheus.yml", self.folder / "web.yml"
        config.write_text(yaml.safe_dump(content))
        web.write_text(yaml.safe_dump(dict(self.web)))
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    prometheus_program(),
                    f"--config.file={config}",
                    f"--web.config.file={web}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    "--storage.tsdb.retention.time=100y",
                    "--log.level=error",
                ],
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        self.wait_until(until or (lambda: self.ask("/-/ready").status_code == httpx.codes.OK))

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(patience.EXIT)
            self.process = None

    def ask(self, path: str, **query: str) -> httpx.Response:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return httpx.get(f"{self.url}{path}", params=query, auth=self.auth, verify=context, trust_env=False)

    def series(self, promql: str, at: datetime | None = None) -> list[dict[str, Any]]:
        moment = {"time": str(at.timestamp())} if at else {}
        answer = self.ask("/api/v1/query", query=promql, **moment).json()
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait_for_samples(self, jobs: int, *, scrapes: int = 3) -> None:
        """Return when each of the jobs was scraped so often that rates can be computed."""
        scraped = f"count(count_over_time(up[1h]) >= {scrapes} and up == 1)"
        self.wait_until(lambda: [row["value"][1] for row in self.series(scraped)] == [str(jobs)])

    def wait_until(self, is_true: Callable[[], object]) -> None:
        deadline = time.monotonic() + patience.PROGRAM_READY
        while time.monotonic() < deadline:
            try:
                if is_true():
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        said = self.log.read_text(errors="replace")[-2000:]
        pytest.fail(f"Prometheus did not do what was expected of it in time. {said}")


QUERY = re.compile(r"max by \((?P<by>[^)]*)\) \((?P<metric>\w+)(?:\{[^}]*\})? <= (?P<most>[\d.e+]+)\)")
SAMPLE = re.compile(r"(?P<metric>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+) (?P<at>\d+)")
LOOK_BACK = 300  # seconds in which Prometheus repeats a sample


@dataclass(slots=True)
class SmallPrometheus:
    """
    Answers the queries of telemetry from samples in memory, as Prometheus would, where it is not installed:
    `max by (…) (metric <= bound)` now and over a range. Anything else has no result. Matchers are ignored.
    """

    port: int = field(default_factory=free_port)
    samples: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def backfill(self, lines: Iterable[str]) -> None:
        for line in lines:
            if found := SAMPLE.fullmatch(line):
                of_series = self.samples.setdefault((found["metric"], found["labels"]), {})
                of_series[int(found["at"])] = float(found["value"])

    def start(self) -> None:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
                sent = {name: values[0] for name, values in parse_qs(body).items()}
                found = answer(sent, is_range=handler.path.endswith("query_range"))
                handler.send_response(200)
                handler.end_headers()
                handler.wfile.write(json.dumps({"status": "success", "data": {"result": found}}).encode())

            def log_message(handler, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def answer(self, sent: Mapping[str, str], *, is_range: bool) -> list[dict[str, Any]]:
        asked = QUERY.fullmatch(sent["query"])
        if asked is None:
            return []
        first, last = (float(sent[name]) if is_range else float(sent["time"]) for name in ("start", "end"))
        step = float(sent["step"]) if is_range else 1.0
        instants = [first + number * step for number in range(int((last - first) / step) + 1)]
        by, most = asked["by"].split(", "), float(asked["most"])
        found: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
        for (metric, text), samples in self.samples.items():
            if metric != asked["metric"]:
                continue
            labels = dict(re.findall(r'(\w+)="([^"]*)"', text))
            times = sorted(samples)
            group = found.setdefault(tuple((name, labels[name]) for name in by if name in labels), {})
            for instant in instants:
                place = bisect_right(times, instant) - 1
                if place >= 0 and times[place] >= instant - LOOK_BACK and samples[times[place]] <= most:
                    group[instant] = max(samples[times[place]], group.get(instant, -math.inf))
        return [
            {"metric": dict(labels), "values": values}
            if is_range
            else {"metric": dict(labels), "value": values[0]}
            for labels, group in found.items()
            if (values := [[at, repr(value)] for at, value in sorted(group.items())])
        ]


def prometheus_of_history(folder: Path) -> RealPrometheus | SmallPrometheus:
    """Return a Prometheus for samples of the past: the real one where it is installed, and always in CI."""
    is_real = shutil.which("prometheus") or os.environ.get("CI", "").lower() == "true"
    return RealPrometheus(folder) if is_real else SmallPrometheus()


@contextmanager
def running_prometheus(
    folder: Path, scrape_configs: Sequence[Mapping[str, Any]], *, rules: Mapping[str, Any] | None = None
) -> Iterator[RealPrometheus]:
    """A Prometheus that scrapes these twice a second, with `rules` evaluated as often."""
    program = RealPrometheus(folder, jobs=scrape_configs, rules=rules, every="500ms")
    program.start()
    try:
        yield program
    finally:
        program.stop(signal.SIGKILL)


def run_promtool(arguments: Sequence[str], folder: Path, said: str = "") -> subprocess.CompletedProcess[str]:
    command = [prometheus_program("promtool"), *arguments]
    return subprocess.run(command, cwd=folder, input=said, capture_output=True, text=True, check=False)


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
class Pair:
    """A certificate with its key, in PEM."""

    certificate: str
    key: str


def self_signed(name: str) -> Pair:
    """Return a certificate for 127.0.0.1 that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(encoding).decode(), private.decode())
