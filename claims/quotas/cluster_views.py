"""The ResourceQuotas that the portal writes in a cluster, and its admission policies."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import TeamNamespace, WrittenQuota
from claims.quotas.quota_usage import QuotaUsage
from claims.quotas.resource_quota import Headroom, headrooms
from claims.quotas.tasks import write_cluster
from cluster.policies import ACCOUNT, MODE, POLICIES, PolicyAction, to_yaml
from core.attempt import refusal_as_message
from core.errors import Invalid
from core.transactions import after_commit
from dra import quota
from inventory.clusters import write_quotas
from inventory.models import Cluster, Namespace
from teams.access import is_platform_admin, user_of

TEAMS_PER_PAGE = 10


@dataclass(frozen=True)
class WrittenQuotaLine:
    """
    One class of one team: `present` devices there, `free` ones over all clusters, and the limit and use that
    the cluster shows.
    """

    label: str
    present: int
    free: int
    written: str
    used: str
    usage: QuotaUsage


@dataclass(frozen=True)
class NamespaceRow:
    team_namespace: TeamNamespace
    written: WrittenQuota | None
    lines: list[WrittenQuotaLine]
    ignored: list[str]


@dataclass(frozen=True)
class DeletedQuota:
    """A deleted object, with the lines in it that are not the portal's."""

    team_namespace: TeamNamespace
    others: list[str]


@require_safe
def cluster_quotas(request: HttpRequest, name: str) -> HttpResponse:
    cluster = cluster_for(request, name)
    failing = WrittenQuota.objects.filter(team_namespace__cluster=cluster).exclude(problem="")
    is_failing = Exists(failing.filter(team_namespace=OuterRef("pk")))
    team_namespaces = TeamNamespace.objects.filter(cluster=cluster).select_related("team", "written_quota")
    ordered = team_namespaces.alias(is_failing=is_failing).order_by("-is_failing", "team__slug", "pk")
    shown = Paginator(ordered, TEAMS_PER_PAGE).get_page(request.GET.get("page"))
    rooms = headrooms(list(shown))
    page = {
        "cluster": cluster,
        "rows": [namespace_row(team_namespace, rooms[team_namespace.pk]) for team_namespace in shown],
        "page": shown,
        "failing": failing.count(),
    }
    return render(request, "claims/quotas/cluster_quotas.html", page)


@require_POST
def cluster_quotas_write(request: HttpRequest, name: str) -> HttpResponse:
    """Enforce quotas in the cluster from now on."""
    cluster = cluster_for(request, name)
    with refusal_as_message(request):
        write_quotas(name=cluster.name, write=True, by=user_of(request))
        after_commit(write_cluster, str(cluster.pk))
        messages.success(request, f"Quotas are now written to {cluster}.")
    return redirect("claims:cluster_quotas", cluster.name)


@require_http_methods(["GET", "HEAD", "POST"])
def cluster_quotas_stop(request: HttpRequest, name: str) -> HttpResponse:
    """Show which objects are deleted and which stay, then delete the quotas."""
    cluster = cluster_for(request, name)
    if request.method == "POST":
        write_quotas(name=cluster.name, write=False, by=user_of(request))
        after_commit(write_cluster, str(cluster.pk))
        messages.success(request, f"The portal's quotas are being removed from {cluster}.")
        return redirect("claims:cluster_quotas", cluster.name)
    rows = WrittenQuota.objects.filter(team_namespace__cluster=cluster).select_related("team_namespace__team")
    written = list(rows.exclude(observed_hard={}).order_by("team_namespace__namespace"))
    page = {
        "cluster": cluster,
        "going": [DeletedQuota(row.team_namespace, foreign_lines(row)) for row in written],
        "staying": rows.filter(observed_hard={}).exclude(problem="").order_by("team_namespace__namespace"),
        "writable": cluster.is_writable,
    }
    return render(request, "claims/quotas/cluster_quotas_stop.html", page)


@require_POST
def cluster_quotas_repair(request: HttpRequest, name: str) -> HttpResponse:
    """Check every namespace now and repair drift."""
    cluster = cluster_for(request, name)
    after_commit(write_cluster, str(cluster.pk))
    messages.success(request, f"The quotas of {cluster} are being looked at now.")
    return redirect("claims:cluster_quotas", cluster.name)


def cluster_for(request: HttpRequest, name: str) -> Cluster:
    """Return the cluster; 403 for anybody but platform admins, who alone see all teams."""
    cluster = get_object_or_404(Cluster.objects.defer("credentials"), name=name)
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only platform admins see the quotas of all teams.")
    return cluster


def namespace_row(team_namespace: TeamNamespace, room: Headroom) -> NamespaceRow:
    written: WrittenQuota | None = getattr(team_namespace, "written_quota", None)
    observed_hard, observed_used = (written.observed_hard, written.observed_used) if written else ({}, {})
    lines = []
    for use in room.quotas:
        name = use.quota.device_class
        key = quota.class_quota_key(name)
        seen = (observed_hard.get(key, ""), observed_used.get(key, ""))
        lines.append(WrittenQuotaLine(use.label, room.present[name], room.free[name], *seen, use))
    ignored = [reason for key, value in observed_hard.items() if (reason := quota.ignored_reason(key, value))]
    return NamespaceRow(team_namespace, written, lines, ignored)


def foreign_lines(row: WrittenQuota) -> list[str]:
    """Return the lines in the portal's object that somebody else wrote, as "pods: 10"."""
    return [f"{key}: {value}" for key, value in row.observed_hard.items() if key not in row.hard]


POLICY_TEXTS = {
    "gpu-claims-only": (
        "GPUs only through claims",
        (
            "Refuses pods that ask for GPUs by number, as nvidia.com/gpu: 1. Such pods skip approval, "
            "and the portal can only count them afterwards."
        ),
    ),
    "gpu-claims-from-portal": (
        "Claims only from the portal",
        (
            "Refuses ResourceClaims and templates that somebody else makes, cluster admins included. What "
            "Kubernetes makes from the portal's templates passes."
        ),
    ),
    "gpu-portal-labels": (
        "What the portal made stays as it is",
        (
            "Refuses changes to claims and templates with labels of the portal, and such labels on anything "
            "else. The scheduler and the controllers of Kubernetes pass."
        ),
    ),
}


@require_safe
def policies(request: HttpRequest, name: str) -> HttpResponse:
    """The page; with `download` in the address the file. 403 for everybody but platform admins."""
    cluster = get_object_or_404(Cluster.objects.defer("credentials"), name=name)
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only platform admins prepare admission policies.")
    chosen = [policy for policy in request.GET.getlist("policy") if policy in POLICIES] or list(POLICIES)
    action = PolicyAction.WARN if request.GET.get("action") == PolicyAction.WARN else PolicyAction.DENY
    account, problem, text = request.GET.get("account", "").strip() or ACCOUNT, "", ""
    try:
        text = to_yaml(chosen, account=account, action=action)
    except Invalid as refusal:
        problem = refusal.message
    if "download" in request.GET and text:
        response = HttpResponse(text, content_type="application/yaml")
        response["Content-Disposition"] = f'attachment; filename="dragoman-policies-{cluster.name}.yaml"'
        return response
    page = {
        "cluster": cluster,
        "policies": [(key, *words, key in chosen) for key, words in POLICY_TEXTS.items()],
        "text": text,
        "problem": problem,
        "account": account,
        "warn": action == PolicyAction.WARN,
        "mode": "=".join(MODE),
        "labeled": Namespace.objects.filter(
            cluster=cluster, gone_at=None, **{f"labels__{MODE[0]}": MODE[1]}
        ).values_list("name", flat=True),
    }
    return render(request, "claims/quotas/policies.html", page, status=422 if problem else 200)
