"""The inbox of those who decide: the list, the card of one request, and the two answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from claims import services
from claims.approvals import Tab, decision_on, inbox, reason_not_to_decide
from claims.forms import ApproveForm, DenyForm
from claims.models import Claim
from claims.states import LOOK, ClaimState
from claims.views.detail import claim_for
from claims.views.impact import impact_of
from core.errors import Conflict, PortalError
from teams.access import asker

TABS: tuple[Tab, ...] = ("mine", "team", "decided")
SHOWN = 100  # rows of the list; more are counted, not drawn


@require_safe
def approvals(request: HttpRequest) -> HttpResponse:
    """The list, and on wide screens the card of the request that has waited longest."""
    rows = list_of(request)
    first = rows["rows"][0].pk if rows["rows"] else None
    card = card_of(request, claim_for(request, first)) if first else {}
    return render(request, "claims/approvals.html", rows | card | {"on_list": True})


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
        services.approve(
            claim=claim,
            by=asker(request),
            spec_hash=form.cleaned_data["spec_hash"],
            note=form.cleaned_data["note"],
        )
    except Conflict as refusal:
        return card_again(request, claim, refusal=refusal, status=refusal.status)
    messages.success(
        request, _("%(claim)s is approved; the portal writes the object now.") % {"claim": claim}
    )
    return redirect("claims:approvals")


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
    claim.refresh_from_db(
        fields=["state", "state_since", "version", "spec", "spec_hash", "decided_at", "decision_note"]
    )
    said = {"refusal": refusal, "note_errors": note_errors, "note": request.POST.get("note", "")}
    page = list_of(request) | card_of(request, claim) | said
    return render(request, "claims/approvals.html", page, status=status)


def list_of(request: HttpRequest) -> dict[str, Any]:
    """Return the rows of the chosen tab and how many each tab has."""
    user = asker(request)
    chosen: Tab = next((tab for tab in TABS if tab == request.GET.get("tab")), "mine")
    waiting = {tab: inbox(user, tab).count() for tab in ("mine", "team")}
    titles = {"mine": _("Mine"), "team": _("All waiting"), "decided": _("Decided")}
    return {
        "tab": chosen,
        "tabs": [(tab, titles[tab], waiting.get(tab)) for tab in TABS],
        "rows": list(inbox(user, chosen).for_list()[:SHOWN]),
        "left_out": max(waiting.get(chosen, 0) - SHOWN, 0),
    }


def card_of(request: HttpRequest, claim: Claim) -> dict[str, Any]:
    """Return what the card shows: who asks for what, what it does to others, whether this reader decides."""
    waiting = claim.state == ClaimState.REQUESTED
    family, icon = LOOK[claim.state]
    total = claim.devices * claim.parallel
    values = {"n": total}
    return {
        "claim": claim,
        "look": {"family": family, "icon": icon},
        "impact": impact_of(claim) if waiting else None,
        "decision": None if waiting else decision_on(claim),
        "reason_not": reason_not_to_decide(asker(request), claim) if waiting else "",
        "waiting": waiting,
        "total": total,
        "approve_label": ngettext("Approve %(n)d device", "Approve %(n)d devices", total) % values,
    }
