"""
What opens a cluster: read from a kubeconfig, sealed at rest, never shown.

A pasted kubeconfig may name programs to run and files to read. The portal does neither: whoever pastes it
would run commands as the portal.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from cluster.kubeconfig import Entry, entry_of
from core.errors import Invalid


@dataclass(frozen=True, slots=True)
class Credentials:
    """
    One way into one cluster. Certificates and keys are PEM texts.

    `in_cluster` means the service account of the pod that the portal runs in. Secrets stay
    out of repr and are not pickled, so that they reach no log, message queue or cache.
    """

    server: str
    authority: str = field(default="", repr=False)
    server_name: str = ""  # what the server's certificate must say, if not the host of `server`
    insecure: bool = False
    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    proxy: str = field(default="", repr=False)
    in_cluster: bool = False

    def __reduce__(self) -> NoReturn:
        raise TypeError("Credentials are not pickled: pass the sealed bytes instead.")

    @property
    def address(self) -> str:
        """Return host and port, for sentences."""
        return urlsplit(self.server).netloc or "the cluster that the portal runs in"


IN_CLUSTER = Credentials(server="", in_cluster=True)


@sensitive_variables()
def from_kubeconfig(text: str, *, context: str = "") -> Credentials:
    """Read a context of a kubeconfig, the current one by default. Raise `Invalid` with a sentence."""
    entry: Entry = entry_of(text, context)
    cluster, user = entry.cluster, entry.user
    return Credentials(
        server=cluster["server"].rstrip("/"),
        authority=_pem(cluster, "certificate-authority-data"),
        server_name=str(cluster.get("tls-server-name", "")),
        insecure=bool(cluster.get("insecure-skip-tls-verify", False)),
        token=str(user.get("token", "")),
        certificate=_pem(user, "client-certificate-data"),
        key=_pem(user, "client-key-data"),
        proxy=str(cluster.get("proxy-url", "")),
    )


@sensitive_variables()
def seal(credentials: Credentials) -> bytes:
    """Encrypt with the newest key."""
    return _keys().encrypt(json.dumps(asdict(credentials)).encode())


@sensitive_variables()
def unseal(sealed: bytes | memoryview) -> Credentials:
    """Decrypt with any known key. Raise `Invalid` when none of them fits."""
    problem = "The stored credentials cannot be read: CREDENTIAL_KEYS lacks the key that sealed them."
    try:
        return Credentials(**json.loads(_keys().decrypt(bytes(sealed))))
    except InvalidToken:
        pass
    raise Invalid(problem)


def reseal(sealed: bytes | memoryview) -> bytes:
    """Encrypt anew with the newest key, after a key was added."""
    return _keys().rotate(bytes(sealed))


def _keys() -> MultiFernet:
    """Return the keys of settings, newest first; without any, one derived from SECRET_KEY."""
    configured = settings.CREDENTIAL_KEYS
    if not configured:
        digest = hashlib.sha256(b"dragoman cluster credentials:" + settings.SECRET_KEY.encode()).digest()
        configured = [base64.urlsafe_b64encode(digest).decode()]
    return MultiFernet([Fernet(key) for key in configured])


def _pem(section: dict[str, Any], key: str) -> str:
    encoded = section.get(key, "")
    try:
        return base64.b64decode(encoded, validate=True).decode("ascii")
    except ValueError:
        pass  # left before raising: the chain would hold the text
    raise Invalid(f"{key} of the kubeconfig is not a PEM text in base64.")
