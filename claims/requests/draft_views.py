"""Pages of drafts: a request that was typed and not sent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.db.models import F, OuterRef, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from claims.access import may_request, require_member
from claims.models import Draft, Profile
from claims.requests.forms import RequestForm
from claims.requests.services import delete_draft, open_drafts, save_draft
from core import undo
from core.listing import Column, Listing
from teams.access import user_of

DRAFT_FIELDS = (*RequestForm.base_fields, "together_devices")  # the form fields that a draft saves
UNSENT_KEY, DELETED_KEY = "unsent_request", "deleted_draft"  # in the session


def typed_fields(data: QueryDict) -> dict[str, list[str]]:
    """Return the typed fields, without empty ones and without the key."""
    return {name: data.getlist(name) for name in DRAFT_FIELDS if name != "key" and any(data.getlist(name))}


def draft_query(draft: Draft) -> QueryDict:
    """Return a draft as the query that fills the form with it."""
    data = QueryDict(mutable=True)
    for name, texts in draft.fields.items():
        if name in DRAFT_FIELDS:
            data.setlist(name, texts)
    data["key"] = draft.key
    return data


@login_not_required
@require_POST
def draft_save(request: HttpRequest) -> HttpResponse:
    """
    Save the typed fields and open the form again; nothing else saves a draft.

    If the session has ended, the fields are restored after signing in.
    """
    if not request.user.is_authenticated:
        keep_in_session(request)
        return redirect_to_login(reverse("claims:request"))
    user, key = require_member(request), request.POST.get("key", "")
    draft = save_draft(by=user, key=key, fields=typed_fields(request.POST))
    return redirect(draft_url(draft) if draft else reverse("claims:list"))


def keep_in_session(request: HttpRequest) -> None:
    """
    Save in the session the fields that were sent after the session had ended; `whose` is the former user.

    Only the same user gets them back (`restore_from_session`).
    """
    typed = typed_fields(request.POST)
    if sum(len(text) for texts in typed.values() for text in texts) > 4000:  # more than the form can send
        return
    request.session[UNSENT_KEY] = {
        "whose": request.POST.get("whose", ""),
        "key": request.POST.get("key", "")[:80],
        "fields": typed,
    }


def restore_from_session(request: HttpRequest) -> Draft | None:
    """Save the fields that `keep_in_session` kept as a draft; None if there are none for this user."""
    unsent: dict[str, Any] | None = request.session.pop(UNSENT_KEY, None)
    if unsent is None or unsent["whose"] != str(request.user.pk) or not unsent["key"]:
        return None
    return save_draft(by=user_of(request), key=unsent["key"], fields=unsent["fields"])


def draft_url(draft: Draft) -> str:
    return f"{reverse('claims:request')}?draft={draft.pk}"


def draft_profiles(draft: Any) -> str:
    """Return the profiles of a draft: "Train 80 GB + nic"; additional profiles and alternatives by slug."""
    first = draft.title or draft.slug or ""
    together, others = (draft.fields.get(name, []) for name in ("together", "alternatives"))
    return " or else ".join(filter(None, [" + ".join(filter(None, [first, *together])), *others]))


COLUMNS: list[Column[Any]] = [
    Column("profile", "Profile", draft_profiles, fixed=True),
    Column("name", "Claim name", lambda draft: draft.claim_name or ""),
    Column("devices", "Devices", lambda draft: draft.devices or "", numeric=True),
    Column("team", "Team", lambda draft: draft.team or ""),
    Column("saved", "Saved", lambda draft: draft.updated_at.isoformat(), sort=("updated_at",)),
    Column("begun", "Created", lambda draft: draft.created_at.isoformat(), sort=("created_at",)),
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
            "drafts": []
            if is_csv
            else [(draft, draft_profiles(draft)) for draft in listing.page.object_list],
            "empty_icon": "pencil",
            "empty_title": "No drafts",
            "empty_text": "Requests that you save as a draft stay here for 30 days after the last change.",
            "may_request": asks,
            "empty_url": reverse("claims:request") if asks else "",
            "empty_action": "New request",
        },
    )


@require_POST
def draft_delete(request: HttpRequest, draft_id: UUID) -> HttpResponse:
    draft = get_object_or_404(open_drafts(user_of(request)), pk=draft_id)
    request.session[DELETED_KEY] = {"key": draft.key, "fields": draft.fields}
    delete_draft(by=user_of(request), draft=draft)
    undo.offer(request, "Draft deleted.", reverse("claims:draft_restore"))
    return redirect("claims:drafts")


@require_POST
def draft_restore(request: HttpRequest) -> HttpResponse:
    """Restore the draft that was deleted last in this session."""
    deleted = request.session.pop(DELETED_KEY, None)
    if deleted:
        save_draft(by=user_of(request), key=deleted["key"], fields=deleted["fields"])
    return redirect("claims:drafts")
