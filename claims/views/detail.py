"""The page of one claim, and the part of it that polls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_safe

from claims.access import claim_for, reason_not_to_end
from claims.approval.approvals import may_decide
from claims.explain import explain
from claims.life.room import room_of
from claims.request.alternatives import again_url
from claims.states import LOOK, RUNNING, ClaimState
from claims.views.facts import Facts, facts_of
from claims.views.figures import figures_of
from claims.views.funnel import funnel_of
from claims.views.mending import mending_of
from claims.views.options import options_of
from claims.views.snippet_page import snippets_page
from claims.views.talk import thread_of
from teams.access import asker
from teams.models import Role, User

# A request that was never approved has neither use nor cost.
WITHOUT_USE = (ClaimState.REQUESTED, ClaimState.DENIED, ClaimState.WITHDRAWN, ClaimState.EXPIRED)
MOVED = "claim-moved"  # the event on which parts of the page that do not poll load themselves anew


# Step of the chain → its icon while it is now or ahead.
ICONS = {
    "requested": "send",
    "quota": "gauge",
    "approved": "user-check",
    "written": "file-text",
    "waiting": "cube-plus",
    "scheduler": "route",
    "prepared": "tool",
    "used": "cpu",
    "releasing": "progress-down",
    "released": "circle-minus",
}


@dataclass(frozen=True)
class Look:
    """How a state is drawn: its family says who acts next."""

    family: str
    icon: str


@require_safe
def detail(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = claim_for(request, claim_id)
    page = page_of(facts_of(claim, asker(request)), asker(request))
    snippets = {} if claim.is_final else snippets_page(request, claim, request.GET.get("snippet", ""))
    return render(request, "claims/detail.html", page | snippets)


@require_safe
def detail_live(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """The part of the page that polls itself: 304 until something moves, and no polling at the end."""
    facts = facts_of(claim_for(request, claim_id), asker(request))
    response = get_conditional_response(request, etag=facts.etag)
    if response is None:
        seen = request.GET.get("seen", "")
        response = render(request, "claims/live.html", page_of(facts, asker(request)) | {"seen": seen})
        response["ETag"] = facts.etag
        if facts.claim.state not in (seen, *WITHOUT_USE):
            response["HX-Trigger"] = MOVED
    patch_cache_control(response, private=True, no_cache=True)
    return response


def page_of(facts: Facts, user: User) -> dict[str, Any]:
    """Return the context of all that moves."""
    claim = facts.claim
    found = explain(claim, facts.seen, facts.age)
    may_ask = facts.role is not None and facts.role.rank >= Role.MEMBER.rank
    may_end = not reason_not_to_end(user, claim, facts.role)
    return {
        "claim": claim,
        "alternatives": facts.alternatives,
        "look": Look(*LOOK[claim.state]),
        "etag": facts.etag.strip('"'),
        "polls": not claim.is_final,
        "has_use": claim.state not in WITHOUT_USE,
        "figures": figures_of(facts),
        "next": found.answer,
        "steps": [(each, ICONS[each.key]) for each in found.shown_steps],
        "explanation": found,
        "match": found.fit and found.fit.preview,
        "funnel": funnel_of(found.fit.preview) if found.fit else [],
        "held": facts.held,
        "age": facts.age,
        "past_count": 0 if facts.held else claim.allocations.count(),
        "consumers": found.pods,
        "room": room_of(claim, facts.seen),
        "history": [
            (each, Look(*LOOK[each.new]))
            for each in claim.history.select_related("by").order_by("-at", "-pk")
        ],
        "may_decide": claim.state == ClaimState.REQUESTED and may_decide(user, claim),
        "mending": mending_of(facts, user),
        "can_withdraw": claim.state == ClaimState.REQUESTED and may_end,
        "can_release": claim.state in RUNNING and may_end,
        "again_url": again_url(claim, facts.alternatives) if may_ask else "",
        **thread_of(claim, user),
    } | options_of(facts, user)
