"""Reasons to deny, ready to use: list, form, and removing one; for leads and platform admins."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from claims import services
from claims.approval.reasons import kept_by, usual
from claims.forms.reason import ReasonForm
from claims.models import ReasonTemplate
from core.errors import Invalid
from core.listing import Column, Listing
from teams.access import asker, is_platform_admin, teams_where
from teams.models import Role, Team

COLUMNS: list[Column[ReasonTemplate]] = [
    Column("title", gettext_lazy("Title"), lambda reason: reason.title, sort="title", fixed=True),
    Column("team", gettext_lazy("Offered in"), lambda reason: reason.team or _("every team"), "team__slug"),
    Column("text", gettext_lazy("Text"), lambda reason: reason.text),
]


def led_by(request: HttpRequest) -> list[Team]:
    """Return the teams whose reasons the reader keeps; 403 for who leads none."""
    teams = teams_where(request.user, at_least=Role.LEAD)
    if not teams and not is_platform_admin(request.user):
        raise PermissionDenied(_("Only leads and platform admins keep reasons."))
    return teams


@require_safe
def reasons(request: HttpRequest) -> HttpResponseBase:
    led_by(request)
    listing = Listing(
        request,
        kept_by(asker(request)).select_related("team"),
        columns=COLUMNS,
        title=gettext_lazy("Reasons to deny"),
        search=("title", "text", "team__slug"),
        sort="title",
    )
    empty = {
        "usual": usual(),
        "empty_icon": "note",
        "empty_title": _("No reasons of your own"),
        "empty_text": _("0 reasons were written; those below are offered everywhere."),
    }
    return listing.respond("claims/reasons.html", empty)


@require_http_methods(["GET", "HEAD", "POST"])
def reason(request: HttpRequest, reason_id: int | None = None) -> HttpResponse:
    """Make or change a reason."""
    teams, found = led_by(request), None
    if reason_id:
        found = get_object_or_404(kept_by(asker(request)).select_related("team"), pk=reason_id)
    fields: dict[str, Any] = {"teams": teams, "everybody": is_platform_admin(request.user), "reason": found}
    form = ReasonForm(request.POST if request.method == "POST" else None, **fields)
    if request.method == "POST" and form.is_valid():
        try:
            saved = services.save_reason(by=asker(request), reason=found, **form.cleaned_data)
        except Invalid as refusal:
            form.add_error(None, refusal.message)
        else:
            messages.success(request, _("“%(title)s” is saved.") % {"title": saved.title})
            return redirect("claims:reasons")
    page = {"form": form, "reason": found, "name": found.title if found else _("New reason")}
    return render(request, "claims/reason.html", page, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def reason_remove(request: HttpRequest, reason_id: int) -> HttpResponse:
    """Say what removing does, and do it."""
    led_by(request)
    found = get_object_or_404(kept_by(asker(request)).select_related("team"), pk=reason_id)
    if request.method == "POST":
        services.remove_reason(by=asker(request), reason=found)
        messages.success(request, _("“%(title)s” is removed.") % {"title": found.title})
        return redirect("claims:reasons")
    return render(request, "claims/reason_remove.html", {"reason": found})
