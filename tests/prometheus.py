"""A real Prometheus on a loopback port, as Debian packages it, for tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

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
    One process with its data in `folder`. It scrapes `targets` (addresses of /metrics) every second.

    `web` is what its `--web.config.file` says (https://prometheus.io/docs/prometheus/latest/configuration/https/).
    """

    folder: Path
    targets: tuple[str, ...] = ()
    web: Mapping[str, Any] = field(default_factory=dict)
    auth: tuple[str, str] | None = None  # for the test's own requests
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        scheme = "https" if "tls_server_config" in self.web else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

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
        every = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        config, web = self.folder / "prometheus.yml", self.folder / "web.yml"
        config.write_text(yaml.safe_dump({"global": every, "scrape_configs": jobs}))
        web.write_text(yaml.safe_dump(dict(self.web)))
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
            stderr=subprocess.DEVNULL,
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

    def wait_until(self, is_true: Callable[[], object]) -> None:
        deadline = time.monotonic() + patience.EVENT
        while time.monotonic() < deadline:
            try:
                if is_true():
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        pytest.fail("Prometheus did not do what was expected of it in time.")


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
