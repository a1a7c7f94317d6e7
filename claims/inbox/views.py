"""The inbox and its cards: claims, extensions, requests for quota, questions."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from claims.access import visible_claim
from claims.approvals import authority, decide
from claims.approvals.authority import ApprovalAuthority, decision_on, stage_of
from claims.approvals.forms import ApproveForm, DenyForm
from claims.approvals.services import reasons_for
from claims.inbox import services
from claims.inbox.impact import impact_of
from claims.inbox.inbox import TABS, Inbox, InboxSearch, Item, Tab, question_of
from claims.lifecycle.services import approve_extension, deny_extension
from claims.models import Claim, Extension, Profile, QuotaRequest, RequestStatus
from claims.plans.changes import current_parts, request_again_url
from claims.quotas.forms import QuotaGrantForm
from claims.quotas.requests import request_impact
from claims.quotas.services import approve_quota_request, deny_quota_request, reason_not_to_withdraw
from claims.states import LOOK, ClaimState
from core.errors import Conflict, Invalid, PortalError
from core.listing import Echo, harmless
from core.text import counted
from teams.access import role_in, user_of
from teams.models import Role, Team, User

PER_PAGE = 25
KEPT = ("tab", "q", "team", "profile", "page")  # what the address keeps while one goes from card to card


def list_of(request: HttpRequest) -> dict[str, Any]:
    """Return the page of rows that the address asks for, and how many each tab has."""
    user = user_of(request)
    sought = search_of(request)
    inbox = Inbox(user, sought)
    waiting = inbox.waiting()
    chosen = tab_of(request)
    counts: dict[Tab, int] = {tab: len(inbox.of_tab(tab, waiting)) for tab in TABS if tab != "decided"}
    titles = {"mine": "Mine", "team": "My teams", "all": "All", "decided": "Decided"}
    rows = inbox.tab("decided") if chosen == "decided" else inbox.of_tab(chosen, waiting)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    for name in set(query) - set(KEPT):
        del query[name]
    return {
        "tab": chosen,
        "tabs": [(tab, titles[tab], counts.get(tab)) for tab in TABS if tab != "all" or user.is_superuser],
        "page": page,
        "rows": page.object_list,
        "query": query.urlencode(),
        "search": sought,
        "sought": any((sought.words, sought.team, sought.profile)),
        "teams": Team.objects.visible_to(user),
        "profiles": Profile.objects.visible_to(user),
        "keeps_reasons": user.is_superuser or bool(inbox.desk.leads),
    }


def tab_of(request: HttpRequest) -> Tab:
    return next((tab for tab in TABS if tab == request.GET.get("tab")), "mine")


def search_of(request: HttpRequest) -> InboxSearch:
    named = [request.GET.get(name, "").strip()[:200] for name in ("q", "team", "profile")]
    return InboxSearch(*named)


def as_csv(request: HttpRequest) -> HttpResponse:
    """Return every row of the tab that the address asks for, not only a page of it."""
    tab = tab_of(request)
    rows = Inbox(user_of(request), search_of(request)).tab(tab)
    response = HttpResponse(lines(rows[:]), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="approvals-{tab}.csv"'
    return response


def lines(rows: list[Item] | Any) -> Iterator[str]:
    writer = csv.writer(Echo())
    heads = ("Kind", "Name", "What", "Team", "Asked by", "Asked at", "Age", "Answer")
    yield writer.writerow([*heads, "Decided by", "Decided at"])
    for row in rows:
        cells = (
            *(row.label, row.title, row.what, row.team.slug, row.asked_by.username),
            *(row.asked_at.isoformat(), "" if row.answer else row.age_label, row.answer),
            row.decided_by.username if row.decided_by else "",
            row.decided_at.isoformat() if row.decided_at else "",
        )
        yield writer.writerow([harmless(cell) for cell in cells])


def thread_of(about: Claim | QuotaRequest, user: User) -> dict[str, Any]:
    """Return its lines, the question that waits for an answer, and whether the reader may write."""
    lines = list(about.comments.select_related("by"))
    if isinstance(about, Claim):
        waits, user_of = about.state == ClaimState.REQUESTED, about.requested_by
    else:
        waits, user_of = about.answer == RequestStatus.WAITING, about.asked_by
    role = role_in(user, about.team)
    return {
        "thread": lines,
        "thread_key": str(uuid4()),
        "question": question_of(lines) if waits else None,
        "asked_person": user_of.label,
        "may_write": role is not None and role.rank >= Role.MEMBER.rank,
    }


def extension_for(request: HttpRequest, extension_id: UUID) -> Extension:
    related = (
        *("claim__team", "claim__cluster", "claim__profile_version__profile", "claim__requested_by"),
        *("asked_by", "decided_by"),
    )
    return get_object_or_404(
        Extension.objects.visible_to(request.user).select_related(*related), pk=extension_id
    )


def quota_request_for(request: HttpRequest, request_id: UUID) -> QuotaRequest:
    rows = QuotaRequest.objects.visible_to(request.user)
    return get_object_or_404(rows.select_related("team", "profile", "asked_by", "decided_by"), pk=request_id)


def extension_card(request: HttpRequest, extension_id: UUID) -> dict[str, Any]:
    one = extension_for(request, extension_id)
    waits = one.answer == RequestStatus.WAITING
    reason = authority.reason_not_to_decide(user_of(request), one.claim, asked_by=one.asked_by)
    return ask_card(one, "claims/inbox/_extension_card.html", reason if waits else "") | {
        "title": one.claim.name,
        "extension": one,
        "claim": one.claim,
        "reasons": reasons_for(one.claim.team) if waits else [],
    }


def quota_request_card(request: HttpRequest, request_id: UUID) -> dict[str, Any]:
    one = quota_request_for(request, request_id)
    reason = ""
    if one.answer == RequestStatus.WAITING and not user_of(request).is_superuser:
        reason = "Only a platform admin decides on quota."
    return ask_card(one, "claims/inbox/_quota_request_card.html", reason) | {
        "title": f"More quota for {one.team}",
        "quota_request": one,
        "quota_impact": request_impact(one),
        "may_withdraw": not reason_not_to_withdraw(
            user_of(request), one, role_in(user_of(request), one.team)
        ),
        "grant": QuotaGrantForm(initial={"devices": one.devices, "until": one.until}),
        "reasons": reasons_for(one.team) if one.answer == RequestStatus.WAITING else [],
        **thread_of(one, user_of(request)),
    }


def ask_card(one: Extension | QuotaRequest, body: str, reason_not: str) -> dict[str, Any]:
    kind = "extension" if isinstance(one, Extension) else "quota_request"
    return {
        "card": "claims/inbox/_ask_card.html",
        "card_body": body,
        "current": one.pk,
        "ask": one,
        "waiting": one.answer == RequestStatus.WAITING,
        "reason_not": reason_not,
        "approve_url": f"claims:{kind}_approve",
        "deny_url": f"claims:{kind}_deny",
    }


@require_safe
def extension(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    page = list_of(request) | extension_card(request, extension_id)
    return render(request, "claims/inbox/approvals.html", page)


@require_POST
def extension_approve(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    extension = extension_for(request, extension_id)
    act = partial(approve_extension, extension=extension, note=note_in(request))
    card = partial(extension_card, request, extension_id)
    return answered(request, act, f"{extension.claim} may be kept longer.", card)


@require_POST
def extension_deny(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    extension = extension_for(request, extension_id)
    act = partial(deny_extension, extension=extension, reason=note_in(request))
    card = partial(extension_card, request, extension_id)
    return answered(request, act, f"{extension.claim} keeps its end.", card)


@require_safe
def quota_request(request: HttpRequest, request_id: UUID) -> HttpResponse:
    page = list_of(request) | quota_request_card(request, request_id)
    return render(request, "claims/inbox/approvals.html", page)


@require_POST
def quota_request_approve(request: HttpRequest, request_id: UUID) -> HttpResponse:
    quota_request = quota_request_for(request, request_id)

    def act(*, by: User) -> None:
        grant = QuotaGrantForm(request.POST)
        if not grant.is_valid():
            raise Invalid(" ".join(str(message) for errors in grant.errors.values() for message in errors))
        note = note_in(request)
        approve_quota_request(quota_request=quota_request, by=by, note=note, **grant.cleaned_data)

    card = partial(quota_request_card, request, request_id)
    return answered(request, act, f"{quota_request.team} has the quota that it asked for.", card)


@require_POST
def quota_request_deny(request: HttpRequest, request_id: UUID) -> HttpResponse:
    quota_request = quota_request_for(request, request_id)
    act = partial(deny_quota_request, quota_request=quota_request, reason=note_in(request))
    card = partial(quota_request_card, request, request_id)
    return answered(request, act, f"The quota of {quota_request.team} stays as it is.", card)


def note_in(request: HttpRequest) -> str:
    return request.POST.get("note", "")[:500]


def answered(
    request: HttpRequest, act: Callable[..., object], done: str, card: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """Decide and return to the inbox with the message `done`; the card shows a refusal."""
    try:
        act(by=user_of(request))
    except (Conflict, Invalid) as error:
        refusal: PortalError = error
        form = {"refusal": refusal, "note": request.POST.get("note", "")}
        return render(
            request, "claims/inbox/approvals.html", list_of(request) | card() | form, status=refusal.status
        )
    messages.success(request, done)
    return redirect("claims:approvals")


@require_POST
def comment(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    try:
        said = services.comment_on_claim(claim=claim, by=user_of(request), **sent(request))
    except Invalid as refusal:
        messages.error(request, refusal.message)
        return redirect(back(request, reverse("claims:detail", args=[claim.pk])))
    messages.success(request, f"{claim.requested_by.label} is asked." if said.question else "Comment added.")
    return redirect(back(request, reverse("claims:detail", args=[claim.pk])))


@require_POST
def quota_request_comment(request: HttpRequest, request_id: UUID) -> HttpResponse:
    one = quota_request_for(request, request_id)
    try:
        services.comment_on_quota_request(quota_request=one, by=user_of(request), **sent(request))
    except Invalid as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, "Comment added.")
    return redirect(back(request, reverse("claims:quota_request_decision", args=[one.pk])))


def sent(request: HttpRequest) -> dict[str, str]:
    return {"text": request.POST.get("text", ""), "key": request.POST.get("key", "")}


def back(request: HttpRequest, otherwise: str) -> str:
    """Return the page of this portal that the form was on."""
    page = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(page, None, require_https=request.is_secure())
    return page if allowed and page.startswith("/") else otherwise


@require_safe
def approvals(request: HttpRequest) -> HttpResponseBase:
    """The list, and on wide screens the card of what has waited longest."""
    if request.GET.get("format") == "csv":
        return as_csv(request)
    page = list_of(request)
    card = first_card(request, page["rows"][0]) if page["rows"] else {}
    return render(request, "claims/inbox/approvals.html", page | card | {"on_list": True})


def first_card(request: HttpRequest, item: Item) -> dict[str, Any]:
    if item.kind == "claim":
        return card_of(request, visible_claim(request, item.pk))
    if item.kind == "extension":
        return extension_card(request, item.pk)
    return quota_request_card(request, item.pk)


@require_safe
def approval(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    return render(request, "claims/inbox/approvals.html", list_of(request) | card_of(request, claim))


@require_POST
def approve(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Approve what the card showed: the spec hash travels with the form."""
    claim, form = visible_claim(request, claim_id), ApproveForm(request.POST)
    if not form.is_valid():
        return card_again(request, claim, status=422, note_errors=form.errors.get("note"))
    try:
        claim = decide.approve(
            claim=claim,
            by=user_of(request),
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
        return f"You consented to {claim}; a platform admin decides now."
    return f"{claim} is approved; the portal writes the object now."


@require_POST
def deny(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Say no; without a reason the card comes back and asks for one."""
    claim, form = visible_claim(request, claim_id), DenyForm(request.POST)
    if not form.is_valid():
        return card_again(request, claim, status=422, note_errors=form.errors.get("note"))
    try:
        decide.deny(claim=claim, by=user_of(request), reason=form.cleaned_data["note"])
    except Conflict as refusal:
        return card_again(request, claim, refusal=refusal, status=refusal.status)
    messages.success(request, f"{claim} is denied.")
    return redirect("claims:approvals")


def card_again(
    request: HttpRequest,
    claim: Claim,
    *,
    status: int,
    refusal: PortalError | None = None,
    note_errors: Iterable[object] | None = None,
) -> HttpResponse:
    claim = visible_claim(request, claim.pk)
    said = {"refusal": refusal, "note_errors": note_errors, "note": request.POST.get("note", "")}
    page = list_of(request) | card_of(request, claim) | said
    return render(request, "claims/inbox/approvals.html", page, status=status)


def card_of(request: HttpRequest, claim: Claim) -> dict[str, Any]:
    """Return what the card shows: who asks for what, what it does to others, whether this reader decides."""
    waiting = claim.state == ClaimState.REQUESTED
    family, icon = LOOK[claim.state]
    total = claim.devices * claim.parallel
    user = user_of(request)
    desk = ApprovalAuthority(user, [claim.team])
    _stage, consent = stage_of(claim, desk.rules.on(claim))
    return {
        "card": "claims/inbox/_card.html",
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
        "again_url": request_again_url(claim, current_parts(claim, ()))
        if user.pk == claim.requested_by_id and not waiting
        else "",
        "approve_label": f"Approve {counted(total, 'device')}",
        **thread_of(claim, user),
    }
