"""Pages to approve a request with changes, and to decide on requests in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
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
from claims.approvals.forms import ChangeForm, DenyForm, NoteForm
from claims.approvals.services import reasons_for
from claims.catalogue.listing import DeviceKind, kinds_for
from claims.inbox.bulk import (
    Decision,
    DecisionPreview,
    Selection,
    preview_decisions,
    select_requests,
    total_effects,
)
from claims.inbox.bulk import decide as decide_in_bulk
from claims.inbox.impact import Impact, claim_impact
from claims.inbox.inbox import Inbox, ItemKind
from claims.inbox.views import approval_message
from claims.match_page import FunnelRow, funnel_rows
from claims.models import Claim, QuotaRequest
from claims.plans.changes import RequestChange, WantedChange, additional_usage, plan_change
from claims.quotas import quota_usage
from claims.quotas.quota_usage import QuotaLine
from claims.states import ClaimState
from core.errors import Conflict, Invalid, PortalError, QuotaExceeded
from core.inputs import valid_ids
from dra import match
from inventory.cluster_snapshot import current_snapshot
from teams.access import user_of


@dataclass(frozen=True)
class ChangePreview:
    """What the changed request would need and cost now."""

    change: RequestChange
    total: int  # devices of all claims together
    lines: list[QuotaLine]  # quotas that need more than is reserved for the request
    match: match.Preview
    funnel: list[FunnelRow]
    kinds: frozenset[DeviceKind]


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """
    GET shows the requested values, or previews the change in the address; POST approves the request with it.

    The card of the inbox fetches the form alone.
    """
    claim = visible_claim(request, claim_id)
    if reason := reason_not_to_decide(user_of(request), claim):
        raise PermissionDenied(reason)
    if request.method == "POST":
        return approve_changed(request, claim)
    form = ChangeForm(request.GET or ChangeForm.requested_values(claim), claim=claim)
    return change_page(request, claim, form)


def approve_changed(request: HttpRequest, claim: Claim) -> HttpResponse:
    form = ChangeForm(request.POST, claim=claim)
    if not form.is_valid():
        return change_page(request, claim, form, status=422)
    try:
        claim = decide.approve_with_changes(
            claim=claim,
            by=user_of(request),
            spec_hash=form.cleaned_data["spec_hash"],
            wanted=form.wanted,
            note=form.cleaned_data["note"],
        )
    except (Conflict, Invalid, QuotaExceeded) as refusal:
        return change_page(
            request, visible_claim(request, claim.pk), form, refusal=refusal, status=refusal.status
        )
    messages.success(request, approval_message(claim))
    return redirect("claims:approvals")


def change_page(
    request: HttpRequest,
    claim: Claim,
    form: ChangeForm,
    *,
    refusal: PortalError | None = None,
    status: int = 200,
) -> HttpResponse:
    pending = claim.state == ClaimState.REQUESTED
    preview = None
    if pending and form.is_valid() and form.wanted != WantedChange():
        try:
            preview = preview_change(claim, form)
        except Conflict as error:  # the profile cannot be requested at all
            refusal = refusal or error
    page: dict[str, Any] = {
        "claim": claim,
        "form": form,
        "refusal": refusal,
        "preview": preview,
        "waiting": pending,
    }
    fragment = ""
    if request.headers.get("HX-Request") and request.method == "GET":
        page["in_place"] = request.headers.get("HX-Target") != "preview"
        fragment = "#form" if page["in_place"] else "#preview"
    return render(request, f"claims/inbox/change.html{fragment}", page, status=status)


def preview_change(claim: Claim, form: ChangeForm) -> ChangePreview:
    change = plan_change(claim, form.wanted)
    classes, profiles = additional_usage(claim, change)
    lines: list[QuotaLine] = []
    if classes or profiles:
        rows = quota_usage.charged_quotas(team=claim.team, charge=classes, profiles=profiles)
        lines = quota_usage.quota_lines(rows, team=claim.team, charge=classes, profiles=profiles, claims=0)
    snapshot = current_snapshot(claim.cluster)
    preview = match.preview(snapshot, change.spec, claims=claim.parallel)
    return ChangePreview(
        change,
        change.devices * claim.parallel,
        lines,
        preview,
        funnel_rows(preview),
        kinds_for(claim.cluster_id, snapshot, change.spec),
    )


KINDS: tuple[ItemKind, ...] = ("claim", "extension", "quota")


@dataclass(frozen=True)
class BulkRow:
    """
    One selected request and the `devices` that it keeps for `duration`, of which `kinds` have the price; 0 of
    quota and of what this reader may not decide on. `impact` is of a claim that they may decide on.
    """

    preview: DecisionPreview
    impact: Impact | None = None
    kinds: frozenset[DeviceKind] = frozenset()
    devices: int = 0
    duration: timedelta = timedelta()


@require_http_methods(["GET", "HEAD", "POST"])
def bulk_decisions(request: HttpRequest) -> HttpResponse:
    """GET previews a decision on each selected request; POST decides, bound to the specs that were shown."""
    inbox = Inbox(user_of(request))
    query = request.POST if request.method == "POST" else request.GET
    try:
        selection = select_requests(inbox, selected_ids(query))
    except Invalid as refusal:
        return render(request, "claims/inbox/bulk.html", {"refusal": refusal}, status=refusal.status)
    if request.method == "POST":
        return decide_selection(request, inbox, selection)
    return render(request, "claims/inbox/bulk.html", bulk_context(inbox, selection))


def selected_ids(query: QueryDict) -> dict[ItemKind, list[UUID]]:
    """Return the selected ids of each kind, without values that are no id."""
    return {kind: list(dict.fromkeys(valid_ids(query.getlist(kind)))) for kind in KINDS}


def bulk_context(inbox: Inbox, selection: Selection) -> dict[str, Any]:
    previews = preview_decisions(inbox, selection)
    rows = [bulk_row(preview) for preview in previews]
    ready = [preview for preview in previews if not preview.blocked_reason]
    teams = {preview.item.team for preview in ready}
    claims = [preview.request for preview in ready if isinstance(preview.request, Claim)]
    return {
        "rows": rows,
        "priced": [row for row in rows if row.devices],
        "ready": len(ready),
        "blocked": len(previews) - len(ready),
        "devices": sum(claim.devices * claim.parallel for claim in claims),
        "totals": total_effects(previews),
        "reasons": reasons_for(teams.pop() if len(teams) == 1 else None) if ready else [],
    }


def bulk_row(preview: DecisionPreview) -> BulkRow:
    request = preview.request
    if preview.blocked_reason or isinstance(request, QuotaRequest):
        return BulkRow(preview)
    if isinstance(request, Claim):
        impact = claim_impact(request)
        return BulkRow(preview, impact, impact.kinds, request.devices * request.parallel, request.duration)
    claim, cluster = request.claim, request.claim.cluster
    snapshot = current_snapshot(cluster, (cluster.revision, cluster.version))  # read with the claim
    kinds = kinds_for(cluster.pk, snapshot, claim.spec)
    longer = max(request.until - (claim.expires_at or request.previous_end), timedelta())
    return BulkRow(preview, None, kinds, claim.devices * claim.parallel, longer)


def decide_selection(request: HttpRequest, inbox: Inbox, selection: Selection) -> HttpResponse:
    """Decide on each request and show the results; 409 if one failed."""
    if not list(selection):  # requests that the reader may not see are not selected
        return render(request, "claims/inbox/bulk.html", bulk_context(inbox, selection), status=422)
    decision = request.POST.get("decision")
    denies = decision == Decision.DENY
    form = DenyForm(request.POST) if denies else NoteForm(request.POST)
    if not form.is_valid() or decision not in Decision.values:
        page = bulk_context(inbox, selection) | {"note": request.POST.get("note", "")}
        page["note_errors"] = form.errors.get("note") or ["Choose approve or deny."]
        return render(request, "claims/inbox/bulk.html", page, status=422)
    spec_hashes = {claim.pk: request.POST.get(f"spec_hash_{claim.pk}", "") for claim in selection.claims}
    note = form.cleaned_data["note"]
    results = decide_in_bulk(inbox, selection, Decision(decision), note=note, spec_hashes=spec_hashes)
    done = sum(not result.refusal for result in results)
    page = {"results": results, "done": done, "denied": denies}
    return render(request, "claims/inbox/bulk.html", page, status=200 if done == len(results) else 409)
