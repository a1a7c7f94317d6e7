"""What `manage.py check --deploy` warns of, beyond Django's own checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

VERIFIED = frozenset(("verify-full", "verify-ca"))
HERE = frozenset(("", "localhost", "127.0.0.1", "::1"))


@register(Tags.security, deploy=True)
def connections_are_encrypted(**_: Any) -> Sequence[CheckMessage]:
    """Warn of a database or Redis on another machine without TLS; a path is a socket of this machine."""
    found: list[CheckMessage] = []
    database = settings.DATABASES["default"]
    host, mode = str(database.get("HOST") or ""), database["OPTIONS"].get("sslmode", "prefer")
    if host not in HERE and not host.startswith("/") and mode not in VERIFIED:
        hint = "Add ?sslmode=verify-full&sslrootcert=FILE to DATABASE_URL."
        text = f"The connection to PostgreSQL at {host} may be read and changed: sslmode is {mode}."
        found.append(Warning(text, hint=hint, id="dragoman.W001"))
    redis = urlsplit(settings.REDIS_URL)
    if redis.scheme == "redis" and (redis.hostname or "") not in HERE:
        text = f"The connection to Redis at {redis.hostname} may be read and changed: it has no TLS."
        found.append(Warning(text, hint="Begin REDIS_URL with rediss://.", id="dragoman.W002"))
    return found


@register(Tags.security, deploy=True)
def list_of_stolen_passwords_is_there(**_: Any) -> Sequence[CheckMessage]:
    path = settings.BREACHED_PASSWORDS
    if not path or Path(path).is_file():
        return []
    text = f"BREACHED_PASSWORDS names {path}, which is no file: nobody can choose a password."
    return [Warning(text, id="dragoman.W003")]
