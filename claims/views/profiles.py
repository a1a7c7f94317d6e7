"""The editor of the catalogue, for platform admins, and the page of one profile, for all who may see it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from claims import services
from claims.forms import ProfileForm
from claims.lint import catalogue_report
from claims.models import Profile
from claims.states import FINAL
from claims.views.profile_match import match_page, spec_of
from core.errors import PortalError
from dra.manifests import to_yaml
from dra.objects import Json
from inventory.models import DeviceClass
from teams.access import asker, is_platform_admin


def require_admin(request: HttpRequest) -> None:
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only a platform admin edits the catalogue."))


@require_safe
def profiles(request: HttpRequest) -> HttpResponse:
    """Every profile, retired ones last, with how many claims live on it."""
    require_admin(request)
    live = Count("versions__claims", filter=~Q(versions__claims__state__in=FINAL), distinct=True)
    rows = Profile.objects.select_related("current").annotate(
        live=live, made=Count("versions", distinct=True)
    )
    return render(
        request,
        "claims/profiles.html",
        {
            "profiles": rows.order_by(F("retired_at").desc(nulls_first=True), "title"),
            "report": catalogue_report(),
        },
    )


@require_safe
def profile(request: HttpRequest, slug: str) -> HttpResponse:
    """What a profile asks of the cluster, in full: its specification and its versions."""
    found = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    page = {"profile": found, "version": found.current, "is_admin": is_platform_admin(request.user)}
    return render(request, "claims/profile.html", page | versions_page(found))


@require_http_methods(["GET", "HEAD", "POST"])
def profile_new(request: HttpRequest) -> HttpResponse:
    require_admin(request)
    return edit(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_edit(request: HttpRequest, slug: str) -> HttpResponse:
    require_admin(request)
    return edit(request, get_object_or_404(Profile.objects.select_related("current"), slug=slug))


@require_http_methods(["GET", "HEAD", "POST"])
def profile_retire(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask on GET, with how many claims keep running on it; retire on POST."""
    require_admin(request)
    found = get_object_or_404(Profile, slug=slug)
    if request.method == "POST":
        services.retire_profile(by=asker(request), profile=found)
        messages.success(
            request, _("%(profile)s is retired; nobody can ask for it any more.") % {"profile": found}
        )
        return redirect("claims:profiles")
    live = found.versions.filter(~Q(claims__state__in=FINAL), claims__isnull=False).count()
    return render(request, "claims/profile_retire.html", {"profile": found, "live": live})


def edit(request: HttpRequest, found: Profile | None) -> HttpResponse:
    """
    Show, check without JavaScript (`check`), or save; what the service refuses stands above the form, and
    nothing that was typed is lost.
    """
    form = ProfileForm(request.POST if request.method == "POST" else None, profile=found)
    status = 200
    if request.method == "POST" and "check" not in request.POST:
        status = 422
        if form.is_valid():
            try:
                version = services.save_profile(
                    by=asker(request), profile=found, **fields_of(form.cleaned_data)
                )
            except PortalError as refusal:
                status = refusal.status
                for problem in refusal.extra.get("problems", [refusal.message]):
                    form.add_error(None, problem)
            else:
                values = {"profile": version.profile, "number": version.number}
                messages.success(request, _("%(profile)s is saved; its version is %(number)d.") % values)
                return redirect("claims:profile_edit", version.profile.slug)
    page = editor_page(form, found) | match_page(described_by(form, found), request.POST)
    return render(request, "claims/profile_edit.html", page, status=status)


def described_by(form: ProfileForm, found: Profile | None) -> tuple[Json | None, list[str]]:
    """Return the spec that is being written, or that of the current version; None, and why, if none."""
    if form.is_bound:
        return spec_of(form)
    return (found.current.spec if found and found.current else None), []


def fields_of(cleaned: dict[str, Any]) -> dict[str, Any]:
    """Return what the service takes: the specification instead of the two ways to write it."""
    only_form = {"source", "device_class", "count", "domain", "product", "memory_gib", "compute", "spec_yaml"}
    return {name: value for name, value in cleaned.items() if name not in only_form}


def editor_page(form: ProfileForm, found: Profile | None) -> dict[str, Any]:
    classes = (
        DeviceClass.objects.filter(gone_at=None).order_by("name").values_list("name", flat=True).distinct()
    )
    page: dict[str, Any] = {"form": form, "profile": found, "classes": classes}
    return page | (versions_page(found) | {"findings": catalogue_report().of(found)} if found else {})


def versions_page(found: Profile) -> dict[str, Any]:
    """Return every version, newest first, and the current specification as YAML."""
    spec = found.current.spec if found.current else {}
    versions = found.versions.select_related("created_by").annotate(used=Count("claims"))
    return {
        "versions": versions,
        "spec_yaml": to_yaml(spec) if spec else "",
    }
