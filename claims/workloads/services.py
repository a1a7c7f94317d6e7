"""
Pods that get an API token with the service account that Kubernetes gave them, instead of a stored one.

An owner of a team allows a Kubernetes service account in the namespace of the team to act as a service
account of the team; nothing is allowed by default. A pod mounts a projected token with the audience
`dragoman` and sends it; the portal asks the cluster by TokenReview whose it is, and answers with a token of
at most an hour, which never outlives that of the pod.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from typing import Any

import structlog
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError
from django.db.models import F, QuerySet
from django.utils import timezone

from claims.models import TeamNamespace, WorkloadIdentity
from cluster.kube import SERVICE_ACCOUNT
from cluster.protocol import ClusterError
from core.errors import Conflict, Invalid, PortalError
from core.scopes import Scope
from core.transactions import service
from dra.cel.name_formats import MAX_SUBDOMAIN, SUBDOMAIN
from inventory.clusters import gateway_for
from teams.access import require_role
from teams.audit.refusals import record_refusal
from teams.models import ApiToken, Role, User, record_change
from teams.service_accounts import team_of
from teams.tokens import create_token

AUDIENCE = "dragoman"
LIFETIME = timedelta(hours=1)  # of the tokens that pods get, at most
KEEP = timedelta(days=1)  # their rows, after their end
MAX_TOKEN = 16_384  # characters

log = structlog.get_logger(__name__)


class TokenRefused(PortalError):
    """The token of a pod gives none of the portal: 401, in one sentence for every reason."""

    code = "unauthenticated"
    status = 401
    title = "Unauthorized"
    headers = {"WWW-Authenticate": 'Bearer realm="Dragoman", error="invalid_token"'}

    def __init__(self) -> None:
        super().__init__(
            f"This token gives no access. It needs the audience “{AUDIENCE}”, must not have expired, and an "
            "owner of the team must have allowed its service account."
        )


def identities_of(account: User) -> QuerySet[WorkloadIdentity]:
    """Return what may act as a service account, with place and cluster."""
    rows = WorkloadIdentity.objects.filter(account=account, place__team=account.service_of)
    return rows.select_related("place__cluster").order_by("place__cluster__name", "service_account")


def places_of(account: User) -> QuerySet[TeamNamespace]:
    """Return the namespaces of its team."""
    places = TeamNamespace.objects.filter(team=account.service_of).select_related("cluster")
    return places.order_by("cluster__name")


def allow(*, by: User, account: User, cluster: str, service_account: str) -> WorkloadIdentity:
    """
    Let pods with a Kubernetes service account in the namespace of the team act as `account`.

    Raises PermissionDenied for everybody but owners, Invalid where the team has no namespace, Conflict where
    they act as another account. Repeating it changes nothing.
    """
    team = team_of(account)
    require_role(by, team, at_least=Role.OWNER)
    place = places_of(account).filter(cluster__name=cluster).first()
    if place is None:
        raise Invalid(f"{team} has no namespace in {cluster}.", field="cluster")
    if len(service_account) > MAX_SUBDOMAIN or re.fullmatch(SUBDOMAIN, service_account) is None:
        text = (
            "Name the service account as in the cluster, such as default: a to z, digits, “-” and “.”, "
            f"at most {MAX_SUBDOMAIN} characters. Each one is allowed by its name."
        )
        raise Invalid(text, field="service_account")
    try:
        with service:
            row, is_new = WorkloadIdentity.objects.get_or_create(
                place=place, service_account=service_account, defaults={"account": account}
            )
            if is_new:
                change = f"service account {account.first_name}: allowed {row}"
                record_change(by=by, of=team, change=change, action="service_account.changed")
    except IntegrityError:
        row = WorkloadIdentity.objects.select_related("account").get(
            place=place, service_account=service_account
        )
    if row.account_id != account.pk:
        other = row.account.first_name
        raise Conflict(f"{row} acts as {other}. Remove that first.", field="service_account")
    return row


@service
def disallow(*, by: User, identity: WorkloadIdentity) -> None:
    """End that pods may act as an account; the tokens that they have work up to an hour on."""
    account = identity.account
    require_role(by, team_of(account), at_least=Role.OWNER)
    deleted, _of_kinds = WorkloadIdentity.objects.filter(pk=identity.pk).delete()
    if deleted:
        change = f"service account {account.first_name}: no longer allowed {identity}"
        record_change(by=by, of=team_of(account), change=change, action="service_account.changed")


def exchange(*, cluster: str, token: str) -> tuple[ApiToken, str]:
    """
    Return a token of the portal for that of a pod of a cluster, and its text.

    The cluster is only asked about a token that names an allowed service account, so that nobody can make the
    portal send requests, or learn which clusters there are. Raises TokenRefused.
    """
    claimed = _claimed_account(token)
    rows = WorkloadIdentity.objects.filter(
        place__cluster__name=cluster,
        place__cluster__enabled=True,
        place__team=F("account__service_of"),
        account__is_active=True,
    )
    row = None
    if claimed is not None:
        namespace, name = claimed
        related = rows.select_related("place__cluster", "account__service_of")
        row = related.filter(place__namespace=namespace, service_account=name).first()
    if row is None:
        raise refused(cluster)
    try:
        with gateway_for(row.place.cluster) as gateway:
            reviewed = gateway.review_token(token, audience=AUDIENCE)
    except PortalError as problem:
        word = "cluster_error" if isinstance(problem, ClusterError) else "credentials"
        log.warning("workload_login_failed", cluster=cluster, why=word, detail=problem.message)
        reviewed = None
    now = timezone.now()
    if (
        reviewed is None
        or (reviewed.namespace, reviewed.service_account) != claimed
        or reviewed.expires_at <= now
    ):
        raise refused(cluster)
    account = row.account
    expired = ApiToken.objects.filter(user=account, expires_at__lt=now - KEEP)
    expired.filter(created_at__gte=F("expires_at") - LIFETIME).delete()
    made = create_token(
        by=account,
        account=account,
        title=f"{reviewed.pod or reviewed.service_account} in {row.place}"[:80],
        scopes=_scopes(account),
        expires_at=min(now + LIFETIME, reviewed.expires_at),
    )
    log.info("workload_login", account=account.username, identity=str(row), pod=reviewed.pod)
    return made


def refused(cluster: str) -> TokenRefused:
    """Record it, and return the refusal."""
    record_refusal(
        by=AnonymousUser(),
        action="token.refused",
        kind="workloadidentity",
        name=f"pod of {cluster[:63]}",
        text="sent a token of a pod that gives no access",
    )
    return TokenRefused()


def _scopes(account: User) -> tuple[Scope, ...]:
    """Return what the role of an account allows at most."""
    is_viewer = account.memberships.filter(role=Role.VIEWER).exists()
    return (Scope.READ,) if is_viewer else (Scope.READ, Scope.REQUEST)


def _claimed_account(token: str) -> tuple[str, str] | None:
    """Return the namespace and service account that a token says, which nobody has verified yet."""
    try:
        _head, payload, _signature = token.split(".")
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        account = SERVICE_ACCOUNT.fullmatch(claims["sub"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return (account[1], account[2]) if account else None
