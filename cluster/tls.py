"""TLS of a client: whom it trusts, and by which certificate it identifies itself."""

import os
import ssl
import tempfile
from pathlib import Path

from django.views.decorators.debug import sensitive_variables


@sensitive_variables()
def client_context(*, authority: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext | None:
    """
    Return an SSL context of PEM texts; None if they are damaged or the key fits no certificate.

    With an `authority` only certificates of this CA are trusted, without one those of the machine. It raises
    nothing, because the exceptions of `ssl` would be raised beside a variable that holds the key.
    """
    try:
        context = ssl.create_default_context(cadata=authority or None)
        if certificate:
            _load(context, certificate, key)
        return context
    except (ssl.SSLError, ValueError):
        return None


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the key pair through a temporary file, as Python requires one."""
    handle, name = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{certificate}\n{key}")
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
