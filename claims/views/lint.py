"""What is wrong with the catalogue, for platform admins, and the one click that mends it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from claims import services
from claims.catalogue.lint import CatalogueFinding, catalogue_report, enabled_clusters, named
from claims.models import Profile, ProfileVersion
from claims.views.profiles import require_admin
from core.errors import Conflict
from dra.lint import lint
from dra.manifests import to_yaml
from dra.objects import Json, Manifest
from inventory.picture import picture_of
from teams.access import asker


@dataclass(frozen=True)
class Effect:
    """How many devices of a cluster match before and after; None where that cannot be told."""

    cluster: str
    before: int | None
    after: int | None


@require_safe
def lint_page(request: HttpRequest) -> HttpResponse:
    """Everything that was found, the worst first, in every cluster."""
    require_admin(request)
    return render(request, "claims/lint.html", {"report": catalogue_report()})


@require_http_methods(["GET", "HEAD", "POST"])
def lint_mend(request: HttpRequest, slug: str, key: str) -> HttpResponse:
    """Show what the fix of a finding changes; on POST make it the next version, if nobody was faster."""
    require_admin(request)
    profile = get_object_or_404(
        Profile.objects.visible_to(request.user).select_related("current"),
        slug=slug,
        current__isnull=False,
    )
    version = profile.current
    assert version is not None  # the query says so  # noqa: S101
    finding = next((one for one in catalogue_report().of(profile) if one.key == key), None)
    mended = finding.fix.apply(version.spec) if finding and finding.fix else None
    if request.method == "POST":
        # The page that was read named a version: another one may need another fix, or none.
        if mended is None or request.POST.get("version") != str(version.pk):
            raise Conflict(
                _("%(profile)s or the devices have changed since you read this. Look at the check again.")
                % {"profile": profile.slug}
            )
        made = services.replace_spec(by=asker(request), profile=profile, version=version, spec=mended)
        values = {"profile": profile.slug, "number": made.number}
        messages.success(request, _("%(profile)s is mended; its version is %(number)d.") % values)
        return redirect("claims:lint")
    if finding is None or mended is None:
        raise Http404
    return render(request, "claims/lint_mend.html", mend_page(profile, version, finding, mended))


def mend_page(
    profile: Profile, version: ProfileVersion, finding: CatalogueFinding, mended: Manifest
) -> dict[str, object]:
    return {
        "profile": profile,
        "version": version,
        "next_number": version.number + 1,
        "finding": finding,
        "diff": difference(version.spec, mended),
        "effects": effects(version, mended),
    }


def difference(before: Json, after: Json) -> str:
    """Return the change as a unified diff of YAML, all of the spec around it."""
    old, new = to_yaml(before).splitlines(), to_yaml(after).splitlines()
    return "\n".join([*difflib.unified_diff(old, new, n=len(old), lineterm="")][3:])


def effects(version: ProfileVersion, mended: Json) -> list[Effect]:
    specs = [named("before", version), named("after", version, mended)]
    found = []
    for cluster in enabled_clusters():
        matching = lint(picture_of(cluster), specs).matching
        found.append(Effect(cluster.name, matching.get("before", 0), matching.get("after", 0)))
    return found
