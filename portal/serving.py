"""Settings of gunicorn: `gunicorn -c python:portal.serving` serves the portal."""

import gc
import os

wsgi_app = "portal.wsgi"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
threads = int(os.environ.get("WEB_THREADS", "8"))
preload_app = True  # the processes share what is imported
OBJECTS = 20_000  # allocated until the garbage collector looks at the young ones


def when_ready(_server: object) -> None:
    """Import what the first request would, then keep the garbage collector from what is there for good."""
    from django.urls import get_resolver

    get_resolver().url_patterns  # noqa: B018, reading it imports every view
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 20, 20)
