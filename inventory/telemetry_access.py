"""The telemetry source of a cluster: its addresses, and what the portal proves who it is with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NoReturn
from urllib.parse import urlsplit

from django.views.decorators.debug import sensitive_variables

from cluster.credentials import reseal, seal_fields, unseal_fields
from cluster.tls import client_context
from core.errors import Invalid
from core.transactions import service
from inventory.clusters import change_columns, find_cluster, record, require_admin_or_command
from inventory.models import Cluster, TelemetryAccess
from inventory.signals import secrets_resealed
from teams.models import User

Kind = TelemetryAccess.Kind
TOKEN_LIMIT = 16 * 1024  # characters
ADDRESSES = ("prometheus_url", "metrics_url")  # of a cluster
PLAIN = ("authority", "tenant", "matchers", "timeout_seconds")  # of its `TelemetryAccess`, no secret


@dataclass(frozen=True, slots=True)
class TelemetrySecret:
    """
    A bearer token, a user with a password, or a client certificate with its key in PEM; or nothing.

    Secrets stay out of repr and are not pickled, so that they reach no log, message queue or cache.
    """

    token: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A TelemetrySecret is not pickled: pass the sealed bytes instead.")

    @property
    def kind(self) -> TelemetryAccess.Kind:
        if self.token:
            return Kind.TOKEN
        if self.certificate:
            return Kind.CERTIFICATE
        return Kind.PASSWORD if self.user else Kind.NONE

    @sensitive_variables()
    def require_sound(self) -> None:
        """Raise `Invalid` unless it is one way of identification, and complete."""
        given = [bool(self.token), bool(self.user or self.password), bool(self.certificate or self.key)]
        if sum(given) > 1:
            raise Invalid("Give a token, a user with a password, or a certificate with its key: one of them.")
        if not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise Invalid("The token has a character that no header can carry; give it without “Bearer”.")
        if self.password and not self.user:
            raise Invalid("Give the user of the password.")
        if ":" in self.user:
            raise Invalid("A user of basic authentication has no “:” (RFC 7617).")
        if bool(self.certificate) != bool(self.key):
            raise Invalid("Give a client certificate with its key.")
        if self.certificate and client_context(certificate=self.certificate, key=self.key) is None:
            raise Invalid("The client certificate is damaged, or the key fits another one.")


NO_SECRET = TelemetrySecret()


def server_of(urls: str) -> str:
    """Return scheme, host and port: what a secret is given for; of several addresses each, with spaces."""
    return " ".join(sorted({_server_of(url) for url in urls.split()}))


def _server_of(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}" if parts.hostname else ""


@sensitive_variables()
def change_telemetry(
    *,
    name: str,
    by: User | None = None,
    addresses: dict[str, str] | None = None,
    secret: TelemetrySecret | None = None,
    fields: Mapping[str, str | int] | None = None,
) -> Cluster:
    """
    Change addresses (`prometheus_url`, `metrics_url`), secret, and columns of `TelemetryAccess`.

    None keeps the secret, `NO_SECRET` removes it. The same values again change nothing. Raises Conflict,
    ValidationError, and Invalid for a secret that was given for another server.
    """
    require_admin_or_command(by)
    if secret is not None:
        secret.require_sound()
    cluster = find_cluster(name)
    with service:
        change_columns(cluster, by, addresses or {})
        access = TelemetryAccess.objects.select_for_update().filter(cluster=cluster).first()
        access = access or TelemetryAccess(cluster=cluster)
        values = [
            (key, getattr(access, key), value)
            for key, value in (fields or {}).items()
            if getattr(access, key) != value
        ]
        for key, _, value in values:
            setattr(access, key, value)
        access.full_clean(exclude=["cluster", "sealed"])
        changes = [described(key, before, after) for key, before, after in values]
        if secret is not None and (secret.kind or access.kind):
            access.kind, access.server, access.sealed = secret.kind, "", b""
            if secret.kind:
                access.server = server_of(cluster.telemetry_url)
                access.sealed = seal_fields(asdict(secret))
            what = f"given: {secret.kind.label.lower()}" if secret.kind else "removed"
            changes.append(f"access to telemetry {what}")
        if access.kind and not access.server:
            raise Invalid("Give the address of Prometheus or of an exporter first.")
        if access.kind and access.server != server_of(cluster.telemetry_url) and addresses:
            raise Invalid(moved(access, cluster))
        if changes:
            access.save()
            record(by, cluster, ", ".join(changes))
    return cluster


def described(key: str, before: object, after: object) -> str:
    """Return a change as a phrase; of certificates only whether there are any."""
    if key == "authority":
        return (
            "CA of telemetry replaced"
            if before and after
            else f"CA of telemetry {'given' if after else 'removed'}"
        )
    return f"{key} {before or '–'} → {after or '–'}"


def moved(access: TelemetryAccess, cluster: Cluster) -> str:
    """Return why the secret is not sent."""
    return (
        f"The {access.get_kind_display().lower()} was given for {access.server} and is not sent to "
        f"{server_of(cluster.telemetry_url) or 'no address'}. Give it again, or choose “No authentication”."
    )


@sensitive_variables()
def open_secret(cluster: Cluster, access: TelemetryAccess) -> TelemetrySecret:
    """Return the secret for the source of a cluster. Raises Invalid without its key, or at another server."""
    if not access.kind:
        return NO_SECRET
    if access.server != server_of(cluster.telemetry_url):
        raise Invalid(moved(access, cluster))
    return TelemetrySecret(**unseal_fields(access.sealed))


def reseal_secrets() -> int:
    """Encrypt all secrets with the newest key, return their number. Raises Invalid without their key."""
    resealed = 0
    for pk, sealed in TelemetryAccess.objects.exclude(kind="").values_list("pk", "sealed"):
        unchanged = TelemetryAccess.objects.filter(pk=pk, sealed=sealed)  # not replaced meanwhile
        resealed += unchanged.update(sealed=reseal(sealed))
    return resealed + sum(int(found or 0) for _of, found in secrets_resealed.send(sender=TelemetryAccess))
