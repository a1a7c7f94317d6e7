"""
A real MLflow tracking server on a loopback port, for tests; nothing of it is a dependency of the portal.

`python -m tests.mlflow_server` installs it into a virtual environment of its own, once per machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.controlplane.harness import Program, free_ports
from tests import patience

VERSION = "3.17.2"
# The server is in the small package; what it imports is not.
PACKAGES = (
    *(f"mlflow-skinny=={VERSION}", "aiohttp", "alembic", "flask", "flask-cors", "graphene", "huey"),
    *("pandas", "sqlalchemy"),
)
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman" / f"mlflow-{VERSION}"
PYTHON = HOME / "bin" / "python"
EMPTY = HOME / "empty.db"  # a database without runs, which each server gets a copy of
INSTALLED = HOME / ".installed"  # written last
SECONDS = 600  # to download and install


def install() -> str:
    """Install MLflow unless it is there; return why that is not possible, "" if all is well."""
    if INSTALLED.exists():
        return ""
    uv = shutil.which("uv") or shutil.which("uv", path=".tools/uv/bin")
    if uv is None:
        return "uv, which installs MLflow, is not here; `make install` brings it"
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with (HOME.parent / "mlflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if INSTALLED.exists():
            return ""
        for command in (
            [uv, "venv", "--clear", "--python", sys.executable, str(HOME)],
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(PYTHON), *PACKAGES],
            [str(PYTHON), "-m", "mlflow", "db", "upgrade", f"sqlite:///{EMPTY}"],  # a minute on a slow disk
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            if done.returncode:
                return f"MLflow cannot be installed: {done.stderr.strip()[-300:]}"
        INSTALLED.touch()
    return ""


class RealMlflow:
    """One server with its data in `folder`."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        shutil.copy(EMPTY, folder / "runs.db")
        store = f"sqlite:///{folder / 'runs.db'}"
        self.program = Program(
            "mlflow",
            [
                # Jobs of MLflow need a queue; runs do not.
                *("/usr/bin/env", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false"),
                *(str(PYTHON), "-m", "mlflow", "server", "--backend-store-uri", store),
                *("--artifacts-destination", str(folder / "files"), "--workers", "1"),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            folder / "mlflow.log",
        )

    def start(self) -> None:
        self.program.start()
        ends = time.monotonic() + patience.PROGRAM_READY
        while not self.is_ready():
            assert self.program.running, self.program.last_lines()
            assert time.monotonic() < ends, self.program.last_lines()
            time.sleep(0.2)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", trust_env=False, timeout=2).is_success
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """End it with the workers that it has started."""
        if self.program.running:
            os.killpg(self.program.pid, signal.SIGKILL)
        self.program.stop()

    def call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = httpx.post(f"{self.url}/api/2.0/mlflow/{path}", json=dict(body), trust_env=False, timeout=30)
        assert answer.is_success, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def experiment(self, name: str) -> str:
        return str(self.call("experiments/create", {"name": name})["experiment_id"])

    def run(self, experiment: str, name: str, started: int, ended: int | None = None, **tags: str) -> str:
        """Log a run with begin and end in milliseconds; `_` in the name of a tag is a dot."""
        pairs = [{"key": key.replace("_", ".", 1), "value": value} for key, value in tags.items()]
        body = {"experiment_id": experiment, "run_name": name, "start_time": started, "tags": pairs}
        run_id = str(self.call("runs/create", body)["run"]["info"]["run_id"])
        if ended is not None:
            self.call("runs/update", {"run_id": run_id, "status": "FINISHED", "end_time": ended})
        return run_id

    def tags(self, run_id: str) -> dict[str, str]:
        query = {"run_id": run_id}
        answer = httpx.get(
            f"{self.url}/api/2.0/mlflow/runs/get", params=query, trust_env=False, timeout=30
        ).json()
        return {tag["key"]: tag["value"] for tag in answer["run"]["data"]["tags"]}

    def python(self, program: str, **environment: str) -> str:
        """Run a program with MLflow's own client, and return what it prints."""
        done = subprocess.run(
            [str(PYTHON), "-c", program],
            env={**os.environ, "MLFLOW_TRACKING_URI": self.url, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience.COMMAND,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def required() -> None:
    """Install MLflow; skip the test where that is not possible, and fail it in CI."""
    if reason := install():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)


if __name__ == "__main__":
    if problem := install():
        sys.exit(problem)
    sys.stdout.write(json.dumps({"mlflow": VERSION, "in": str(HOME)}) + "\n")
