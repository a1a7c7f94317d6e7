"""Approving with changes: a form, what it would come to, and the button."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from claims import services
from claims.access import claim_for
from claims.approval.approvals import reason_not_to_decide
from claims.catalogue.kinds import DeviceKind, kinds_for
from claims.forms import ChangeForm
from claims.models import Claim
from claims.quota import quotas
from claims.quota.quotas import QuotaLine
from claims.request.changes import Change, Wanted, change_of, growth
from claims.states import ClaimState
from claims.views.approvals import said_of
from claims.views.funnel import FunnelRow, funnel_of
from core.errors import Conflict, Invalid, PortalError, QuotaExceeded
from dra import match
from inventory.picture import picture_of
from teams.access import asker


@dataclass(frozen=True)
class ChangePreview:
    """What the changed request would come to now; nothing here is a promise."""

    change: Change
    total: int  # devices of all claims together
    lines: list[QuotaLine]  # quotas of which it takes more than is reserved for the request
    match: match.Preview
    funnel: list[FunnelRow]
    kinds: frozenset[DeviceKind]


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """GET shows what the fields in the address would come to; POST approves it so."""
    claim = claim_for(request, claim_id)
    if reason := reason_not_to_decide(asker(request), claim):
        raise PermissionDenied(reason)
    if request.method == "POST":
        return approve_changed(request, claim)
    form = ChangeForm(request.GET, claim=claim)
    return page(request, claim, form)


def approve_changed(request: HttpRequest, claim: Claim) -> HttpResponse:
    form = ChangeForm(request.POST, claim=claim)
    if not form.is_valid():
        return page(request, claim, form, status=422)
    try:
        claim = services.approve_with_changes(
            claim=claim,
            by=asker(request),
            spec_hash=form.cleaned_data["spec_hash"],
            wanted=form.wanted,
            note=form.cleaned_data["note"],
        )
    except (Conflict, Invalid, QuotaExceeded) as refusal:
        return page(request, claim_for(request, claim.pk), form, refusal=refusal, status=refusal.status)
    messages.success(request, said_of(claim))
    return redirect("claims:approvals")


def page(
    request: HttpRequest,
    claim: Claim,
    form: ChangeForm,
    *,
    refusal: PortalError | None = None,
    status: int = 200,
) -> HttpResponse:
    waits = claim.state == ClaimState.REQUESTED
    preview = None
    if waits and form.is_valid() and form.wanted != Wanted():
        try:
            preview = preview_of(claim, form)
        except Conflict as error:  # the profile cannot be asked for at all
            refusal = refusal or error
    shown = {"claim": claim, "form": form, "refusal": refusal, "preview": preview, "waits": waits}
    fragment = "#preview" if request.headers.get("HX-Request") and request.method == "GET" else ""
    return render(request, f"claims/change.html{fragment}", shown, status=status)


def preview_of(claim: Claim, form: ChangeForm) -> ChangePreview:
    changed = change_of(claim, form.wanted)
    classes, profiles = growth(claim, changed)
    lines: list[QuotaLine] = []
    if classes or profiles:
        rows = quotas.rows_for(team=claim.team, charge=classes, profiles=profiles)
        lines = quotas.lines_for(rows, team=claim.team, charge=classes, profiles=profiles, claims=0)
    picture = picture_of(claim.cluster)
    found = match.preview(picture, changed.spec, claims=claim.parallel)
    return ChangePreview(
        changed,
        changed.devices * claim.parallel,
        lines,
        found,
        funnel_of(found),
        kinds_for(claim.cluster_id, picture, changed.spec),
    )
