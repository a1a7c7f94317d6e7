"""Admission policies for a cluster: what each closes, and the file that a cluster admin applies."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from cluster.policies import ACCOUNT, MODE, POLICIES, Action, to_yaml
from core.errors import Invalid
from inventory.models import Cluster, Namespace
from teams.access import is_platform_admin

WORDS = {
    "gpu-claims-only": (
        gettext_lazy("GPUs only through claims"),
        gettext_lazy(
            "Refuses pods that ask for GPUs by number, as nvidia.com/gpu: 1. Such pods go past approval, "
            "and the portal can only count them afterwards."
        ),
    ),
    "gpu-claims-from-portal": (
        gettext_lazy("Claims only from the portal"),
        gettext_lazy(
            "Refuses ResourceClaims and templates that somebody else makes, cluster admins included. What "
            "Kubernetes makes from the portal's templates passes."
        ),
    ),
    "gpu-portal-labels": (
        gettext_lazy("What the portal made stays as it is"),
        gettext_lazy(
            "Refuses changes to claims and templates with labels of the portal, and such labels on anything "
            "else. The scheduler and the controllers of Kubernetes pass."
        ),
    ),
}


@require_safe
def policies(request: HttpRequest, name: str) -> HttpResponse:
    """The page; with `download` in the address the file. 403 for anybody but platform admins."""
    cluster = get_object_or_404(Cluster.objects.defer("credentials"), name=name)
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only platform admins prepare admission policies."))
    chosen = [one for one in request.GET.getlist("policy") if one in POLICIES] or list(POLICIES)
    action = Action.WARN if request.GET.get("action") == Action.WARN else Action.DENY
    account, problem, text = request.GET.get("account", "").strip() or ACCOUNT, "", ""
    try:
        text = to_yaml(chosen, account=account, action=action)
    except Invalid as refusal:
        problem = refusal.message
    if "download" in request.GET and text:
        answer = HttpResponse(text, content_type="application/yaml")
        answer["Content-Disposition"] = f'attachment; filename="dragoman-policies-{cluster.name}.yaml"'
        return answer
    page = {
        "cluster": cluster,
        "policies": [(key, *words, key in chosen) for key, words in WORDS.items()],
        "text": text,
        "problem": problem,
        "account": account,
        "warn": action == Action.WARN,
        "mode": "=".join(MODE),
        "labelled": Namespace.objects.filter(
            cluster=cluster, gone_at=None, **{f"labels__{MODE[0]}": MODE[1]}
        ).values_list("name", flat=True),
    }
    return render(request, "claims/policies.html", page, status=422 if problem else 200)
