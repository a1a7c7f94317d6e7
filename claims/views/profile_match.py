"""What a profile would match in a cluster, while it is being written; for platform admins."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from claims.forms import ProfileForm
from claims.views.funnel import dropped_page, funnel_of, helps_of
from dra import match, validation
from dra.help import what_would_help
from dra.objects import Json
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Cluster
from inventory.picture import picture_of
from teams.access import is_platform_admin

SOURCES = ("device_class", "spec_yaml", "source", "count", "memory_gib", "compute", "domain", "product")


@require_POST
def profile_match(request: HttpRequest) -> HttpResponse:
    """The panel for what has been typed so far; with `step`, the devices that this step leaves out."""
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only a platform admin edits the catalogue."))
    page = match_page(spec_of(ProfileForm(request.POST)), request.POST)
    if "step" not in request.POST:
        return render(request, "claims/_profile_match.html", page)
    text = request.POST["step"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not page["matched"] or not 0 < number < len(page["funnel"]):
        raise Http404
    cluster, row = page["match_cluster"], page["funnel"][number]
    spec, wanted = page["matched_spec"], request.POST.get("page", "1")
    page["left_out"] = dropped_page(request.user, cluster, picture_of(cluster), spec, row, wanted)
    page["editor"], page["live"] = True, "HX-Request" in request.headers
    return render(request, "claims/dropped.html#rows" if page["live"] else "claims/dropped.html", page)


def spec_of(form: ProfileForm) -> tuple[Json | None, list[str]]:
    """Return the spec that a sent form describes; None, and why, where it describes none."""
    form.is_valid()
    wrong = [str(error) for name in SOURCES for error in form.errors.get(name, [])]
    spec: Json = form.cleaned_data.get("spec") or {}
    wrong = wrong or [problem.message for problem in validation.problems(spec)]
    return (None, wrong) if wrong else (spec, [])


def match_page(described: tuple[Json | None, list[str]], data: QueryDict) -> dict[str, Any]:
    """Return what the panel shows of a spec in the cluster that `data` names, or in the first."""
    spec, wrong = described
    clusters = list(Cluster.objects.filter(enabled=True).defer("credentials").order_by("name"))
    named = data.get("match_cluster")
    cluster = next((one for one in clusters if one.name == named), clusters[0] if clusters else None)
    page: dict[str, Any] = {
        "match_clusters": clusters,
        "match_cluster": cluster,
        "matched": None,
        "wrong": wrong,
    }
    if cluster is None or spec is None:
        return page
    picture = picture_of(cluster)
    found = match.preview(picture, spec)
    helps = [] if found.fits else what_would_help(picture, spec, now=found)
    (age,) = ages(OF_DEVICES, cluster=cluster)
    return page | {
        "matched": found,
        "matched_spec": spec,
        "funnel": funnel_of(found),
        "helps": helps_of(helps),
        "age": age,
    }
