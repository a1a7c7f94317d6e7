"""Settings of gunicorn: `gunicorn -c python:portal.serving` serves the portal."""

import os

from django.urls import get_resolver

from core.garbage import collect_rarely, exempt_permanent_objects

SHARED_MEMORY = "/dev/shm"  # noqa: S108, gunicorn makes an unnamed file in it

wsgi_app = "portal.wsgi"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
threads = int(os.environ.get("WEB_THREADS", "8"))
preload_app = True  # the processes share what is imported
# Each process shows here that it lives; on a disk that is busy it would seem to hang.
worker_tmp_dir = SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else None


def when_ready(_server: object) -> None:
    """Import what the first request would."""
    get_resolver().url_patterns  # noqa: B018, reading it imports every view
    exempt_permanent_objects()
    collect_rarely()
