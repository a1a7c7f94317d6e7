"""From a manifest back to the request form: which profile asks for the same, or how the nearest differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from claims.access import require_member
from claims.forms.manifest import ManifestForm
from claims.forms.profile import YAML
from claims.models import Approval, Delivery, Profile
from claims.request.importing import Imported, Near, imported
from core.errors import Invalid
from dra.manifests import to_yaml
from dra.quota import devices


@dataclass(frozen=True, slots=True)
class Way:
    """A profile, and the address of the form that it fills."""

    near: Near
    url: str


@dataclass(frozen=True, slots=True)
class Found:
    """One claim of the file with the ways to ask for it; `editor` are the fields of a new profile."""

    claim: Imported
    exact: list[Way]
    several_url: str  # "" where the file is not made of several profiles
    nearest: list[Way]
    editor: list[tuple[str, object]]


@require_http_methods(["GET", "HEAD", "POST"])
def request_import(request: HttpRequest) -> HttpResponse:
    """Show where to put the manifest; on POST what is found for it. Nothing is made."""
    user = require_member(request)
    if request.method != "POST":
        return render(request, "claims/request_import.html", {"form": ManifestForm()})
    form = ManifestForm(request.POST, request.FILES)
    page: dict[str, Any] = {"form": form}
    if form.is_valid():
        known = Profile.objects.visible_to(user).filter(retired_at=None, current__isnull=False)
        try:
            claims = imported(
                form.cleaned_data["manifest"], form.cleaned_data["source"], known.select_related("current")
            )
        except Invalid as refusal:
            form.add_error(None, refusal.message)
        else:
            page["found"] = [found_of(one) for one in claims]
    return render(request, "claims/request_import.html", page, status=200 if form.is_valid() else 422)


def found_of(claim: Imported) -> Found:
    return Found(
        claim,
        exact=[Way(near, form_url(claim, [near])) for near in claim.exact],
        several_url=form_url(claim, claim.several.parts) if claim.several else "",
        nearest=[Way(near, form_url(claim, [near])) for near in claim.nearest],
        editor=editor_fields(claim),
    )


def form_url(claim: Imported, parts: Sequence[Near]) -> str:
    """Return the form with these profiles, all of which the claim takes."""
    first, *others = parts
    fields: list[tuple[str, object]] = [
        ("profile", first.profile.slug),
        ("devices", first.likeness.count),
        ("delivery", claim.delivery),
    ]
    for near in others:
        fields += [("together", near.profile.slug), ("together_devices", near.likeness.count)]
    if claim.name:
        fields.append(("name", claim.name))
    return f"{reverse('claims:request')}?{urlencode(fields)}"


def editor_fields(claim: Imported) -> list[tuple[str, object]]:
    """Return what fills the editor of profiles with the spec of the file, for somebody to finish."""
    return [
        ("edit", "1"),
        ("source", YAML),
        ("spec_yaml", to_yaml(claim.spec)),
        ("slug", claim.name[:40]),
        ("title", claim.name[:80]),
        ("max_devices", devices(claim.spec) or 1),
        ("approval", Approval.LEAD.value),
        ("default_duration", "24h"),
        ("max_duration", "14d"),
        ("grace", "0h"),
        ("extension", "0h"),
        ("automatic_devices", 0),
        *(("deliveries", value) for value in Delivery.values),
    ]
