"""The client as it is installed, with a home of its own for each test."""

import os
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "python"
runpy.run_path(str(CLIENT / "make_sync.py"), run_name="__main__")  # what was changed since `make install`


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No test reads the configuration of the person who runs it."""
    for name in ("URL", "TOKEN", "CONTEXT", "CONFIG", "TEAM", "CLUSTER", "TOKEN_FILE"):
        monkeypatch.delenv(f"DRAGOMAN_{name}", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def no_pauses(monkeypatch):
    """Return the pauses that were asked for; none is slept."""
    slept: list[float] = []
    really = time.sleep

    def pause(seconds):
        if threading.current_thread() is threading.main_thread():
            slept.append(seconds)
        else:  # what an earlier test has left running
            really(seconds)

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("dragoman._sync.transport.time.sleep", pause)
    monkeypatch.setattr("dragoman._async.transport.asyncio.sleep", sleep)
    return slept


@pytest.fixture(scope="session")
def client_of():
    """Return a function that gives a client of somebody of a running demo; it makes one token for each."""
    from dragoman import Client

    made = {}

    def client(demo, name):
        if (demo.url, name) not in made:
            made[demo.url, name] = Client(demo.url, demo.token(name), timeout=60)
        return made[demo.url, name]

    yield client
    for one in made.values():
        one.close()


@pytest.fixture
def shell(home):
    """Return a function that runs a line of a shell as it stands in a page, with the installed `dragoman`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home)}
    folder = home / "work"
    folder.mkdir()

    def run(line, **more):
        return subprocess.run(
            ["bash", "-c", line],
            env=environment | more,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def start(line):
        """Start a command that waits for somebody."""
        pipe = subprocess.PIPE
        command = ["bash", "-c", f"exec {line}"]
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=pipe, stderr=pipe, text=True)

    run.start = start
    return run
