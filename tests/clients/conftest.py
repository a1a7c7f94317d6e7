"""The client as it is installed, with a home of its own for each test."""

import pytest


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
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("dragoman._sync.transport.time.sleep", slept.append)
    monkeypatch.setattr("dragoman._async.transport.asyncio.sleep", sleep)
    return slept
