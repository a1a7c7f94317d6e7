"""Settings of the demo from the environment, its files below DEMO_HOME, and its failure."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path


class DemoFailure(Exception):
    """Why the demo cannot start or continue: one sentence with the next step."""


ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Config:
    home: Path
    port: int
    real: bool  # the real control plane instead of the simulator

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> Path:
        """Redis's socket. A path has at most 107 bytes, so a deep DEMO_HOME gets a socket below /tmp."""
        near = self.home / "redis.sock"
        return near if len(str(near)) < 100 else Path(f"/tmp/dragoman-{os.getuid()}-{self.port}.sock")  # noqa: S108

    def secret(self, name: str) -> str:
        """Return a secret of this demo, created at its first start and readable only for its owner."""
        path = self.home / f"{name}.secret"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(48))
        return path.read_text()


def from_environment() -> Config:
    """Read PORT, DEMO_HOME and CLUSTER; raise DemoFailure for an invalid value."""
    port, kind = os.environ.get("PORT", "8000"), os.environ.get("CLUSTER", "sim")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise DemoFailure(f"PORT is {port!r}; it must be a number from 1 to 65535.")
    if kind not in {"sim", "real"}:
        raise DemoFailure(f"CLUSTER is {kind!r}; it must be sim or real.")
    home = (ROOT / os.environ.get("DEMO_HOME", ".demo")).resolve()
    # The two kinds of cluster have different devices: each has its own database.
    return Config(home=home / kind, port=int(port), real=kind == "real")
