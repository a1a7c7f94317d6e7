"""Clusters: connect, check, add, change, pause and remove; pages and commands use the same services."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.db import IntegrityError
from django.db.models import ProtectedError
from django.views.decorators.debug import sensitive_variables

from cluster.checkup import CheckupFinding, checkup
from cluster.credentials import Credentials, reseal, seal, unseal
from cluster.kube import KubeGateway, connect
from cluster.protocol import (
    NAMESPACE,
    NODE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    ClusterError,
    Gateway,
    Kind,
    Page,
)
from core.errors import Conflict, Invalid, PortalError
from core.text import counted
from core.transactions import service
from inventory.models import Cluster
from inventory.states import EndPolicy
from teams.access import require_admin
from teams.models import User, record_change

log = structlog.get_logger(__name__)


class Unknown(PortalError):
    """There is no such cluster: 404."""

    code = "not-found"
    status = 404


@contextmanager
def gateway_for(cluster: Cluster) -> Iterator[Gateway]:
    """
    Yield the connection to a cluster; threads of this process share it, and it stays open.

    Only this function passes on the credentials of a cluster. Raises Invalid if they cannot be read.
    """
    yield connect(cluster.credentials)


def check_cluster(cluster: Cluster) -> list[CheckupFinding]:
    """Return what works in a cluster, and what does not with its remedy. Raises Invalid (credentials)."""
    credentials = unseal(cluster.credentials)
    gateway = KubeGateway(credentials)
    modes = {
        "read_only": cluster.read_only,
        "write_quotas": cluster.write_quotas,
        "evict_pods": cluster.end_policy != EndPolicy.RUN,
    }
    try:
        return list(checkup(credentials, gateway, uid=cluster.uid, **modes))
    finally:
        gateway.close()


@dataclass(frozen=True, slots=True)
class ClusterPreview:
    """What a cluster has before it is added, None or empty for what could not be read."""

    devices: int | None = None
    all_devices: bool = True  # else there are more than were counted
    nodes: int | None = None
    claims: int | None = None
    namespaces: Sequence[str] = ()


MAX_SLICES = 500  # ResourceSlices, and names of namespaces, that a preview reads


@sensitive_variables()
def preview_cluster(
    credentials: Credentials, *, read_only: bool, write_quotas: bool, evict_pods: bool
) -> tuple[list[CheckupFinding], ClusterPreview]:
    """Check a cluster that is not added, and return what would be shown of it. Changes nothing there."""
    gateway = KubeGateway(credentials)
    try:
        findings = checkup(
            credentials, gateway, read_only=read_only, write_quotas=write_quotas, evict_pods=evict_pods
        )
        return list(findings), _preview(gateway)
    finally:
        gateway.close()


def _preview(gateway: Gateway) -> ClusterPreview:
    slices, namespaces = _first(gateway, RESOURCE_SLICE, MAX_SLICES), _first(gateway, NAMESPACE, MAX_SLICES)
    nodes, claims = _first(gateway, NODE, 1), _first(gateway, RESOURCE_CLAIM, 1)
    devices = None
    if slices is not None:
        devices = sum(len(item.get("spec", {}).get("devices") or ()) for item in slices.items)
    return ClusterPreview(
        devices,
        slices is None or not slices.remaining,
        _number(nodes),
        _number(claims),
        [item["metadata"]["name"] for item in namespaces.items] if namespaces else (),
    )


def _number(page: Page | None) -> int | None:
    return None if page is None else len(page.items) + (page.remaining or 0)


def _first(gateway: Gateway, kind: Kind, limit: int) -> Page | None:
    """Return the first page of a listing, None if it is refused or the cluster does not answer."""
    try:
        return next(iter(gateway.list(kind, limit=limit)), None)
    except ClusterError:
        return None


# Services: `by` is the person on a page; None is a command on the server, which has no account.


@sensitive_variables()
def add_cluster(
    *, name: str, credentials: Credentials, by: User | None = None, **fields: str | bool
) -> Cluster:
    """
    Add a cluster after a connection to it. Raises `Conflict` if it exists, and the errors of the connection.

    A cluster is identified by the UID of its kube-system namespace, whatever its name and address.
    """
    require_admin_or_command(by)
    _check_new(name)
    facts = _identity_and_version(credentials)
    _check_new(name, str(facts["uid"]))
    cluster = Cluster(name=name, **_credential_columns(credentials), **facts, **fields)
    cluster.full_clean(exclude=["credentials"])
    is_duplicate = False
    try:
        with service:
            cluster.save(force_insert=True)
            mode = "read-only" if cluster.read_only else "full"
            record(by, cluster, f"added: {credentials.address}, {mode}")
    except IntegrityError:
        is_duplicate = True
    if is_duplicate:  # another request was faster
        _check_new(name, cluster.uid)
        raise Conflict("Another cluster was added and removed at the same moment. Try again.")
    return cluster


@sensitive_variables()
def _credential_columns(credentials: Credentials) -> dict[str, Any]:
    return {"credentials": seal(credentials), "credentials_expire_at": credentials.expires_at}


def _check_new(name: str, uid: str = "") -> None:
    """Raise `Conflict` if a cluster has this name or this UID."""
    if Cluster.objects.filter(name=name).exists():
        raise Conflict(
            f"A cluster “{name}” exists already. Its settings page, or --renew, replaces its credentials."
        )
    twin = Cluster.objects.exclude(uid="").filter(uid=uid).first()
    if twin is not None:
        raise Conflict(
            f"This cluster is already “{twin.name}”: its kube-system namespace has the same UID {twin.uid}."
        )


def reseal_credentials() -> int:
    """Encrypt all credentials with the newest key, return their number. Raises Invalid without their key."""
    resealed = 0
    for pk, sealed in Cluster.objects.values_list("pk", "credentials"):
        unchanged = Cluster.objects.filter(pk=pk, credentials=sealed)  # not replaced meanwhile
        resealed += unchanged.update(credentials=reseal(sealed))
    return resealed


@sensitive_variables()
def renew_credentials(*, name: str, credentials: Credentials, by: User | None = None) -> Cluster:
    """Replace the credentials of a cluster. Raises Invalid if the new ones lead to another cluster."""
    require_admin_or_command(by)
    cluster = find_cluster(name)
    facts = _identity_and_version(credentials)
    if cluster.uid and cluster.uid != facts["uid"]:
        raise Invalid(
            f"These credentials lead to another cluster than “{name}”: UID {facts['uid']} instead "
            f"of {cluster.uid}."
        )
    with service:
        columns = _credential_columns(credentials) | facts
        Cluster.objects.filter(pk=cluster.pk).update(halt_reason="", **columns)
        change = f"credentials replaced: {credentials.address}"
        record(by, cluster, change, action="cluster.credentials_replaced")
    cluster.refresh_from_db()
    return cluster


CHANGEABLE = ("title", "read_only", "end_policy", "prometheus_url", "metrics_url", "grams_per_kwh")


def change_cluster(*, name: str, by: User | None = None, **fields: str | bool | int | None) -> Cluster:
    """
    Change fields of `CHANGEABLE`; the same values again change nothing. Raises Conflict and ValidationError.

    The sync writes other columns of the row meanwhile, so only the changed ones are saved.
    """
    require_admin_or_command(by)
    cluster = find_cluster(name)
    with service:
        change_columns(cluster, by, fields)
    return cluster


def change_columns(cluster: Cluster, by: User | None, fields: Mapping[str, str | bool | int | None]) -> None:
    """Change fields of `CHANGEABLE` and record it, in the transaction of the caller."""
    changed = [key for key in CHANGEABLE if key in fields and getattr(cluster, key) != fields[key]]
    before = {key: getattr(cluster, key) for key in changed}
    for key in changed:
        setattr(cluster, key, fields[key])
    if "read_only" in changed and cluster.read_only and cluster.write_quotas:
        raise Conflict(
            f"The portal writes quotas in “{cluster.name}”. Stop that first, then make it read-only."
        )
    cluster.full_clean(exclude=["credentials"])
    if changed:
        unchanged = Cluster.objects.filter(pk=cluster.pk, write_quotas=cluster.write_quotas, **before)
        if not unchanged.update(**{key: getattr(cluster, key) for key in changed}):
            raise Conflict(f"Somebody else has just changed “{cluster.name}”. Look again.")
        values = [(key, _recorded(before[key]), _recorded(fields[key])) for key in changed]
        changes = (f"{key} {old} → {new}" for key, old, new in values)
        record(by, cluster, ", ".join(changes), values)


def _recorded(value: object) -> str:
    """Return a value for the record; of an address only its host, since the rest may hold a secret."""
    if isinstance(value, bool):
        return "on" if value else "off"
    text = "" if value is None else str(value)
    return (urlsplit(text).hostname if "://" in text else text) or "–"


def set_enabled(*, name: str, enabled: bool, by: User | None = None) -> Cluster:
    """Pause or resume a cluster: a paused one is neither read nor written. Repeating it changes nothing."""
    require_admin_or_command(by)
    cluster = find_cluster(name)
    with service:
        if Cluster.objects.filter(pk=cluster.pk, enabled=not enabled).update(enabled=enabled):
            cluster.enabled = enabled
            cluster.save(update_fields=["enabled"])  # its signal counts the availability of the cluster
            values = [("Paused", "yes", "no") if enabled else ("Paused", "no", "yes")]
            record(by, cluster, "resumed" if enabled else "paused", values)
    return cluster


def remove_cluster(*, name: str, by: User | None = None) -> None:
    """Remove a cluster and its mirror from the portal. Raises Conflict if it has claims."""
    require_admin_or_command(by)
    cluster = find_cluster(name)
    held = 0
    try:
        with service:
            record(by, cluster, "removed")
            cluster.delete()
    except ProtectedError as protected:
        held = len(protected.protected_objects)
    if held:
        claims = counted(held, "claim")
        raise Conflict(f"“{name}” has {claims}, whose history would be lost. Pause it instead.")


def write_quotas(*, name: str, write: bool, by: User | None = None) -> Cluster:
    """Switch ResourceQuotas in a cluster on or off. Raises Conflict for a read-only cluster."""
    require_admin_or_command(by)
    cluster = find_cluster(name)
    if write and cluster.read_only:
        raise Conflict(f"“{name}” is read-only: the portal cannot write quotas there.")
    unchanged = Cluster.objects.filter(pk=cluster.pk, write_quotas=not write, read_only=cluster.read_only)
    with service:
        if unchanged.update(write_quotas=write):
            record(by, cluster, "ResourceQuotas on" if write else "ResourceQuotas off")
        elif not Cluster.objects.filter(pk=cluster.pk, write_quotas=write).exists():
            raise Conflict(f"Somebody else has just changed “{cluster.name}”. Look again.")
    cluster.write_quotas = write
    return cluster


def require_admin_or_command(by: User | None) -> None:
    """Raise Forbidden for a person who is no platform admin."""
    if by is not None:
        require_admin(by)


def record(
    by: User | None,
    cluster: Cluster,
    change: str,
    values: Sequence[tuple[str, str, str]] = (),
    action: str = "",
) -> None:
    """Record a change with its author, None for a command."""
    log.info("cluster_changed", cluster=cluster.name, change=change, by=by.username if by else "command")
    record_change(by=by, of=cluster, change=change, values=values, action=action)


def find_cluster(name: str) -> Cluster:
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        names = ", ".join(Cluster.objects.values_list("name", flat=True)) or "–"
        raise Unknown(f"There is no cluster “{name}”. Clusters: {names}.")
    return cluster


def _identity_and_version(credentials: Credentials) -> dict[str, str | bool]:
    """Return identity and version of a cluster, over a new connection."""
    gateway = KubeGateway(credentials)
    try:
        discovered = gateway.discover()
        return {
            "uid": gateway.identity(),
            "version": discovered.version,
            "simulated": discovered.simulated,
        }
    finally:
        gateway.close()
