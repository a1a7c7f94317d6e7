"""A real Redis for a test, on a socket of its own."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.services import redis_server


@contextmanager
def running_redis(folder: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Yield the socket and the process of a server that stores nothing; it ends with the block."""
    path = folder / "redis.sock"
    process = subprocess.Popen(
        [redis_server()[0], "--port", "0", "--unixsocket", str(path), "--save", ""],
        cwd=folder, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for _attempt in range(200):
        if path.exists():
            break
        time.sleep(0.05)
    try:
        yield path, process
    finally:
        process.kill()
        process.wait()
