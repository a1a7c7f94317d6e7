"""
Long polling: hold an answer back until the claim has changed, so that a notebook need not ask every second.
"""

import time
from threading import BoundedSemaphore

from django.conf import settings
from django.db import connection

from claims.models import Claim

LONGEST = 25  # seconds: below the 30 s after which proxies and gunicorn give up
PAUSE = 0.5
PLACES = BoundedSemaphore(settings.LONG_POLLS)


def wait_for_change(claim: Claim, version: int, seconds: int) -> bool:
    """
    Return whether the claim has another version than `version`, as soon as it has, within `seconds`.

    Who waits holds a thread of the web server. Where all places for that are taken, the answer comes at once.
    """
    has_place = PLACES.acquire(blocking=False)
    try:
        return _wait(claim, version, min(seconds, LONGEST) if has_place else 0)
    finally:
        if has_place:
            PLACES.release()


def _wait(claim: Claim, version: int, seconds: int) -> bool:
    until = time.monotonic() + seconds
    while True:
        if Claim.objects.filter(pk=claim.pk).exclude(version=version).exists():
            return True
        left = until - time.monotonic()
        if left <= 0:
            return False
        if not connection.in_atomic_block:
            connection.close()  # back to the pool: who waits needs none
        time.sleep(min(PAUSE, left))
