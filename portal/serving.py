"""Settings of gunicorn: `gunicorn -c python:portal.serving` serves the portal."""

import os
import socket
import struct
import time
from threading import Thread
from typing import Any

from django.urls import get_resolver

from core.cache import say_that_web_lives
from core.garbage import collect_rarely, exempt_permanent_objects

SHARED_MEMORY = "/dev/shm"  # noqa: S108, gunicorn makes an unnamed file in it

wsgi_app = "portal.wsgi"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
threads = int(os.environ.get("WEB_THREADS", "8"))
preload_app = True  # the processes share what is imported
# Each process shows here that it lives; on a disk that is busy it would seem to hang.
worker_tmp_dir = SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else None


# A client that stops in the middle of its request keeps a thread for so long; without a limit, for ever.
READ_SECONDS = int(os.environ.get("WEB_READ_TIMEOUT", "10"))


def post_worker_init(worker: Any) -> None:
    """Say that it lives, so that claims end only while programs could renew them (`claims.lifecycle`)."""
    Thread(target=_live, daemon=True).start()


def _live() -> None:
    while True:
        say_that_web_lives()
        time.sleep(15)


def when_ready(server: Any) -> None:
    """Limit how long a thread waits for the next bytes of a request, and import what the first one would."""
    for listener in server.LISTENERS:  # what is accepted inherits it
        limit = struct.pack("ll", READ_SECONDS, 0)
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    get_resolver().url_patterns  # noqa: B018, reading it imports every view
    exempt_permanent_objects()
    collect_rarely()
