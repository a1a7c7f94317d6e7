"""How mail is sent, from one address: smtp, smtp+tls (STARTTLS) or smtps."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
SECONDS = 20  # to wait for the server


def mailer(url: str) -> dict[str, Any]:
    """Return Django's settings of one mailer; raise ImproperlyConfigured for an address that is none."""
    if not url:
        return {"BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ImproperlyConfigured(
            "EMAIL_URL has to be smtp://, smtp+tls:// or smtps:// and a host, not "
            f"{parts.scheme or 'nothing'}://{parts.hostname or ''}."
        )
    options = {
        "host": parts.hostname,
        "port": parts.port or PORTS[parts.scheme],
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_tls": parts.scheme == "smtp+tls",
        "use_ssl": parts.scheme == "smtps",
        "timeout": SECONDS,
    }
    return {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": options}
