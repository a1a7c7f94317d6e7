"""The catalogue as a file, and the profiles that come with the portal: for platform admins."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from claims import services
from claims.catalogue.cautions import cautions
from claims.catalogue.files import exported, written
from claims.catalogue.plan import digest_of
from claims.catalogue.reading import entries_in
from claims.forms.catalogue_file import CatalogueFileForm
from claims.presets import presets
from claims.presets.serving import served
from claims.views.profiles import require_admin
from core.errors import Conflict, Invalid
from teams.access import asker


@require_safe
def catalogue_export(request: HttpRequest) -> HttpResponse:
    """The file that `manage.py catalogue export` writes."""
    require_admin(request)
    answer = HttpResponse(written(exported()), content_type="application/yaml; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="catalogue.yaml"'
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
def catalogue_import(request: HttpRequest) -> HttpResponse:
    """
    Take a file, show what it would change, and change it once that was confirmed.

    The page that asks carries the text and the digest of what it shows: nothing else is done.
    """
    require_admin(request)
    if request.method != "POST":
        return import_page(request, CatalogueFileForm())
    form = CatalogueFileForm(request.POST, request.FILES)
    if not form.is_valid():
        return import_page(request, form, status=422)
    wanted = form.cleaned_data
    try:
        entries = entries_in(wanted["text"], wanted["name"])
        if seen := request.POST.get("seen"):
            changes = services.import_profiles(
                by=asker(request), entries=entries, prune=wanted["prune"], seen=seen
            )
            count = sum(change.changes_something for change in changes)
            said = ngettext(
                "%(n)d profile is as in the file now.", "%(n)d profiles are as in the file now.", count
            )
            messages.success(request, said % {"n": count})
            return redirect("claims:profiles")
        return plan_page(request, form)
    except Invalid as refusal:
        return import_page(request, form, problems=refusal.extra["problems"], status=refusal.status)
    except Conflict as refusal:
        return plan_page(request, form, problem=refusal.message, status=refusal.status)


def plan_page(
    request: HttpRequest, form: CatalogueFileForm, *, problem: str = "", status: int = 200
) -> HttpResponse:
    wanted = form.cleaned_data
    entries = entries_in(wanted["text"], wanted["name"])
    changes = services.plan_import(by=asker(request), entries=entries, prune=wanted["prune"])
    due = [change for change in changes if change.changes_something]
    page = {
        "wanted": wanted,
        "changes": due,
        "same": len(changes) - len(due),
        "seen": digest_of(changes),
        "problem": problem,
    }
    return render(request, "claims/catalogue_plan.html", page, status=status)


def import_page(
    request: HttpRequest, form: CatalogueFileForm, *, problems: list[str] | None = None, status: int = 200
) -> HttpResponse:
    page: dict[str, Any] = {"form": form, "problems": problems or []}
    return render(request, "claims/catalogue_import.html", page, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def presets_page(request: HttpRequest) -> HttpResponse:
    """The presets with what of them the clusters have; on POST those that are ticked are added."""
    require_admin(request)
    if request.method == "POST":
        ticked = set(request.POST.getlist("preset"))
        wanted = [entry for entry in presets() if entry.slug in ticked]
        if wanted:
            added = services.add_profiles(by=asker(request), entries=wanted)
            said = ngettext("%(n)d profile is added.", "%(n)d profiles are added.", len(added))
            messages.success(request, said % {"n": len(added)})
            return redirect("claims:profiles")
        messages.error(request, _("Tick the presets that you want to add."))
    rows = [(one, cautions(one.entry.spec)) for one in served()]
    page = {"rows": rows, "missing": sum(not one.is_there for one, _said in rows)}
    return render(request, "claims/presets.html", page, status=422 if request.method == "POST" else 200)
