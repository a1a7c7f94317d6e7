"""Bringing the ResourceQuotas of clusters in line: after a change, for a cluster, and all over."""

from collections.abc import Iterable
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from claims.models import Claim, TeamNamespace, WrittenQuota
from claims.quota import written as written_quotas
from cluster.kinds import RESOURCE_QUOTA
from cluster.protocol import Gateway
from core.errors import PortalError
from inventory.gateways import gateway_for
from inventory.models import Cluster
from teams.models import User
from teams.notices import tell


def write_team(team_id: UUID) -> None:
    """Keep the ResourceQuotas of one team in every cluster that has them."""
    places = TeamNamespace.objects.filter(team=team_id, cluster__write_quotas=True)
    for place in places.select_related("team", "cluster"):
        if is_writable(place.cluster):
            with gateway_for(place.cluster) as gateway:
                keep(place, gateway)


def write_all() -> None:
    """Keep the ResourceQuotas of every cluster that has them, and take away those of clusters that had."""
    had = WrittenQuota.objects.values("place__cluster")
    for cluster in Cluster.objects.filter(write_quotas=True) | Cluster.objects.filter(pk__in=had):
        if is_writable(cluster):
            write_cluster(cluster)


def write_cluster(cluster: Cluster) -> None:
    """Keep or take away the ResourceQuotas of one cluster; those of namespaces that left are deleted."""
    try:
        with gateway_for(cluster) as gateway:
            _write_cluster(cluster, gateway)
    except PortalError as error:  # of the connection: the rows keep what was seen, and say why
        rows = WrittenQuota.objects.filter(place__cluster=cluster)
        rows.update(problem=_("%(cluster)s: %(error)s") % {"cluster": cluster, "error": error})


def is_writable(cluster: Cluster) -> bool:
    return cluster.enabled and not cluster.read_only and not cluster.halted_because


def keep(place: TeamNamespace, gateway: Gateway) -> WrittenQuota:
    """Keep one, and tell platform admins what somebody else made of it."""
    row = written_quotas.keep(place, gateway)
    if row.drift and row.repaired_at and row.repaired_at == row.written_at:
        tell(
            User.objects.filter(is_superuser=True, is_active=True),
            key=f"quota-drift-{row.pk}-{row.repaired_at.timestamp()}",
            title=_("The quota of %(team)s in %(cluster)s was changed past the portal")
            % {"team": place.team, "cluster": place.cluster},
            body=_("%(drift)s The portal put it right.") % {"drift": row.drift},
            url=reverse("claims:cluster_quotas", args=[place.cluster.name]),
        )
    return row


def before_delivery(claim: Claim, gateway: Gateway) -> None:
    """Write the quota first where it is not what it should be, or the cluster would refuse by an old one."""
    place = _place_of(claim)
    if place is None:
        return
    row = WrittenQuota.objects.filter(place=place).first()
    if row is None or row.problem or row.seen_hard != written_quotas.hard_for(place):
        keep(place, gateway)


def is_behind(claim: Claim, gateway: Gateway) -> bool:
    """Tell whether a refusal of the cluster may be by a quota that it has not taken note of yet."""
    place = _place_of(claim)
    return place is not None and written_quotas.is_behind(place, gateway)


def _place_of(claim: Claim) -> TeamNamespace | None:
    if not claim.cluster.write_quotas:
        return None
    places = TeamNamespace.objects.filter(team=claim.team_id, cluster=claim.cluster_id)
    return places.filter(namespace=claim.namespace).select_related("team", "cluster").first()


def _write_cluster(cluster: Cluster, gateway: Gateway) -> None:
    places = list(TeamNamespace.objects.filter(cluster=cluster).select_related("team", "cluster"))
    if cluster.write_quotas:
        for place in places:
            keep(place, gateway)
    else:
        for row in WrittenQuota.objects.filter(place__cluster=cluster).select_related("place__cluster"):
            written_quotas.remove(row, gateway)
    _delete_orphans(gateway, {place.namespace for place in places})


def _delete_orphans(gateway: Gateway, namespaces: Iterable[str]) -> None:
    """Delete the portal's objects in namespaces that are no longer those of a team."""
    marked = gateway.list(RESOURCE_QUOTA, label_selector="=".join(written_quotas.MARK))
    for found in [item["metadata"] for page in marked for item in page.items]:
        if found["name"] == written_quotas.NAME and found["namespace"] not in namespaces:
            gateway.delete(RESOURCE_QUOTA, found["name"], namespace=found["namespace"], uid=found["uid"])
