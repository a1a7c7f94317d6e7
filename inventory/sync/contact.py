"""First contact: is this still the cluster it was, what does it serve, and what may the portal do there."""

from typing import NoReturn
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from cluster.kinds import EVENT
from cluster.protocol import Gateway, Permission
from inventory.models import Cluster, Freshness
from inventory.sync.resources import kinds_of


class Halted(Exception):
    """The sync of this cluster stands still until a person has looked; `Cluster.halted_because` says why."""


def check_identity(cluster_id: UUID, gateway: Gateway) -> None:
    """
    Raise `Halted` if the credentials lead to another cluster than the mirror is of.

    A foreign listing would close every row of the mirror, so it is asked before each listing and each watch.
    """
    uid = gateway.identity()
    clusters = Cluster.objects.filter(pk=cluster_id)
    cluster = clusters.only("name", "uid", "halted_because").get()
    if not cluster.uid:
        _note_identity(cluster, uid)
    if cluster.uid == uid:
        if cluster.halted_because:
            clusters.update(halted_because="")
        return
    because = (
        f"The credentials of {cluster.name} lead to another cluster: its kube-system "
        f"namespace has uid {uid}, and the mirror is of {cluster.uid}. Nothing is "
        "synchronised until the credentials lead back."
    )
    _halt(cluster, because)


def _note_identity(cluster: Cluster, uid: str) -> None:
    """Keep the uid at first contact; a cluster that is mirrored already is not mirrored a second time."""
    try:
        with transaction.atomic():
            Cluster.objects.filter(pk=cluster.pk, uid="").update(uid=uid)
    except IntegrityError:
        twin = Cluster.objects.exclude(pk=cluster.pk).only("name").get(uid=uid)
        _halt(
            cluster,
            (
                f"{cluster.name} is the cluster that is mirrored as {twin.name} already: its "
                f"kube-system namespace has the same uid {uid}. Nothing is synchronised under this "
                "name."
            ),
        )
    cluster.refresh_from_db(fields=["uid"])


def _halt(cluster: Cluster, because: str) -> NoReturn:
    clusters = Cluster.objects.filter(pk=cluster.pk)
    clusters.exclude(halted_because=because).update(halted_because=because)
    raise Halted(because)


def inspect(cluster: Cluster, gateway: Gateway) -> None:
    """Record version, kinds and missing permissions. Raise `Halted`, or what the gateway raises."""
    check_identity(cluster.pk, gateway)
    found = gateway.discover()
    discovery = {
        "taint_rules": found.taint_rules.version if found.taint_rules else None,
        "kinds": sorted(found.kinds),
    }
    cluster.version, cluster.discovery, cluster.simulated = found.version, discovery, found.simulated
    wanted = [(verb, kind) for kind in kinds_of(cluster) for verb in ("list", "watch")]
    cluster.missing = [
        f"{verb} {kind.plural}"
        for verb, kind in (*wanted, ("list", EVENT))
        if not gateway.allowed(Permission(verb, kind.plural, kind.group))
    ]
    Cluster.objects.filter(pk=cluster.pk).update(
        version=cluster.version,
        discovery=discovery,
        simulated=cluster.simulated,
        missing=cluster.missing,
        checked_at=Now(),
    )
    # What the cluster no longer serves must not be shown as stale for ever.
    kinds = [kind.plural for kind in kinds_of(cluster)]
    Freshness.objects.filter(cluster=cluster).exclude(resource__in=kinds).delete()
