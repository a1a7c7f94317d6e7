"""Deciding on several requests at once: what each comes to now, one button, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from claims import services
from claims.approval.approvals import Desk
from claims.forms import ApproveForm, DenyForm
from claims.models import Claim
from claims.quota.quotas import Standing, standing
from claims.states import ClaimState
from claims.views.impact import Impact, impact_of
from core.errors import PortalError
from teams.access import asker

MOST = 50  # requests at once


@dataclass(frozen=True)
class Line:
    """One chosen request; `reason_not` says why this reader may not decide, `impact` is of one that waits."""

    claim: Claim
    impact: Impact | None
    reason_not: str


@dataclass(frozen=True)
class Result:
    """What became of one: `refusal` is the sentence of why not, "" where it was done."""

    claim: Claim
    refusal: str


@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    """GET shows every chosen request with what it does now; POST decides on each, bound to what was shown."""
    if request.method == "POST":
        return decide(request)
    lines = lines_of(request, chosen(request, request.GET.getlist("claim")))
    return render(request, "claims/bulk.html", page_of(lines))


def page_of(lines: list[Line]) -> dict[str, Any]:
    ready = [line.claim for line in lines if line.impact is not None and not line.reason_not]
    teams = {claim.team for claim in ready}
    return {
        "lines": lines,
        "ready": len(ready),
        "devices": sum(claim.devices * claim.parallel for claim in ready),
        "quotas": totals(standing(teams), ready) if ready else [],
        "most": MOST,
    }


def totals(standings: list[Standing], ready: list[Claim]) -> list[tuple[Standing, int]]:
    """Return the quotas that the chosen ones are reserved in, with how much of each they are together."""
    charged: dict[tuple[object, str], int] = {}
    for claim in ready:
        for row in claim.charges.all():
            key = (claim.team_id, row.device_class)
            charged[key] = charged.get(key, 0) + row.devices
    found = [
        (each, charged.get((each.quota.team_id, each.quota.device_class), 0))
        for each in standings
        if each.quota.device_class
    ]
    return [(each, count) for each, count in found if count]


def chosen(request: HttpRequest, ids: list[str]) -> list[Claim]:
    """Return the chosen requests that the reader may know of, oldest first; what is no id is left out."""
    known = []
    for text in ids[:MOST]:
        try:
            known.append(UUID(text))
        except ValueError:
            continue
    related = ("team", "cluster", "profile_version__profile", "requested_by")
    claims = Claim.objects.visible_to(request.user).filter(pk__in=known).select_related(*related)
    parts = ("charges", "alternatives__profile_version__profile", "steps__by")
    return list(claims.prefetch_related(*parts).order_by("created_at", "pk"))


def lines_of(request: HttpRequest, claims: list[Claim]) -> list[Line]:
    desk = Desk(asker(request))
    return [
        Line(
            claim,
            impact_of(claim) if claim.state == ClaimState.REQUESTED else None,
            desk.reason_not_to_decide(claim),
        )
        for claim in claims
    ]


def decide(request: HttpRequest) -> HttpResponse:
    """Decide on each by itself: one that cannot be does not keep the others from it."""
    denies = request.POST.get("answer") == "deny"
    claims = chosen(request, request.POST.getlist("claim"))
    form = DenyForm(request.POST) if denies else ApproveForm({**request.POST.dict(), "spec_hash": "each"})
    if not form.is_valid() or request.POST.get("answer") not in ("approve", "deny"):
        page = page_of(lines_of(request, claims))
        page |= {"note_errors": form.errors.get("note") or [_("Choose whether to approve or to deny.")]}
        return render(request, "claims/bulk.html", page, status=422)
    note = form.cleaned_data["note"]
    results = [one_decided(request, claim, note, denies=denies) for claim in claims]
    done = [result for result in results if not result.refusal]
    shown = {"results": results, "done": len(done), "denied": denies}
    return render(request, "claims/bulk.html", shown, status=200 if len(done) == len(results) else 409)


def one_decided(request: HttpRequest, claim: Claim, note: str, *, denies: bool) -> Result:
    user = asker(request)
    try:
        if denies:
            claim = services.deny(claim=claim, by=user, reason=note)
        else:
            seen = request.POST.get(f"spec_hash_{claim.pk}", "")
            claim = services.approve(claim=claim, by=user, spec_hash=seen, note=note)
    except PortalError as refusal:
        return Result(claim, refusal.message)
    return Result(claim, "")
