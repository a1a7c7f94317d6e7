"""
Credentials of a cluster: read from a kubeconfig, encrypted in the database, never shown.

A pasted kubeconfig can name programs to run and files to read. The portal refuses both: otherwise anyone who
pastes a kubeconfig could run commands as the portal.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn, cast
from urllib.parse import SplitResult, urlsplit

import yaml
from cryptography import x509
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from core.addresses import reason_to_refuse_host
from core.errors import Invalid
from core.yaml_documents import read_yaml

FLATTEN = "kubectl config view --raw --flatten --minify"
FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
PROGRAMS = ("exec", "auth-provider")
BORROWED = ("as", "as-uid", "as-groups", "as-user-extra", "impersonate")


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """The cluster and the user of one kubeconfig context."""

    cluster: dict[str, Any]
    user: dict[str, Any] = field(repr=False)


@sensitive_variables()
def kubeconfig_entry(text: str, context: str = "") -> KubeconfigEntry:
    """Return the entry of `context`, by default the current one. Raise `Invalid` if it is not allowed."""
    document = _document(text)
    context_name = context or document.get("current-context") or ""
    names = [item["name"] for item in _named(document, "contexts")]
    if not context_name and len(names) == 1:
        context_name = names[0]
    if not context_name:
        raise Invalid(f"The kubeconfig has no current context; name one of: {', '.join(names) or '–'}.")
    chosen = _section(document, "contexts", "context", context_name)
    entry = KubeconfigEntry(
        _section(document, "clusters", "cluster", str(chosen.get("cluster", ""))),
        _section(document, "users", "user", str(chosen.get("user", ""))),
    )
    _refuse_plugins(entry)
    _check_server(entry.cluster.get("server"))
    if entry.cluster.get("proxy-url"):
        _check_proxy(entry.cluster["proxy-url"])
    _check_user(entry.user)
    return entry


@sensitive_variables()
def _document(text: str) -> dict[str, Any]:
    try:
        documents = [value for _node, value in read_yaml(text, "The kubeconfig")]
    except Invalid:
        documents = []  # the message of the reader may quote the text, and with it the token
    document = documents[0] if len(documents) == 1 else None
    if not isinstance(document, dict) or document.get("kind", "Config") not in ("", None, "Config"):
        raise Invalid("This is not a kubeconfig: a YAML document of kind Config is expected.")
    return document


def _named(document: dict[str, Any], plural: str) -> list[dict[str, Any]]:
    items = document.get(plural) or []
    well_formed = isinstance(items, list) and all(isinstance(item, dict) and "name" in item for item in items)
    if not well_formed:
        raise Invalid(f"“{plural}” of the kubeconfig is not a list of named entries.")
    return cast(list[dict[str, Any]], items)


def _section(document: dict[str, Any], plural: str, singular: str, name: str) -> dict[str, Any]:
    for item in _named(document, plural):
        if item["name"] == name:
            section = item.get(singular) or {}
            if not isinstance(section, dict):
                raise Invalid(f"{singular} “{name}” of the kubeconfig has no fields.")
            return section
    raise Invalid(f"The kubeconfig has no {singular} “{name}”.")


def _refuse_plugins(entry: KubeconfigEntry) -> None:
    for key in PROGRAMS:
        if key in entry.user:
            raise Invalid(
                f"The kubeconfig gets its token from a program (“{key}”), which the portal does not "
                "run. Create a token of a service account instead; “manage.py cluster rbac” says how."
            )
    for key in FILES:
        if key in entry.user or key in entry.cluster:
            raise Invalid(
                f"The kubeconfig refers to a file (“{key}”), which the portal does not read. Put its "
                f"contents in with “{FLATTEN}”."
            )
    for key in BORROWED:
        if key in entry.user:
            raise Invalid(f"The kubeconfig acts as somebody else (“{key}”); the portal acts as itself only.")


def _check_server(server: object) -> None:
    parts = _split_address(server)
    if parts is None or parts.scheme not in {"http", "https"}:
        raise Invalid("The kubeconfig names no server address that starts with https:// or http://.")
    if parts.username or parts.password:
        raise Invalid("The server address of the kubeconfig contains a password; use a token instead.")
    if parts.query or parts.fragment:
        raise Invalid("The server address of the kubeconfig must end before “?” and “#”.")
    _refuse_machine(parts)


def _check_proxy(proxy: object) -> None:
    parts = _split_address(proxy)
    if parts is None or parts.scheme not in {"http", "https", "socks5"}:
        raise Invalid("proxy-url of the kubeconfig is not an address that starts with http, https or socks5.")
    _refuse_machine(parts)


def _split_address(address: object) -> SplitResult | None:
    """Return the parts of an address with a host and a possible port; None if it is none."""
    if not isinstance(address, str) or not address.isprintable() or " " in address:
        return None
    try:
        parts = urlsplit(address)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:  # brackets, or a port that is no number up to 65535
        return None


def _refuse_machine(parts: SplitResult) -> None:
    """Refuse addresses of the machine itself, where clouds hand out credentials."""
    if reason_to_refuse_host(parts.hostname or ""):
        raise Invalid(f"The kubeconfig leads to {parts.hostname}, an address of the machine itself.")


def _flag(section: dict[str, Any], key: str) -> bool:
    value = section.get(key, False)
    if not isinstance(value, bool):
        raise Invalid(f"{key} of the kubeconfig must be true or false, without quotes.")
    return value


def _text(section: dict[str, Any], key: str) -> str:
    value = section.get(key, "")
    if not isinstance(value, str):
        raise Invalid(f"{key} of the kubeconfig must be text.")
    return value


def _check_user(user: dict[str, Any]) -> None:
    if "username" in user or "password" in user:
        raise Invalid("The kubeconfig holds a password, which Kubernetes has not taken since 1.19.")
    if bool(user.get("client-certificate-data")) != bool(user.get("client-key-data")):
        raise Invalid("The kubeconfig holds a client certificate without its key, or a key without it.")


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

    @property
    @sensitive_variables()
    def expires_at(self) -> datetime | None:
        """Return when the token (`exp`, RFC 7519 §4.1.4) or certificate expires; None if it does not say."""
        try:
            if self.token:
                return datetime.fromtimestamp(self._claims()["exp"], UTC)
            if self.certificate:
                return x509.load_pem_x509_certificate(self.certificate.encode()).not_valid_after_utc
        except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
            pass  # a token of another form, which need not say it
        return None

    @property
    @sensitive_variables()
    def identity(self) -> str:
        """Return as whom it signs in: `sub` of the token or the name of the certificate, if one says it."""
        try:
            if self.token:
                return str(self._claims()["sub"])[:200]
            if self.certificate:
                return x509.load_pem_x509_certificate(self.certificate.encode()).subject.rfc4514_string()
        except (IndexError, KeyError, TypeError, ValueError):
            pass
        return ""

    @sensitive_variables()
    def _claims(self) -> dict[str, Any]:
        """Return the claims of a token that is a JWT; its signature is the cluster's business."""
        claims = self.token.split(".")[1]
        payload: dict[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return payload

    @property
    def trust(self) -> str:
        """Return how the certificate of the server is checked."""
        if self.server.startswith("http:"):
            return "no TLS: traffic is not encrypted"
        if self.insecure:
            return "not checked: anybody can pretend to be it"
        return (
            "checked against the embedded CA" if self.authority else "checked against the CAs of this server"
        )


IN_CLUSTER = Credentials(server="", in_cluster=True)


@sensitive_variables()
def from_kubeconfig(text: str, *, context: str = "") -> Credentials:
    """Read a context of a kubeconfig, the current one by default. Raise `Invalid` with a sentence."""
    entry: KubeconfigEntry = kubeconfig_entry(text, context)
    cluster, user = entry.cluster, entry.user
    return Credentials(
        server=cluster["server"].rstrip("/"),
        authority=_pem(cluster, "certificate-authority-data"),
        server_name=_text(cluster, "tls-server-name"),
        insecure=_flag(cluster, "insecure-skip-tls-verify"),
        token=_text(user, "token").strip(),
        certificate=_pem(user, "client-certificate-data"),
        key=_pem(user, "client-key-data"),
        proxy=_text(cluster, "proxy-url"),
    )


@sensitive_variables()
def from_token(server: str, token: str, *, authority: str = "") -> Credentials:
    """
    Return the credentials of a service account, by the rules of a kubeconfig. Raise `Invalid`.

    `authority` is the certificate of the CA: as PEM, or in base64 as a kubeconfig has it.
    """
    encoded = authority.strip()
    if encoded.startswith("-----"):
        encoded = base64.b64encode(encoded.encode()).decode()
    cluster = {"server": server.strip()} | ({"certificate-authority-data": encoded} if encoded else {})
    document = {
        "kind": "Config",
        "current-context": "portal",
        "contexts": [{"name": "portal", "context": {"cluster": "portal", "user": "portal"}}],
        "clusters": [{"name": "portal", "cluster": cluster}],
        "users": [{"name": "portal", "user": {"token": token.strip()}}],
    }
    return from_kubeconfig(yaml.safe_dump(document))


@sensitive_variables()
def seal(credentials: Credentials) -> bytes:
    """Encrypt with the newest key. Raise `Invalid` without a key that is secret."""
    return seal_fields(asdict(credentials))


@sensitive_variables()
def unseal(sealed: bytes | memoryview) -> Credentials:
    """Decrypt with any known key. Raise `Invalid` if none fits."""
    return Credentials(**unseal_fields(sealed))


@sensitive_variables()
def seal_fields(fields: dict[str, Any]) -> bytes:
    """Encrypt values of JSON with the newest key. Raise `Invalid` without a key that is secret."""
    _require_secret_key()
    return _keys().encrypt(json.dumps(fields).encode())


@sensitive_variables()
def unseal_fields(sealed: bytes | memoryview) -> dict[str, Any]:
    """Decrypt what `seal_fields` encrypted, with any known key. Raise `Invalid` if none fits."""
    try:
        return dict(json.loads(_keys().decrypt(bytes(sealed))))
    except InvalidToken:
        pass
    raise Invalid("The stored credentials cannot be read: CREDENTIAL_KEYS lacks the key that sealed them.")


def reseal(sealed: bytes | memoryview) -> bytes:
    """Encrypt again with the newest key, after a key was added. Raise `Invalid` without a secret key."""
    _require_secret_key()
    return _keys().rotate(bytes(sealed))


def _require_secret_key() -> None:
    is_public = not settings.CREDENTIAL_KEYS and settings.SECRET_KEY == settings.DEVELOPMENT_KEY
    if is_public and not settings.DEBUG:
        raise Invalid(
            "Set SECRET_KEY or CREDENTIAL_KEYS: without them credentials would be encrypted with a key that "
            "everybody can read in the source."
        )


def _keys() -> MultiFernet:
    """Return the keys of settings, newest first; without any, one derived from SECRET_KEY."""
    configured = settings.CREDENTIAL_KEYS
    if not configured:
        derivation = HKDF(hashes.SHA256(), 32, salt=None, info=b"dragoman credentials")  # RFC 5869
        configured = [base64.urlsafe_b64encode(derivation.derive(settings.SECRET_KEY.encode())).decode()]
    return MultiFernet([Fernet(key) for key in configured])


def _pem(section: dict[str, Any], key: str) -> str:
    encoded = _text(section, key)
    try:
        # Like Go's decoder, which kubectl uses, without line breaks and with nothing else between.
        return base64.b64decode(encoded.replace("\n", "").replace("\r", ""), validate=True).decode("ascii")
    except ValueError:
        pass  # left before raising: the chain would hold the text
    raise Invalid(f"{key} of the kubeconfig is not a PEM text in base64.")
