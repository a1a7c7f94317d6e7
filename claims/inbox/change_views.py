"""Approve with changes, and decide on several requests at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from claims.access import visible_claim
from claims.approvals import decide
from claims.approvals.authority import reason_not_to_decide
from claims.approvals.forms import ApproveForm, ChangeForm, DenyForm
from claims.approvals.services import reasons_for
from claims.catalogue.listing import DeviceKind, kinds_for
from claims.inbox import bulk as several
from claims.inbox.bulk import DecisionPreview, preview, together
from claims.inbox.impact import Impact, impact_of
from claims.inbox.inbox import Inbox, ItemKind
from claims.inbox.views import said_of
from claims.match_page import FunnelRow, funnel_rows
from claims.models import Claim
from claims.observation.observations import valid_ids as ids_of
from claims.plans.changes import RequestChange, WantedChange, additional_usage, plan_change
from claims.quotas import usage
from claims.quotas.usage import QuotaLine
from claims.states import ClaimState
from core.errors import Conflict, Invalid, PortalError, QuotaExceeded
from dra import match
from inventory.cluster_snapshot import current_snapshot
from teams.access import user_of


@dataclass(frozen=True)
class ChangePreview:
    """What the changed request would come to now; nothing here is a promise."""

    change: RequestChange
    total: int  # devices of all claims together
    lines: list[QuotaLine]  # quotas of which it takes more than is reserved for the request
    match: match.Preview
    funnel: list[FunnelRow]
    kinds: frozenset[DeviceKind]


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """GET shows what the fields in the address would come to; POST approves it so."""
    claim = visible_claim(request, claim_id)
    if reason := reason_not_to_decide(user_of(request), claim):
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
        claim = decide.approve_with_changes(
            claim=claim,
            by=user_of(request),
            spec_hash=form.cleaned_data["spec_hash"],
            wanted=form.wanted,
            note=form.cleaned_data["note"],
        )
    except (Conflict, Invalid, QuotaExceeded) as refusal:
        return page(request, visible_claim(request, claim.pk), form, refusal=refusal, status=refusal.status)
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
    if waits and form.is_valid() and form.wanted != WantedChange():
        try:
            preview = preview_of(claim, form)
        except Conflict as error:  # the profile cannot be asked for at all
            refusal = refusal or error
    shown = {"claim": claim, "form": form, "refusal": refusal, "preview": preview, "waits": waits}
    fragment = "#preview" if request.headers.get("HX-Request") and request.method == "GET" else ""
    return render(request, f"claims/inbox/change.html{fragment}", shown, status=status)


def preview_of(claim: Claim, form: ChangeForm) -> ChangePreview:
    changed = plan_change(claim, form.wanted)
    classes, profiles = additional_usage(claim, changed)
    lines: list[QuotaLine] = []
    if classes or profiles:
        rows = usage.charged_quotas(team=claim.team, charge=classes, profiles=profiles)
        lines = usage.quota_lines(rows, team=claim.team, charge=classes, profiles=profiles, claims=0)
    snapshot = current_snapshot(claim.cluster)
    found = match.preview(snapshot, changed.spec, claims=claim.parallel)
    return ChangePreview(
        changed,
        changed.devices * claim.parallel,
        lines,
        found,
        funnel_rows(found),
        kinds_for(claim.cluster_id, snapshot, changed.spec),
    )


KINDS: tuple[ItemKind, ...] = ("claim", "extension", "quota")


@dataclass(frozen=True)
class ChosenItem:
    """One chosen wish; `impact` is of a claim that this reader may decide on."""

    line: DecisionPreview
    impact: Impact | None


@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    """GET shows every chosen wish with what it does now; POST decides on each, bound to what was shown."""
    inbox = Inbox(user_of(request))
    said = request.POST if request.method == "POST" else request.GET
    try:
        wishes = several.chosen(inbox, chosen_ids(said))
    except Invalid as refusal:
        return render(request, "claims/inbox/bulk.html", {"refusal": refusal}, status=refusal.status)
    if request.method == "POST":
        return decide_all(request, inbox, wishes)
    return render(request, "claims/inbox/bulk.html", page_of(inbox, wishes))


def chosen_ids(said: QueryDict) -> dict[ItemKind, list[UUID]]:
    """Return the ids of each kind; what is no id is left out."""
    return {kind: list(dict.fromkeys(ids_of(said.getlist(kind)))) for kind in KINDS}


def page_of(inbox: Inbox, wishes: several.Chosen) -> dict[str, Any]:
    lines = preview(inbox, wishes)
    ready = [line for line in lines if not line.reason_not]
    teams = {line.item.team for line in ready}
    claims = [line.wish for line in ready if isinstance(line.wish, Claim)]
    return {
        "rows": [ChosenItem(line, impact_of_line(line)) for line in lines],
        "ready": len(ready),
        "devices": sum(claim.devices * claim.parallel for claim in claims),
        "sums": together(lines),
        "reasons": reasons_for(teams.pop() if len(teams) == 1 else None) if ready else [],
    }


def impact_of_line(line: DecisionPreview) -> Impact | None:
    if line.reason_not or not isinstance(line.wish, Claim):
        return None
    return impact_of(line.wish)


def decide_all(request: HttpRequest, inbox: Inbox, wishes: several.Chosen) -> HttpResponse:
    """Decide on each by itself: one that cannot be does not keep the others from it."""
    if not list(wishes):  # what somebody may not know of is not among them
        return render(request, "claims/inbox/bulk.html", page_of(inbox, wishes), status=422)
    answer = request.POST.get("answer")
    denies = answer == several.Decision.DENY
    form = DenyForm(request.POST) if denies else ApproveForm({**request.POST.dict(), "spec_hash": "each"})
    if not form.is_valid() or answer not in several.Decision.values:
        page = page_of(inbox, wishes) | {"note": request.POST.get("note", "")}
        page["note_errors"] = form.errors.get("note") or ["Choose whether to approve or to deny."]
        return render(request, "claims/inbox/bulk.html", page, status=422)
    seen = {claim.pk: request.POST.get(f"spec_hash_{claim.pk}", "") for claim in wishes.claims}
    decision = several.Decision(answer)
    results = several.decide(inbox, wishes, decision, note=form.cleaned_data["note"], seen=seen)
    done = sum(not result.refusal for result in results)
    page = {"results": results, "done": done, "denied": denies}
    return render(request, "claims/inbox/bulk.html", page, status=200 if done == len(results) else 409)
