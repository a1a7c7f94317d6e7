"""Clusters: add, renew credentials, remove, and connect."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from cluster.credentials import Credentials, seal
from cluster.kube import KubeGateway, connect
from cluster.protocol import Gateway
from core.errors import Conflict, Invalid, PortalError
from inventory.models import Cluster


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


def add_cluster(*, name: str, credentials: Credentials, **fields: str | bool) -> Cluster:
    """
    Add a cluster after a connection to it. Raises `Conflict` if it exists, and the errors of the connection.

    A cluster is identified by the UID of its kube-system namespace, whatever its name and address.
    """
    _check_new(name)
    facts = _identity_and_version(credentials)
    _check_new(name, str(facts["uid"]))
    cluster = Cluster(name=name, credentials=seal(credentials), **facts, **fields)
    cluster.full_clean(exclude=["credentials"])
    is_duplicate = False
    try:
        with transaction.atomic(durable=True):
            cluster.save(force_insert=True)
    except IntegrityError:
        is_duplicate = True
    if is_duplicate:  # another request was faster
        _check_new(name, cluster.uid)
        raise Conflict("Another cluster was added and removed at the same moment. Try again.")
    return cluster


def _check_new(name: str, uid: str = "") -> None:
    """Raise `Conflict` if a cluster has this name or this UID."""
    if Cluster.objects.filter(name=name).exists():
        raise Conflict(f"A cluster “{name}” exists already. Use --renew to replace its credentials.")
    twin = Cluster.objects.exclude(uid="").filter(uid=uid).first()
    if twin is not None:
        raise Conflict(
            f"This cluster is already “{twin.name}”: its kube-system namespace has the same UID {twin.uid}."
        )


def renew_credentials(*, name: str, credentials: Credentials) -> Cluster:
    """Replace the credentials of a cluster. Raises Invalid if the new ones lead to another cluster."""
    cluster = find_cluster(name)
    facts = _identity_and_version(credentials)
    if cluster.uid and cluster.uid != facts["uid"]:
        raise Invalid(
            f"These credentials lead to another cluster than “{name}”: UID {facts['uid']} instead "
            f"of {cluster.uid}."
        )
    Cluster.objects.filter(pk=cluster.pk).update(credentials=seal(credentials), halt_reason="", **facts)
    cluster.refresh_from_db()
    return cluster


def remove_cluster(*, name: str) -> None:
    """Remove a cluster and its mirror from the portal. Raises Conflict if it has claims."""
    cluster = find_cluster(name)
    held = 0
    try:
        with transaction.atomic(durable=True):
            cluster.delete()
    except ProtectedError as protected:
        held = len(protected.protected_objects)
    if held:
        raise Conflict(
            f"“{name}” has {held} claims, whose history would be lost. Disable it in the admin instead "
            "(“enabled”)."
        )


def write_quotas(*, name: str, write: bool) -> Cluster:
    """Switch ResourceQuotas in a cluster on or off. Raises Conflict for a read-only cluster."""
    cluster = find_cluster(name)
    if write and cluster.read_only:
        raise Conflict(f"“{name}” is read-only: the portal cannot write quotas there.")
    Cluster.objects.filter(pk=cluster.pk).update(write_quotas=write)
    cluster.write_quotas = write
    return cluster


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
