"""Clusters: added, given new credentials, removed, and connected to."""

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
    Enrol a cluster after speaking to it. Raise `PortalError` when it is known, or with what it says.

    A cluster is the one whose kube-system namespace has this uid, whatever its name and address.
    """
    _check_new(name)
    facts = _ask(credentials)
    _check_new(name, str(facts["uid"]))
    cluster = Cluster(name=name, credentials=seal(credentials), **facts, **fields)
    cluster.full_clean(exclude=["credentials"])
    taken = False
    try:
        with transaction.atomic(durable=True):
            cluster.save(force_insert=True)
    except IntegrityError:
        taken = True
    if taken:  # somebody else was faster by a moment
        _check_new(name, cluster.uid)
        raise Conflict("Another cluster was added and removed at the same moment. Try again.")
    return cluster


def _check_new(name: str, uid: str = "") -> None:
    """Raise `Conflict` if a cluster of this name, or of this uid, is known."""
    if Cluster.objects.filter(name=name).exists():
        raise Conflict(f"There is a cluster “{name}” already; with --renew it gets these credentials.")
    twin = Cluster.objects.exclude(uid="").filter(uid=uid).first()
    if twin is not None:
        raise Conflict(
            f"This cluster is known as “{twin.name}” already: its kube-system namespace has the "
            f"same uid {twin.uid}."
        )


def renew_credentials(*, name: str, credentials: Credentials) -> Cluster:
    """Replace the credentials of a cluster by others that lead to the same one."""
    cluster = find_cluster(name)
    facts = _ask(credentials)
    if cluster.uid and cluster.uid != facts["uid"]:
        raise Invalid(
            f"These credentials lead to another cluster than “{name}”: uid {facts['uid']} instead "
            f"of {cluster.uid}."
        )
    Cluster.objects.filter(pk=cluster.pk).update(credentials=seal(credentials), halted_because="", **facts)
    cluster.refresh_from_db()
    return cluster


def remove_cluster(*, name: str) -> None:
    """Forget a cluster and its mirror; the cluster itself is not touched. Refused while it has claims."""
    cluster = find_cluster(name)
    held = 0
    try:
        with transaction.atomic(durable=True):
            cluster.delete()
    except ProtectedError as protected:
        held = len(protected.protected_objects)
    if held:
        raise Conflict(
            f"“{name}” has {held} claims in the portal's books, whose history would be lost. Take "
            "it out of use instead: “enabled” in the admin."
        )


def write_quotas(*, name: str, write: bool) -> Cluster:
    """Have the quotas of teams kept in a cluster, or taken away. Raise Conflict where nothing is written."""
    cluster = find_cluster(name)
    if write and cluster.read_only:
        raise Conflict(f"“{name}” is read-only: the portal writes nothing there.")
    Cluster.objects.filter(pk=cluster.pk).update(write_quotas=write)
    cluster.write_quotas = write
    return cluster


def find_cluster(name: str) -> Cluster:
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        names = ", ".join(Cluster.objects.values_list("name", flat=True)) or "–"
        raise Unknown(f"There is no cluster “{name}”. Known: {names}.")
    return cluster


def _ask(credentials: Credentials) -> dict[str, str | bool]:
    """Ask the cluster who it is, over a connection of its own."""
    gateway = KubeGateway(credentials)
    try:
        found = gateway.discover()
        return {"uid": gateway.identity(), "version": found.version, "simulated": found.simulated}
    finally:
        gateway.close()
