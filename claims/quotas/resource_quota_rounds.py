"""When ResourceQuotas are written: after a change, for one cluster, and for all."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim, TeamNamespace, WrittenQuota
from claims.quotas import resource_quota
from cluster.protocol import RESOURCE_QUOTA, Gateway, Refused, Unreachable
from core.errors import PortalError
from inventory.clusters import gateway_for
from inventory.models import Cluster
from notify.models import NoticeKind
from notify.services import notify
from teams.models import User

MAX_LAG = timedelta(minutes=1)  # for this time a cluster may count by old limits


class QuotaNotYetWritten(Unreachable):
    """A cluster refused by an outdated count: worth retrying in a moment."""


def write_teams(teams: Collection[UUID]) -> None:
    """
    Write the ResourceQuotas of these teams that differ.

    What a team uses in one cluster lowers its limits in the others. So clusters in which no limit rises come
    first: a limit that moves between clusters is lowered before it is raised. An unreachable cluster delays
    no other; its row says so, and `write_all` tries again.
    """
    keeping = Cluster.objects.filter(write_quotas=True)
    concerned = TeamNamespace.objects.filter(team__in=teams, cluster__in=keeping)
    team_namespaces = list(concerned.select_related("team", "cluster"))
    if not team_namespaces:
        return  # before anything is counted: in most portals few clusters enforce quotas
    _write_differing(team_namespaces)


def write_changed(cluster_id: UUID, namespaces: Collection[str]) -> None:
    """
    Write the ResourceQuotas of teams whose namespaces changed: their unmanaged use, or the allocated
    alternative of a claim.
    """
    enforced = TeamNamespace.objects.filter(team=OuterRef("team"), cluster__write_quotas=True)
    changed = TeamNamespace.objects.filter(Exists(enforced), cluster=cluster_id, namespace__in=namespaces)
    write_teams(set(changed.values_list("team", flat=True)))


def _write_differing(team_namespaces: Collection[TeamNamespace]) -> None:
    hards = resource_quota.hard_limits_by_namespace(team_namespaces)
    rows = {
        row.team_namespace_id: row for row in WrittenQuota.objects.filter(team_namespace__in=team_namespaces)
    }
    wrong = [
        team_namespace
        for team_namespace in team_namespaces
        if team_namespace.cluster.is_writable
        and not resource_quota.is_current(rows.get(team_namespace.pk), hards[team_namespace.pk])
    ]
    for team_namespace in sorted(
        wrong, key=lambda moment: resource_quota.raises_a_limit(rows.get(moment.pk), hards[moment.pk])
    ):
        try:
            with gateway_for(team_namespace.cluster) as gateway:
                ensure_and_notify(team_namespace, gateway)
        except PortalError as error:  # of the connection
            _note_problem(
                WrittenQuota.objects.filter(team_namespace=team_namespace), team_namespace.cluster, error
            )


def write_all() -> None:
    """
    Write the ResourceQuotas of every cluster that enforces them, and delete those of clusters that stopped.
    """
    had = WrittenQuota.objects.values("team_namespace__cluster")
    for cluster in Cluster.objects.filter(write_quotas=True) | Cluster.objects.filter(pk__in=had):
        if cluster.is_writable:
            write_cluster(cluster)


def write_cluster(cluster: Cluster) -> None:
    """Write or delete the ResourceQuotas of one cluster; those of namespaces that left are deleted."""
    try:
        with gateway_for(cluster) as gateway:
            _write_cluster(cluster, gateway)
    except PortalError as error:  # of the connection: the rows keep what was observed, and say why
        _note_problem(WrittenQuota.objects.filter(team_namespace__cluster=cluster), cluster, error)


def ensure_and_notify(team_namespace: TeamNamespace, gateway: Gateway) -> WrittenQuota:
    """Write one, and notify platform admins of drift, once a day. Raises Unreachable."""
    row = resource_quota.ensure(team_namespace, gateway)
    if row.drift and row.repaired_at and row.repaired_at == row.written_at:
        notify(
            User.objects.filter(is_superuser=True, is_active=True),
            kind=NoticeKind.PLATFORM,
            key=f"quota-drift-{row.pk}-{row.repaired_at:%Y-%m-%d}",
            team_id=team_namespace.team_id,
            title=(
                f"The quota of {team_namespace.team} in {team_namespace.cluster} "
                "was changed outside the portal"
            ),
            body=f"{row.drift} The portal repaired it.",
            url=reverse("claims:cluster_quotas", args=[team_namespace.cluster.name]),
        )
    return row


def before_delivery(claim: Claim, gateway: Gateway) -> None:
    """
    Write the quota first if it is outdated, or the cluster would refuse the claim by an old limit.

    The limits in the other clusters are lowered before this one is raised. Clusters that could not be written
    the last time are left to the next round: a claim does not wait for a cluster that is down.
    """
    elsewhere = TeamNamespace.objects.filter(team=claim.team_id, cluster__write_quotas=True)
    elsewhere = elsewhere.exclude(cluster=claim.cluster_id).exclude(written_quota__problem__gt="")
    if others := list(elsewhere.select_related("team", "cluster")):
        _write_differing(others)
    team_namespace = _claim_place(claim)
    if team_namespace is None:
        return
    row = WrittenQuota.objects.filter(team_namespace=team_namespace).first()
    if not resource_quota.is_current(row, resource_quota.hard_limits(team_namespace)):
        ensure_and_notify(team_namespace, gateway)


def may_count_old_limit(claim: Claim, gateway: Gateway, refusal: Refused) -> bool:
    """
    Return whether the cluster may have refused a claim by an outdated count.

    Its quota controller notices a new limit or a deleted object a moment later, and its API servers another
    moment after that. Shortly after the approval or a new limit, no refusal is final; later, the limit in the
    object is compared with the limit that is counted by.
    """
    team_namespace = _claim_place(claim)
    if team_namespace is None or resource_quota.REFUSAL not in str(refusal):
        return False
    row = WrittenQuota.objects.filter(team_namespace=team_namespace).first()
    moments = [claim.state_since, row.written_at if row else None]
    if any(moment is not None and timezone.now() - moment < MAX_LAG for moment in moments):
        return True
    return resource_quota.counts_old_limit(team_namespace, gateway)


def _note_problem(rows: QuerySet[WrittenQuota], cluster: Cluster, error: PortalError) -> None:
    """Record on the rows why nothing could be written; they keep what was observed."""
    rows.update(problem=f"{cluster}: {error}")


def _claim_place(claim: Claim) -> TeamNamespace | None:
    if not claim.cluster.write_quotas:
        return None
    team_namespaces = TeamNamespace.objects.filter(team=claim.team_id, cluster=claim.cluster_id)
    return team_namespaces.filter(namespace=claim.namespace).select_related("team", "cluster").first()


def _write_cluster(cluster: Cluster, gateway: Gateway) -> None:
    team_namespaces = list(TeamNamespace.objects.filter(cluster=cluster).select_related("team", "cluster"))
    if cluster.write_quotas:
        for team_namespace in team_namespaces:
            ensure_and_notify(team_namespace, gateway)
    else:
        for row in WrittenQuota.objects.filter(team_namespace__cluster=cluster).select_related(
            "team_namespace__cluster"
        ):
            resource_quota.remove(row, gateway)
    _delete_orphans(gateway, {team_namespace.namespace for team_namespace in team_namespaces})


def _delete_orphans(gateway: Gateway, namespaces: Iterable[str]) -> None:
    """Delete the portal's objects in namespaces that are no longer those of a team."""
    marked = gateway.list(RESOURCE_QUOTA, label_selector="=".join(resource_quota.LABEL))
    for metadata in [item["metadata"] for page in marked for item in page.items]:
        if metadata["name"] == resource_quota.NAME and metadata["namespace"] not in namespaces:
            gateway.delete(
                RESOURCE_QUOTA, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
