"""
Where a team works: its namespace in each cluster, and what is left of them when the team is archived.

Claims are created in the namespace of their team, and what else stands there counts against its quota.
"""

from __future__ import annotations

import re

from django.db import IntegrityError
from django.utils import timezone

from claims.models import Budget, Claim, Delegation, Quota, QuotaRequest, RequestStatus, TeamNamespace
from claims.quotas import tasks
from claims.quotas.services import lock_team
from core.errors import Conflict, Invalid
from core.text import counted
from core.transactions import after_commit, service
from inventory.models import Cluster
from teams.access import require_admin
from teams.models import Team, User, record_change
from teams.service_accounts import end_accounts_of

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # RFC 1123


def set_namespace(*, by: User, team: Team, cluster: Cluster, namespace: str) -> None:
    """
    Set the namespace of a team in a cluster; empty: the team has none there. The same again changes nothing.

    Raises Forbidden, Invalid, and Conflict while the team has claims there, or if it is another team's.
    """
    require_admin(by)
    if namespace and not LABEL.fullmatch(namespace):
        text = f"“{namespace}” is no name of a namespace: lower-case letters, digits and hyphens."
        raise Invalid(text, field="namespace")
    is_taken = False
    try:
        with service:
            _set_namespace(by, team, cluster, namespace)
    except IntegrityError:
        is_taken = True
    if is_taken:
        holders = TeamNamespace.objects.filter(cluster=cluster, namespace=namespace)
        holder = holders.values_list("team__slug", flat=True).first()
        raise Conflict(f"{namespace} in {cluster} is the namespace of {holder or 'another team'}.")


def _set_namespace(by: User, team: Team, cluster: Cluster, namespace: str) -> None:
    if team.archived_at:
        raise Conflict(f"{team} is archived. Restore it first.")
    current = TeamNamespace.objects.filter(team=team, cluster=cluster).first()
    before = current.namespace if current else ""
    if before == namespace:
        return
    if live := Claim.objects.live().filter(team=team, cluster=cluster).count():
        raise Conflict(
            f"{team} has {counted(live, 'claim')} in {cluster} that "
            f"{'is' if live == 1 else 'are'} not over. Release them first: they are in “{before}”."
        )
    if current is not None:
        current.delete()
    if namespace:
        TeamNamespace.objects.create(team=team, cluster=cluster, namespace=namespace)
    old, new = before or "–", namespace or "–"
    values = [(f"Namespace in {cluster}", old, new)]
    record_change(by=by, of=team, change=f"namespace in {cluster}: {old} → {new}", values=values)
    tasks.queue_team(team.pk)
    if before and cluster.write_quotas:
        after_commit(tasks.write_cluster, str(cluster.pk))  # deletes the ResourceQuota in the old namespace


@service
def archive_team(*, by: User, team: Team) -> None:
    """
    End a team: nobody is a member, its quotas, guarantees, namespaces and delegations are removed, and its
    budgets end.

    Claims, cost and records stay, for platform admins. Raises Conflict while claims or requests are open.
    """
    require_admin(by)
    if lock_team(team).archived_at:
        return
    parts = (
        counted(team.memberships.filter(user__service_of=None).count(), "member"),
        _remove_quotas(by, team),
        _end_budgets(by, team),
        _remove_namespaces(team),
    )
    if reason := reason_not_to_archive(team):  # a request that held the row of a quota is seen now
        raise Conflict(reason)
    for membership in team.memberships.select_related("user"):
        membership.delete()  # one by one: each sends its signal
    end_accounts_of(team, by=by)
    now = timezone.now()
    Delegation.objects.filter(team=team, starts_at__gte=now).delete()
    Delegation.objects.filter(team=team, ends_at__gt=now).update(ends_at=now)
    team.invitations.open().update(revoked_at=now)
    Team.objects.filter(pk=team.pk).update(archived_at=now)
    record_change(by=by, of=team, change=f"archived: {', '.join(filter(None, parts))} removed")


def _remove_quotas(by: User, team: Team) -> str:
    quotas = list(Quota.objects.filter(team=team))
    for quota in quotas:
        change = f"removed with {team}, limit was {quota.devices}"
        record_change(by=by, of=quota, change=change, values=[("limit", str(quota.devices), "–")])
    Quota.objects.filter(team=team).delete()
    return counted(len(quotas), "quota")


def _end_budgets(by: User, team: Team) -> str:
    """End the budgets of a team that is locked, as `claims.budgets.services.end_budget` does."""
    budgets = list(Budget.objects.open().filter(team=team))
    for budget in budgets:
        record_change(by=by, of=budget, change=f"ended with {team}")
    Budget.objects.open().filter(team=team).update(ended_at=timezone.now(), ended_by=by)
    return counted(len(budgets), "budget") if budgets else ""


def _remove_namespaces(team: Team) -> str:
    places = list(TeamNamespace.objects.filter(team=team).select_related("cluster"))
    for place in places:
        place.delete()
        if place.cluster.write_quotas:
            after_commit(tasks.write_cluster, str(place.cluster_id))  # deletes its ResourceQuota
    return counted(len(places), "namespace")


def reason_not_to_archive(team: Team) -> str:
    """Return why the team cannot be archived now, "" if it can."""
    live = Claim.objects.live().filter(team=team).count()
    waiting = QuotaRequest.objects.filter(team=team, status=RequestStatus.WAITING).count()
    parts = []
    if live:
        parts.append(f"{counted(live, 'claim')} that {'is' if live == 1 else 'are'} not over")
    if waiting:
        parts.append(f"{counted(waiting, 'quota request')} to decide on")
    return f"{team} has {' and '.join(parts)}." if parts else ""


@service
def restore_team(*, by: User, team: Team) -> None:
    """Take a team back, without members, namespaces and quotas."""
    require_admin(by)
    if Team.objects.filter(pk=team.pk, archived_at__isnull=False).update(archived_at=None):
        record_change(by=by, of=team, change="restored")
