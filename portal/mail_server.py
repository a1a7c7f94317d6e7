"""The email server from its URL; apart from `notify.mail`, because settings import it."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
TIMEOUT = 20  # seconds


def mailer(url: str) -> dict[str, Any]:
    """
    Return the settings of one of Django's MAILERS for smtp://, smtp+tls:// (STARTTLS) or smtps://.

    Raises ImproperlyConfigured for any other address.
    """
    if not url:
        return {"BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ImproperlyConfigured(
            "EMAIL_URL must be smtp://, smtp+tls:// or smtps:// with a host, not "
            f"{parts.scheme or 'nothing'}://{parts.hostname or ''}."
        )
    options = {
        "host": parts.hostname,
        "port": parts.port or PORTS[parts.scheme],
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_tls": parts.scheme == "smtp+tls",
        "use_ssl": parts.scheme == "smtps",
        "timeout": TIMEOUT,
    }
    return {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": options}
