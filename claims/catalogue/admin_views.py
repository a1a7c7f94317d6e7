"""Pages for platform admins: export and import of the catalogue, presets, and the check of the catalogue."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from claims.catalogue import services
from claims.catalogue.forms import CatalogueFileForm
from claims.catalogue.lint import CatalogueFinding, catalogue_report, enabled_clusters, named_spec
from claims.catalogue.presets import presets
from claims.catalogue.presets.matches import preset_matches
from claims.catalogue.profile_views import require_admin
from claims.catalogue.sharing import cautions
from claims.catalogue.yaml_export import SAME, STAYS_RETIRED, catalogue_file, exported, plan_digest
from claims.catalogue.yaml_import import read_definitions
from claims.models import Profile, ProfileVersion
from core.errors import Conflict, Invalid
from core.text import counted
from dra.lint import lint
from dra.manifests import to_yaml
from dra.objects import Json, Manifest
from inventory.cluster_snapshot import current_snapshot
from teams.access import user_of
from teams.views import redirect_back


@require_safe
def catalogue_export(request: HttpRequest) -> HttpResponse:
    """The file that `manage.py catalogue export` writes."""
    require_admin(request)
    response = HttpResponse(catalogue_file(exported()), content_type="application/yaml; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="catalogue.yaml"'
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def catalogue_import(request: HttpRequest) -> HttpResponse:
    """
    Show what a file would change; import it after the confirmation.

    The confirmation carries the text and the digest of the plan, so only what was shown is done.
    """
    require_admin(request)
    if request.method != "POST":
        return import_page(request, CatalogueFileForm())
    form = CatalogueFileForm(request.POST, request.FILES)
    if not form.is_valid():
        return import_page(request, form, status=422)
    upload = form.cleaned_data
    try:
        definitions = read_definitions(upload["text"], upload["name"])
        if seen := request.POST.get("seen"):
            changes = services.import_profiles(
                by=user_of(request), definitions=definitions, prune=upload["prune"], seen=seen
            )
            count = sum(change.changes_something for change in changes)
            messages.success(request, f"{counted(count, 'profile')} imported.")
            return redirect("claims:profiles")
        return plan_page(request, form)
    except Invalid as refusal:
        return import_page(request, form, problems=refusal.extra["problems"], status=refusal.status)
    except Conflict as refusal:
        return plan_page(request, form, problem=refusal.message, status=refusal.status)


def plan_page(
    request: HttpRequest, form: CatalogueFileForm, *, problem: str = "", status: int = 200
) -> HttpResponse:
    upload = form.cleaned_data
    definitions = read_definitions(upload["text"], upload["name"])
    changes = services.plan_import(by=user_of(request), definitions=definitions, prune=upload["prune"])
    due = [change for change in changes if change.changes_something]
    page = {
        "upload": upload,
        "changes": due,
        "same": sum(change.kind == SAME for change in changes),
        "stays_retired": [change for change in changes if change.kind == STAYS_RETIRED],
        "seen": plan_digest(changes),
        "problem": problem,
    }
    return render(request, "claims/catalogue/catalogue_plan.html", page, status=status)


def import_page(
    request: HttpRequest, form: CatalogueFileForm, *, problems: list[str] | None = None, status: int = 200
) -> HttpResponse:
    page: dict[str, Any] = {"form": form, "problems": problems or []}
    return render(request, "claims/catalogue/catalogue_import.html", page, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def presets_page(request: HttpRequest) -> HttpResponse:
    """Show the presets with their matching devices; on POST add the selected ones."""
    require_admin(request)
    if request.method == "POST":
        slugs = set(request.POST.getlist("preset"))
        selected = [preset for preset in presets() if preset.slug in slugs]
        if selected:
            added = services.add_profiles(by=user_of(request), definitions=selected)
            messages.success(request, f"{counted(len(added), 'profile is', 'profiles are')} added.")
            return redirect_back(request, reverse("claims:profiles"))
        messages.error(request, "Select the presets that you want to add.")
    rows = [(match, cautions(match.preset.spec)) for match in preset_matches()]
    page = {"rows": rows, "missing": sum(not match.in_catalogue for match, _cautions in rows)}
    return render(
        request, "claims/catalogue/presets.html", page, status=422 if request.method == "POST" else 200
    )


@dataclass(frozen=True)
class MatchEffect:
    """How many devices of a cluster match before and after; None if that is unknown."""

    cluster: str
    before: int | None
    after: int | None


@require_safe
def lint_page(request: HttpRequest) -> HttpResponse:
    """Show all findings of all clusters, the worst first."""
    require_admin(request)
    return render(request, "claims/catalogue/lint.html", {"report": catalogue_report()})


@require_http_methods(["GET", "HEAD", "POST"])
def lint_fix(request: HttpRequest, slug: str, key: str) -> HttpResponse:
    """Show what the fix of a finding changes; on POST save it as the next version."""
    require_admin(request)
    profile = get_object_or_404(
        Profile.objects.visible_to(request.user).select_related("current"),
        slug=slug,
        current__isnull=False,
    )
    version = profile.current
    assert version is not None  # by the query  # noqa: S101
    findings = catalogue_report().findings_for(profile)
    finding = next((finding for finding in findings if finding.key == key), None)
    fixed_spec = finding.fix.apply(version.spec) if finding and finding.fix else None
    if request.method == "POST":
        # The form names the version that was shown: another version may need another fix, or none.
        if fixed_spec is None or request.POST.get("version") != str(version.pk):
            raise Conflict(
                f"{profile.slug} or its devices have changed since you read this. Open the check again."
            )
        fixed = services.replace_spec(by=user_of(request), profile=profile, version=version, spec=fixed_spec)
        messages.success(request, f"{profile.slug} is fixed; its version is {fixed.number}.")
        return redirect("claims:lint")
    if finding is None or fixed_spec is None:
        raise Http404
    return render(request, "claims/catalogue/lint_fix.html", fix_page(profile, version, finding, fixed_spec))


def fix_page(
    profile: Profile, version: ProfileVersion, finding: CatalogueFinding, fixed_spec: Manifest
) -> dict[str, object]:
    return {
        "profile": profile,
        "version": version,
        "next_number": version.number + 1,
        "finding": finding,
        "diff": difference(version.spec, fixed_spec),
        "effects": match_effects(version, fixed_spec),
    }


def difference(before: Json, after: Json) -> str:
    """Return the change as a unified diff of YAML with the whole spec."""
    old, new = to_yaml(before).splitlines(), to_yaml(after).splitlines()
    return "\n".join([*difflib.unified_diff(old, new, n=len(old), lineterm="")][3:])


def match_effects(version: ProfileVersion, fixed_spec: Json) -> list[MatchEffect]:
    specs = [named_spec("before", version), named_spec("after", version, fixed_spec)]
    effects = []
    for cluster in enabled_clusters():
        matching = lint(current_snapshot(cluster), specs).matching
        effects.append(MatchEffect(cluster.name, matching.get("before", 0), matching.get("after", 0)))
    return effects
