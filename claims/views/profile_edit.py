"""The editor of the catalogue: fields or YAML, what saving would change, and saving; for platform admins."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from claims import services
from claims.catalogue.lint import catalogue_report
from claims.catalogue.profile_change import between, held, opens, proposed
from claims.forms import ProfileForm
from claims.forms.outside import outside_fields
from claims.forms.profile import CONDITIONS, FIELDS, YAML, switched
from claims.forms.selectors import read
from claims.models import Delivery, Profile
from claims.services.profiles import LIMITS, problems_of
from claims.views.profile_match import match_page, spec_of
from claims.views.profiles import require_admin, versions_page
from core.errors import Conflict, PortalError
from dra.objects import Json
from inventory.models import DeviceClass
from teams.access import asker

ONLY_FORM = {"source", "spec_yaml", *CONDITIONS}
STEPS = {"csrfmiddlewaretoken", "base", "confirm", "edit", "switch", "check"}  # not fields of the form


@require_http_methods(["GET", "HEAD", "POST"])
def profile_new(request: HttpRequest) -> HttpResponse:
    require_admin(request)
    return edit(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_edit(request: HttpRequest, slug: str) -> HttpResponse:
    require_admin(request)
    profiles = Profile.objects.select_related("current__created_by")
    return edit(request, get_object_or_404(profiles, slug=slug))


def edit(request: HttpRequest, found: Profile | None) -> HttpResponse:
    """
    Show the form, the same the other way (`switch`), check it without JavaScript (`check`), go back to it
    from the question whether to save (`edit`), or save; nothing that was typed is lost on any of these ways.
    """
    if request.method != "POST":
        return editor(request, ProfileForm(profile=found), found)
    form = ProfileForm(request.POST, profile=found)
    if to := request.POST.get("switch"):
        other = switched(form, YAML if to == YAML else FIELDS)
        if other is None:
            return editor(request, form, found, status=422)
        turned = ProfileForm(profile=found, initial=other)
        return editor(request, turned, found, described=spec_of(form))
    if "check" in request.POST:
        return editor(request, form, found)
    if not form.is_valid():
        return editor(request, form, found, status=200 if "edit" in request.POST else 422)
    fields = fields_of(form)
    limits = {name: fields[name] for name in LIMITS}
    problems = problems_of(fields["slug"], fields["title"], fields["spec"], limits)
    if problems or "edit" in request.POST:
        for problem in problems:
            form.add_error(None, problem)
        return editor(request, form, found, status=200 if "edit" in request.POST else 422)
    if found and found.current and "confirm" not in request.POST:
        page = confirm_page(request, found, fields)
        if page["difference"]:
            return render(request, "claims/profile_confirm.html", page, status=409 if page["theirs"] else 200)
    return save(request, form, found, fields)


def save(
    request: HttpRequest, form: ProfileForm, found: Profile | None, fields: dict[str, Any]
) -> HttpResponse:
    """Save; where somebody else has saved a version meanwhile, show both and ask again: 409."""
    base = base_of(request)
    try:
        version = services.save_profile(by=asker(request), profile=found, base=base, **fields)
    except Conflict as refusal:
        if found is None or "current" not in refusal.extra:
            form.add_error(None, refusal.message)
            return editor(request, form, found, status=refusal.status)
        found.refresh_from_db()
        page = confirm_page(request, found, fields) | {"refusal": refusal.message}
        return render(request, "claims/profile_confirm.html", page, status=refusal.status)
    except PortalError as refusal:
        for problem in refusal.extra.get("problems", [refusal.message]):
            form.add_error(None, problem)
        return editor(request, form, found, status=refusal.status)
    values = {"profile": version.profile, "number": version.number}
    messages.success(request, _("%(profile)s is saved; its version is %(number)d.") % values)
    return redirect("claims:profile_edit", version.profile.slug)


def confirm_page(request: HttpRequest, found: Profile, fields: dict[str, Any]) -> dict[str, Any]:
    """
    Return what is asked before a version is saved: how it differs from the current one, and on which versions
    claims live. `theirs` is what somebody else has saved since the form was opened.
    """
    current = found.current
    assert current is not None  # a profile without a version is saved without asking  # noqa: S101
    read_then = found.versions.filter(number=base_of(request) or current.number).first() or current
    before, after = opens(found, fields["teams"])
    lives = held(found)
    return {
        "profile": found,
        "current": current,
        "number": current.number + 1,
        "names": (f"v{current.number}", f"v{current.number + 1}"),
        "their_names": (f"v{read_then.number}", f"v{current.number}"),
        "difference": proposed(current, fields["spec"], {name: fields[name] for name in LIMITS}),
        "theirs": between(read_then, current) if read_then != current else None,
        "read_then": read_then,
        "opens": (before, after) if before != after else None,
        "held": lives,
        "waiting": sum(one.waiting for one in lives),
        "typed": [
            (name, value) for name, values in request.POST.lists() if name not in STEPS for value in values
        ],
    }


def editor(
    request: HttpRequest,
    form: ProfileForm,
    found: Profile | None,
    *,
    status: int = 200,
    described: tuple[Json | None, list[str]] | None = None,
) -> HttpResponse:
    """`described` is the spec that is being written, and what is wrong; left out, the form says it."""
    described = described or described_by(form, found)
    page = editor_page(form, found, described[0]) | match_page(described, request.POST)
    page["base"] = base_of(request) or (found.current.number if found and found.current else None)
    return render(request, "claims/profile_edit.html", page, status=status)


def editor_page(form: ProfileForm, found: Profile | None, spec: Json | None) -> dict[str, Any]:
    classes = (
        DeviceClass.objects.filter(gone_at=None).order_by("name").values_list("name", flat=True).distinct()
    )
    shown = spec is not None and read(spec) is not None
    page: dict[str, Any] = {
        "form": form,
        "profile": found,
        "classes": classes,
        "as_yaml": form["source"].value() == YAML,
        "outside": outside_fields(spec) if spec is not None and shown else [],
    }
    return page | (versions_page(found) | {"findings": catalogue_report().of(found)} if found else {})


def described_by(form: ProfileForm, found: Profile | None) -> tuple[Json | None, list[str]]:
    """Return the spec that is being written, or that of the current version; None, and why, if none."""
    if form.is_bound:
        return spec_of(form)
    return (found.current.spec if found and found.current else None), []


def fields_of(form: ProfileForm) -> dict[str, Any]:
    """Return what the service takes: the specification instead of the two ways to write it."""
    fields = {name: value for name, value in form.cleaned_data.items() if name not in ONLY_FORM}
    return fields | {"deliveries": [one for one in Delivery.values if one in fields["deliveries"]]}


def base_of(request: HttpRequest) -> int | None:
    """Return the number of the version with which the form was opened."""
    text = request.POST.get("base", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
