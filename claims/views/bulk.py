"""Deciding on several wishes at once: what each comes to now, one button, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from claims.approval import several
from claims.approval.inbox import Inbox, Kind
from claims.approval.reasons import reasons_for
from claims.approval.several_preview import Line, preview, together
from claims.forms import ApproveForm, DenyForm
from claims.models import Claim
from claims.observed.labels import ids as ids_of
from claims.views.impact import Impact, impact_of
from core.errors import Invalid
from teams.access import asker

KINDS: tuple[Kind, ...] = ("claim", "extension", "quota")


@dataclass(frozen=True)
class Row:
    """One chosen wish; `impact` is of a claim that this reader may decide on."""

    line: Line
    impact: Impact | None


@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    """GET shows every chosen wish with what it does now; POST decides on each, bound to what was shown."""
    inbox = Inbox(asker(request))
    said = request.POST if request.method == "POST" else request.GET
    try:
        wishes = several.chosen(inbox, chosen_ids(said))
    except Invalid as refusal:
        return render(request, "claims/bulk.html", {"refusal": refusal}, status=refusal.status)
    if request.method == "POST":
        return decide(request, inbox, wishes)
    return render(request, "claims/bulk.html", page_of(inbox, wishes))


def chosen_ids(said: QueryDict) -> dict[Kind, list[UUID]]:
    """Return the ids of each kind; what is no id is left out."""
    return {kind: list(dict.fromkeys(ids_of(said.getlist(kind)))) for kind in KINDS}


def page_of(inbox: Inbox, wishes: several.Chosen) -> dict[str, Any]:
    lines = preview(inbox, wishes)
    ready = [line for line in lines if not line.reason_not]
    teams = {line.item.team for line in ready}
    claims = [line.wish for line in ready if isinstance(line.wish, Claim)]
    return {
        "rows": [Row(line, impact_of_line(line)) for line in lines],
        "ready": len(ready),
        "devices": sum(claim.devices * claim.parallel for claim in claims),
        "sums": together(lines),
        "reasons": reasons_for(teams.pop() if len(teams) == 1 else None) if ready else [],
    }


def impact_of_line(line: Line) -> Impact | None:
    if line.reason_not or not isinstance(line.wish, Claim):
        return None
    return impact_of(line.wish)


def decide(request: HttpRequest, inbox: Inbox, wishes: several.Chosen) -> HttpResponse:
    """Decide on each by itself: one that cannot be does not keep the others from it."""
    if not list(wishes):  # what somebody may not know of is not among them
        return render(request, "claims/bulk.html", page_of(inbox, wishes), status=422)
    answer = request.POST.get("answer")
    denies = answer == several.Decision.DENY
    form = DenyForm(request.POST) if denies else ApproveForm({**request.POST.dict(), "spec_hash": "each"})
    if not form.is_valid() or answer not in several.Decision.values:
        page = page_of(inbox, wishes) | {"note": request.POST.get("note", "")}
        page["note_errors"] = form.errors.get("note") or [_("Choose whether to approve or to deny.")]
        return render(request, "claims/bulk.html", page, status=422)
    seen = {claim.pk: request.POST.get(f"spec_hash_{claim.pk}", "") for claim in wishes.claims}
    decision = several.Decision(answer)
    results = several.decide(inbox, wishes, decision, note=form.cleaned_data["note"], seen=seen)
    done = sum(not result.refusal for result in results)
    page = {"results": results, "done": done, "denied": denies}
    return render(request, "claims/bulk.html", page, status=200 if done == len(results) else 409)
