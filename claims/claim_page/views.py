"""
The page of one claim with its figures, options, snippets and repairs.

The strip of figures on top of a claim: what it is, how long it has been so, when it ends.

Times that run are `<time>` elements, which the page keeps current; nothing has to move for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import get_conditional_response, patch_cache_control
from django.utils.html import format_html
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.access import reason_not_to_release, visible_claim
from claims.approvals.authority import may_decide
from claims.approvals.forms import EndForm
from claims.claim_page.explain import explain
from claims.claim_page.forms import SnippetForm, in_nodes
from claims.claim_page.snippets import GROUPS, Snippet, check_of, placement_of, snippets_of
from claims.inbox.views import thread_of
from claims.lifecycle import services
from claims.lifecycle.extensions import ExtensionPolicy, deleted_at, in_grace, pending_extension
from claims.lifecycle.facts import Facts, claim_facts
from claims.lifecycle.sharing import sharing_slots
from claims.match_page import funnel_of
from claims.models import Claim
from claims.models.limits import Delivery
from claims.observation import drift
from claims.plans.changes import request_again_url
from claims.plans.plan import claim_use
from claims.states import FINAL, LOOK, RUNNING, UNAPPROVED, ClaimState
from core.errors import Conflict
from core.text import counted
from core.times import ago, at, duration, elapsed
from dra import cuda
from dra.placement import Placement
from dra.workloads import ASSUMED, WorkloadOptions
from teams.access import user_of
from teams.models import Role, User


@dataclass(frozen=True)
class KeyFigure:
    """Texts for a template, safe where they hold markup."""

    label: str
    value: str
    sub: str


def figures_of(facts: Facts) -> list[KeyFigure]:
    """Return four figures, always in the same order: since, ends, size, held now."""
    claim = facts.claim
    return [since(claim), ends(claim), size(claim), held_now(facts)]


def since(claim: Claim) -> KeyFigure:
    sub = format_html("since {when}", when=at(claim.state_since))
    return KeyFigure(str(claim.get_state_display()), elapsed(claim.state_since), sub)


def ends(claim: Claim) -> KeyFigure:
    if claim.state in FINAL:
        return KeyFigure("Ended", duration(claim.state_since - claim.created_at), "after it was asked for")
    if in_grace(claim):
        sub = format_html("its time ended {when}", when=at(claim.expires_at))
        return KeyFigure("Grace ends", ago(deleted_at(claim)), sub)
    if claim.expires_at is not None:
        return KeyFigure("Ends", ago(claim.expires_at), at(claim.expires_at))
    if claim.decide_by is not None and claim.state == ClaimState.REQUESTED:
        sub = format_html("from approval; the request expires {when}", when=at(claim.decide_by))
        return KeyFigure("Duration", duration(claim.duration), sub)
    return KeyFigure("Duration", duration(claim.duration), "from approval")


def size(claim: Claim) -> KeyFigure:
    if claim.delivery == Delivery.TEMPLATE:
        return KeyFigure("Devices", str(claim.devices), f"per pod, {counted(claim.parallel, 'pod')} at once")
    return KeyFigure("Devices", str(claim.devices), "named claim, pods may share it")


def held_now(facts: Facts) -> KeyFigure:
    products = sorted({row.allocation.product for row in facts.held if row.allocation.product})
    sub = ", ".join(products) if facts.held else "nothing is billed"
    return KeyFigure("Held now", str(len(facts.held)), sub)


def options_of(facts: Facts, user: User) -> dict[str, Any]:
    """
    Return the context of `claims/claim_page/_actions.html` and `claims/claim_page/_life.html`.

    `free_extension` is by how much the reader may extend without asking.
    """
    claim = facts.claim
    running = claim.state in RUNNING
    may_change = running and not reason_not_to_release(user, claim, facts.role)
    successor = facts.successor
    before = claim.replaces
    timed = may_change and claim.expires_at is not None
    return {
        "can_extend": timed and successor is None,
        "can_shorten": timed and not in_grace(claim),
        "can_transfer": may_change,
        "can_change": may_change and successor is None and (before is None or before.is_final),
        "successor": successor if running else None,
        "replaced_by": successor if claim.is_final else None,
        "predecessor": before,
        "is_crowded": before is not None and _waits_for(claim, before),
        "may_release_predecessor": before is not None
        and before.state in RUNNING
        and not reason_not_to_release(user, before, facts.role),
        "extension": pending_extension(claim) if running else None,
        "in_grace": in_grace(claim),
        "deleted_at": deleted_at(claim),
        "free_extension": ExtensionPolicy(claim, by=user).at_a_time if timed and successor is None else None,
    }


def _waits_for(claim: Claim, before: Claim) -> bool:
    """Tell whether a claim waits for devices while the one that it replaces may be holding them."""
    return claim.state == ClaimState.PROVISIONED and before.state == ClaimState.ALLOCATED


@dataclass(frozen=True)
class Mending:
    """The trouble of a claim, with what one reader may do about it."""

    trouble: drift.Drift
    may_accept: bool
    may_label: bool


def mending_of(facts: Facts, user: User) -> Mending | None:
    trouble = drift.find_drift(facts.claim, facts.seen)
    if trouble is None:
        return None
    may_end = not reason_not_to_release(user, facts.claim, facts.role)
    return Mending(
        trouble,
        may_accept=trouble.code == drift.REPLACED and user.is_platform_admin,
        may_label=trouble.code == drift.UNLABELED and may_end,
    )


# How severe a verdict is → colour family and icon.
LOOKS = {
    cuda.Level.OK: ("held", "circle-check"),
    cuda.Level.UNKNOWN: ("unknown", "help"),
    cuda.Level.WARNING: ("wait", "alert-triangle"),
    cuda.Level.ERROR: ("bad", "alert-circle"),
}


def snippets_page(request: HttpRequest, claim: Claim, key: str) -> dict[str, Any]:
    """Return the context of the section; an unknown `key` shows the first snippet."""
    found = placement_of(claim)
    form = SnippetForm(request.GET, use=claim_use(claim, vendor=found.vendor), placement=found)
    chosen = form.options() if not form.is_bound or form.is_valid() else WorkloadOptions()
    base_url = request.build_absolute_uri("/").rstrip("/")
    every = snippets_of(claim, base_url=base_url, options=chosen, vendor=found.vendor)
    shown = next((one for one in every if one.key == key), every[0])
    check = check_of(shown, chosen, found)
    kept = urlencode(form.chosen(), doseq=True)
    return {
        "snippet": shown,
        "snippets": [one for one in every if one.group == shown.group],
        "snippet_groups": first_of_groups(every, shown),
        "snippet_form": form,
        "snippet_chosen": chosen.chosen,
        "snippet_options": f"?{kept}" if kept else "",
        "snippet_kept": f"&{kept}" if kept else "",
        "snippet_query": urlencode({"snippet": shown.key, **form.chosen()}, doseq=True),
        "snippet_check": check,
        "snippet_parts": [(one, *LOOKS[one.verdict.level]) for one in check.parts] if check else [],
        "snippet_places": places_sentence(found, chosen),
    }


def first_of_groups(every: list[Snippet], shown: Snippet) -> list[tuple[str, str, bool]]:
    """Return (title, key of its first snippet, whether it is open) of each use that has snippets."""
    firsts = {one.group: one.key for one in reversed(every)}
    return [
        (str(title), firsts[group], group == shown.group)
        for group, title in GROUPS.items()
        if group in firsts
    ]


def places_sentence(found: Placement, chosen: WorkloadOptions) -> str:
    """Say how many nodes take the pods as they stand; "" where there is nothing to count."""
    if found.problem or not found.nodes:
        return ""
    labels = None if not chosen.capacity else ["" if chosen.capacity == ASSUMED else chosen.capacity]
    number = found.eligible_nodes(chosen.tolerate, labels)
    return f"{number} of {in_nodes(found.nodes)} with matching devices take these pods by taints and labels."


# A request that was never approved has neither use nor cost.
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
class ClaimStateStyle:
    """How a state is drawn: its family says who acts next."""

    family: str
    icon: str


@require_safe
def detail(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    page = page_of(claim_facts(claim, user_of(request)), user_of(request))
    snippets = {} if claim.is_final else snippets_page(request, claim, request.GET.get("snippet", ""))
    return render(request, "claims/claim_page/detail.html", page | snippets)


@require_safe
def detail_live(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """The part of the page that polls itself: 304 until something moves, and no polling at the end."""
    facts = claim_facts(visible_claim(request, claim_id), user_of(request))
    response = get_conditional_response(request, etag=facts.etag)
    if response is None:
        seen = request.GET.get("seen", "")
        response = render(
            request, "claims/claim_page/live.html", page_of(facts, user_of(request)) | {"seen": seen}
        )
        response["ETag"] = facts.etag
        if facts.claim.state not in (seen, *UNAPPROVED):
            response["HX-Trigger"] = MOVED
    patch_cache_control(response, private=True, no_cache=True)
    return response


def page_of(facts: Facts, user: User) -> dict[str, Any]:
    """Return the context of all that moves."""
    claim = facts.claim
    found = explain(claim, facts.seen, facts.age)
    may_request = facts.role is not None and facts.role.rank >= Role.MEMBER.rank
    may_end = not reason_not_to_release(user, claim, facts.role)
    return {
        "claim": claim,
        "alternatives": facts.alternatives,
        "look": ClaimStateStyle(*LOOK[claim.state]),
        "etag": facts.etag.strip('"'),
        "polls": not claim.is_final,
        "has_use": claim.state not in UNAPPROVED,
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
        "room": sharing_slots(claim, facts.seen),
        "history": [
            (each, ClaimStateStyle(*LOOK[each.new]))
            for each in claim.history.select_related("by").order_by("-at", "-pk")
        ],
        "may_decide": claim.state == ClaimState.REQUESTED and may_decide(user, claim),
        "mending": mending_of(facts, user),
        "can_withdraw": claim.state == ClaimState.REQUESTED and may_end,
        "can_release": claim.state in RUNNING and may_end,
        "again_url": request_again_url(claim, facts.alternatives) if may_request else "",
        **thread_of(claim, user),
    } | options_of(facts, user)


@require_http_methods(["GET", "HEAD", "POST"])
def accept(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Ask on GET, do on POST: 403 for all but platform admins, 409 where there is nothing to accept."""
    facts = claim_facts(visible_claim(request, claim_id), user_of(request))
    claim = facts.claim
    if not user_of(request).is_platform_admin:
        raise PermissionDenied("Only a platform admin may accept another object.")
    form = EndForm(request.POST if request.method == "POST" else None)
    page = {"claim": claim, "form": form, "written": facts.seen.written}
    if request.method != "POST":
        mending = mending_of(facts, user_of(request))
        if mending is None or not mending.may_accept:
            none = f"{claim} has no new object that asks for what was approved."
            page["refusal"] = Conflict(none)
        return render(request, "claims/claim_page/accept.html", page)
    if not form.is_valid():
        return render(request, "claims/claim_page/accept.html", page, status=422)
    try:
        services.accept_object(claim=claim, by=user_of(request), reason=form.cleaned_data["reason"])
    except Conflict as refusal:
        return render(
            request, "claims/claim_page/accept.html", page | {"refusal": refusal}, status=refusal.status
        )
    messages.success(request, f"The new object is now the one of {claim}.")
    return redirect("claims:detail", claim.pk)


@require_POST
def label(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    services.label_again(claim=claim, by=user_of(request))
    messages.success(request, f"The label of the portal is being written to {claim}.")
    return redirect("claims:detail", claim.pk)


@require_safe
def snippet(request: HttpRequest, claim_id: UUID, key: str) -> HttpResponse:
    """One snippet as a part of the page. The browser's address follows, so that it can be passed on."""
    claim = visible_claim(request, claim_id)
    return part(request, claim, key)


@require_safe
def options(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """The same after an option has changed; the form says which snippet is shown."""
    return part(request, visible_claim(request, claim_id), request.GET.get("snippet", ""))


@require_safe
def snippet_file(request: HttpRequest, claim_id: UUID, key: str) -> HttpResponse:
    """The snippet as a file. Options that cannot be taken are told on the page, not here: 404."""
    page = snippets_page(request, visible_claim(request, claim_id), key)
    if page["snippet"].key != key or page["snippet_form"].errors:
        raise Http404
    found: Snippet = page["snippet"]
    response = HttpResponse(found.text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{found.filename}"'
    return response


def part(request: HttpRequest, claim: Claim, key: str) -> HttpResponse:
    page = snippets_page(request, claim, key)
    if page["snippet"].key != key:
        raise Http404
    response = render(request, "claims/claim_page/detail.html#snippets", page | {"claim": claim})
    response["HX-Replace-Url"] = f"{reverse('claims:detail', args=[claim.pk])}?{page['snippet_query']}"
    return response
