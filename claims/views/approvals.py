"""The inbox of those who decide: the list, the card of one request for a claim, and the two answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from claims import services
from claims.access import claim_for
from claims.approval.approvals import Desk, decision_on, stage_of
from claims.approval.inbox import Item
from claims.approval.reasons import reasons_for
from claims.forms import ApproveForm, DenyForm
from claims.models import Claim
from claims.request.alternatives import again_url, standing_of
from claims.states import LOOK, ClaimState
from claims.views import asks
from claims.views.impact import impact_of
from claims.views.inbox import as_csv, list_of
from claims.views.talk import thread_of
from core.errors import Conflict, PortalError
from teams.access import asker


@require_safe
def approvals(request: HttpRequest) -> HttpResponseBase:
    """The list, and on wide screens the card of what has waited longest."""
    if request.GET.get("format") == "csv":
        return as_csv(request)
    page = list_of(request)
    card = first_card(request, page["rows"][0]) if page["rows"] else {}
    return render(request, "claims/approvals.html", page | card | {"on_list": True})


def first_card(request: HttpRequest, item: Item) -> dict[str, Any]:
    if item.kind == "claim":
        return card_of(request, claim_for(request, item.pk))
    if item.kind == "extension":
        return asks.extension_card(request, item.pk)
    return asks.quota_request_card(request, item.pk)


@require_safe
def approval(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = claim_for(request, claim_id)
    return render(request, "claims/approvals.html", list_of(request) | card_of(request, claim))


@require_POST
def approve(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Approve what the card showed: the spec hash travels with the form."""
    claim, form = claim_for(request, claim_id), ApproveForm(request.POST)
    if not form.is_valid():
        return card_again(request, claim, status=422, note_errors=form.errors.get("note"))
    try:
        claim = services.approve(
            claim=claim,
            by=asker(request),
            spec_hash=form.cleaned_data["spec_hash"],
            note=form.cleaned_data["note"],
        )
    except Conflict as refusal:
        return card_again(request, claim, refusal=refusal, status=refusal.status)
    messages.success(request, said_of(claim))
    return redirect("claims:approvals")


def said_of(claim: Claim) -> str:
    """Say what an approval has come to."""
    if claim.state == ClaimState.REQUESTED:
        return _("You consented to %(claim)s; a platform admin decides now.") % {"claim": claim}
    return _("%(claim)s is approved; the portal writes the object now.") % {"claim": claim}


@require_POST
def deny(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Say no; without a reason the card comes back and asks for one."""
    claim, form = claim_for(request, claim_id), DenyForm(request.POST)
    if not form.is_valid():
        return card_again(request, claim, status=422, note_errors=form.errors.get("note"))
    try:
        services.deny(claim=claim, by=asker(request), reason=form.cleaned_data["note"])
    except Conflict as refusal:
        return card_again(request, claim, refusal=refusal, status=refusal.status)
    messages.success(request, _("%(claim)s is denied.") % {"claim": claim})
    return redirect("claims:approvals")


def card_again(
    request: HttpRequest,
    claim: Claim,
    *,
    status: int,
    refusal: PortalError | None = None,
    note_errors: Iterable[object] | None = None,
) -> HttpResponse:
    claim = claim_for(request, claim.pk)
    said = {"refusal": refusal, "note_errors": note_errors, "note": request.POST.get("note", "")}
    page = list_of(request) | card_of(request, claim) | said
    return render(request, "claims/approvals.html", page, status=status)


def card_of(request: HttpRequest, claim: Claim) -> dict[str, Any]:
    """Return what the card shows: who asks for what, what it does to others, whether this reader decides."""
    waiting = claim.state == ClaimState.REQUESTED
    family, icon = LOOK[claim.state]
    total = claim.devices * claim.parallel
    user = asker(request)
    desk = Desk(user, [claim.team])
    _stage, consent = stage_of(claim, desk.rules.on(claim))
    values = {"n": total}
    return {
        "card": "claims/_card.html",
        "current": claim.pk,
        "title": claim.name,
        "claim": claim,
        "look": {"family": family, "icon": icon},
        "impact": impact_of(claim) if waiting else None,
        "decision": None if waiting else decision_on(claim),
        "reason_not": desk.reason_not_to_decide(claim) if waiting else "",
        "instead": desk.in_place_of(claim),
        "consent": consent,
        "waiting": waiting,
        "total": total,
        "reasons": reasons_for(claim.team) if waiting else [],
        "again_url": again_url(claim, standing_of(claim, ()))
        if user.pk == claim.requested_by_id and not waiting
        else "",
        "approve_label": ngettext("Approve %(n)d device", "Approve %(n)d devices", total) % values,
        **thread_of(claim, user),
    }
