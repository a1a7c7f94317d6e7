"""Pages of drafts, and of a manifest read into the form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.db.models import F, OuterRef, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.access import may_request, require_member
from claims.catalogue.forms import YAML
from claims.models import Approval, Delivery, Draft, Profile
from claims.requests.forms import ManifestForm, RequestForm
from claims.requests.manifest_import import Imported, Near, imported
from claims.requests.services import delete_draft, open_drafts, save_draft
from core import undo
from core.errors import Invalid
from core.listing import Column, Listing
from dra.manifests import to_yaml
from dra.quota import devices
from teams.access import user_of

TYPED = (*RequestForm.base_fields, "together_devices")  # what a draft keeps of what the form sends
UNSENT, DELETED = "unsent_request", "deleted_draft"  # in the session


def fields_of(data: QueryDict) -> dict[str, list[str]]:
    """Return what was typed, without fields that are empty and without the key."""
    return {name: data.getlist(name) for name in TYPED if name != "key" and any(data.getlist(name))}


def prefill_of(draft: Draft) -> QueryDict:
    """Return a draft as the address that would fill the form the same."""
    data = QueryDict(mutable=True)
    for name, texts in draft.fields.items():
        if name in TYPED:
            data.setlist(name, texts)
    data["key"] = draft.key
    return data


@login_not_required
@require_POST
def draft_save(request: HttpRequest) -> HttpResponse:
    """
    Keep what is typed. Answers htmx with a word beside the button; without it the form opens again.

    Somebody whose session has ended meanwhile finds it after signing in.
    """
    if not request.user.is_authenticated:
        remember(request)
        if request.headers.get("HX-Request"):
            return render(request, "claims/requests/_draft_said.html", {"signed_out": True})
        return redirect_to_login(reverse("claims:request"))
    key = request.POST.get("key", "")
    draft = save_draft(by=require_member(request), key=key, fields=fields_of(request.POST))
    if not request.headers.get("HX-Request"):
        return redirect(address_of(draft) if draft else reverse("claims:list"))
    answer = render(request, "claims/requests/_draft_said.html", {"draft": draft})
    if draft is not None:
        answer["HX-Replace-Url"] = address_of(draft)  # so that loading the page again shows the draft
    return answer


def remember(request: HttpRequest) -> None:
    """
    Keep in the session what somebody sent whose own session has ended; `whose` is who they were.

    Only the same person gets it back (`take_over`).
    """
    typed = fields_of(request.POST)
    if sum(len(text) for texts in typed.values() for text in texts) > 4000:  # more than the form takes
        return
    request.session[UNSENT] = {
        "whose": request.POST.get("whose", ""),
        "key": request.POST.get("key", "")[:80],
        "fields": typed,
    }


def take_over(request: HttpRequest) -> Draft | None:
    """Make a draft of what was sent while nobody was signed in; None if there is nothing."""
    kept: dict[str, Any] | None = request.session.pop(UNSENT, None)
    if kept is None or kept["whose"] != str(request.user.pk) or not kept["key"]:
        return None
    return save_draft(by=user_of(request), key=kept["key"], fields=kept["fields"])


def address_of(draft: Draft) -> str:
    return f"{reverse('claims:request')}?draft={draft.pk}"


def profiles_in(draft: Any) -> str:
    """Return what a draft asks for so far: "Train 80 GB + nic"; the further profiles by their slugs."""
    first = draft.title or draft.slug or ""
    together, others = (draft.fields.get(name, []) for name in ("together", "alternatives"))
    return " or else ".join(filter(None, [" + ".join(filter(None, [first, *together])), *others]))


COLUMNS: list[Column[Any]] = [
    Column("profile", "Profile", profiles_in, fixed=True),
    Column("name", "Claim name", lambda draft: draft.claim_name or ""),
    Column("devices", "Devices", lambda draft: draft.devices or "", numeric=True),
    Column("team", "Team", lambda draft: draft.team or ""),
    Column("saved", "Saved", lambda draft: draft.updated_at.isoformat(), sort=("updated_at",)),
    Column("begun", "Begun", lambda draft: draft.created_at.isoformat(), sort=("created_at",)),
]


@require_safe
def drafts(request: HttpRequest) -> HttpResponseBase:
    user = user_of(request)

    def typed(name: str) -> Any:
        return KeyTextTransform("0", KeyTransform(name, F("fields")))

    visible = Profile.objects.visible_to(user).filter(retired_at=None, slug=OuterRef("slug"))
    rows = open_drafts(user).annotate(
        slug=typed("profile"),
        devices=typed("devices"),
        claim_name=typed("name"),
        team=typed("team"),
        reason=typed("reason"),
        title=Subquery(visible.values("title")[:1]),
    )
    listing = Listing(request, rows, columns=COLUMNS, title="Drafts", sort="-saved")
    is_csv = request.GET.get("format") == "csv"
    asks = may_request(request)
    return listing.respond(
        "claims/requests/drafts.html",
        {
            "drafts": [] if is_csv else [(draft, profiles_in(draft)) for draft in listing.page.object_list],
            "empty_icon": "pencil",
            "empty_title": "No drafts",
            "empty_text": "What you type into a request is kept here until you send it, for up to 30 days.",
            "may_request": asks,
            "empty_url": reverse("claims:request") if asks else "",
            "empty_action": "New request",
        },
    )


@require_POST
def draft_delete(request: HttpRequest, draft_id: UUID) -> HttpResponse:
    draft = get_object_or_404(open_drafts(user_of(request)), pk=draft_id)
    request.session[DELETED] = {"key": draft.key, "fields": draft.fields}
    delete_draft(by=user_of(request), draft=draft)
    undo.offer(request, "The draft is deleted.", reverse("claims:draft_restore"))
    return redirect("claims:drafts")


@require_POST
def draft_restore(request: HttpRequest) -> HttpResponse:
    """Bring back the draft that was deleted last in this session."""
    kept = request.session.pop(DELETED, None)
    if kept:
        save_draft(by=user_of(request), key=kept["key"], fields=kept["fields"])
    return redirect("claims:drafts")


@dataclass(frozen=True, slots=True)
class ImportOption:
    """A profile, and the address of the form that it fills."""

    near: Near
    url: str


@dataclass(frozen=True, slots=True)
class ImportedClaim:
    """One claim of the file with the ways to ask for it; `editor` are the fields of a new profile."""

    claim: Imported
    exact: list[ImportOption]
    several_url: str  # "" where the file is not made of several profiles
    nearest: list[ImportOption]
    editor: list[tuple[str, object]]


@require_http_methods(["GET", "HEAD", "POST"])
def request_import(request: HttpRequest) -> HttpResponse:
    """Show where to put the manifest; on POST what is found for it. Nothing is made."""
    user = require_member(request)
    if request.method != "POST":
        return render(request, "claims/requests/request_import.html", {"form": ManifestForm()})
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
    return render(
        request, "claims/requests/request_import.html", page, status=200 if form.is_valid() else 422
    )


def found_of(claim: Imported) -> ImportedClaim:
    return ImportedClaim(
        claim,
        exact=[ImportOption(near, form_url(claim, [near])) for near in claim.exact],
        several_url=form_url(claim, claim.several.parts) if claim.several else "",
        nearest=[ImportOption(near, form_url(claim, [near])) for near in claim.nearest],
        editor=editor_fields(claim),
    )


def form_url(claim: Imported, parts: Sequence[Near]) -> str:
    """Return the form with these profiles, all of which the claim takes."""
    first, *others = parts
    fields: list[tuple[str, object]] = [
        ("profile", first.profile.slug),
        ("devices", first.similarity.count),
        ("delivery", claim.delivery),
    ]
    for near in others:
        fields += [("together", near.profile.slug), ("together_devices", near.similarity.count)]
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
