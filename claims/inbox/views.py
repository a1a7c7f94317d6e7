"""Pages of the inbox: the list, the card of each kind of request, decisions and comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_POST, require_safe

from claims.access import visible_claim
from claims.approvals import decide
from claims.approvals.authority import (
    LEADS,
    ApprovalAuthority,
    approval_stage,
    last_decision,
    reason_not_to_decide,
)
from claims.approvals.forms import ApproveForm, DenyForm, NoteForm
from claims.approvals.reminders import decision_address, remind_deciders
from claims.approvals.services import reasons_for
from claims.budgets.extra import approve_extra, extra_effect
from claims.budgets.forms import ExtraGrantForm
from claims.delivery.eviction import pods_after_end
from claims.inbox.comments import comment_on_claim, comment_on_quota_request, open_question
from claims.inbox.impact import claim_impact
from claims.inbox.inbox import OVERDUE_AFTER, TABS, DecidedItems, Inbox, InboxSearch, Item, Tab
from claims.lifecycle.services import approve_extension, deny_extension
from claims.models import (
    Claim,
    Extension,
    PendingDecision,
    PendingRequest,
    Profile,
    QuotaRequest,
    RequestStatus,
)
from claims.plans.changes import current_parts, request_again_url
from claims.quotas.forms import QuotaGrantForm
from claims.quotas.quota_requests import request_impact, request_kind
from claims.quotas.services import approve_quota_request, deny_quota_request, reason_not_to_withdraw
from claims.requests.budget_check import extension_lines
from claims.states import LOOK, ClaimState
from core.errors import BudgetExceeded, Conflict, Invalid
from core.filters import KeySelect
from core.listing import csv_response
from core.prepared import PreparedObjects
from core.text import counted
from teams.access import reader_roles, role_in, user_of
from teams.models import Role, Team, User
from teams.views import redirect_back

PER_PAGE = 25
KEPT_PARAMETERS = ("tab", "q", "team", "profile", "page")  # of the address, from card to card


def list_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the list: the page of rows that the address asks for, and the number per tab."""
    user = user_of(request)
    search = inbox_search(request)
    inbox = Inbox(user, search)
    current = current_tab(request)
    titles = {"mine": "Mine", "team": "My teams", "all": "All", "decided": "Decided"}
    tabs = [tab for tab in TABS if tab != "all" or user.is_superuser]
    counts = inbox.counts()
    number = request.GET.get("page", "")
    items = inbox.tab(current)
    if isinstance(items, DecidedItems):
        items.count_for_page(int(number[:12]) if number.isdecimal() else 1, PER_PAGE)
    paginator = Paginator(items, PER_PAGE)
    if current in counts:
        paginator.count = counts[current]  # not counted twice
    page = paginator.get_page(number)
    query = request.GET.copy()
    for name in set(query) - set(KEPT_PARAMETERS):
        del query[name]
    return {
        "tab": current,
        "due_within": OVERDUE_AFTER,
        "tabs": [(tab, titles[tab], counts.get(tab)) for tab in tabs],
        "page": page,
        "is_open": isinstance(items, DecidedItems) and items.is_open,
        "rows": page.object_list,
        "query": query.urlencode(),
        "search": search,
        "is_filtered": any((search.words, search.team, search.profile)),
        "team_select": team_select(request, search.team),
        "profiles": list(Profile.objects.visible_to(user).values_list("slug", "title")),
        "edits_reasons": user.is_superuser or any(role in LEADS for role in reader_roles(request).values()),
    }


def team_select(request: HttpRequest, chosen: str) -> str:
    """Return the `<select>` of the teams that the reader sees, "" for fewer than two."""
    if user_of(request).is_superuser:
        slugs = list(Team.objects.values_list("slug", flat=True))
    else:
        slugs = sorted(team.slug for team in reader_roles(request))
    if len(slugs) < 2:
        return ""
    choices = [("", "Any team"), *((slug, slug) for slug in slugs)]
    select = KeySelect(attrs={"class": "form-select", "aria-label": "Team"}, choices=choices)
    return select.render("team", chosen)


def current_tab(request: HttpRequest) -> Tab:
    return next((tab for tab in TABS if tab == request.GET.get("tab")), "mine")


def inbox_search(request: HttpRequest) -> InboxSearch:
    words, team, profile = (request.GET.get(name, "").strip()[:200] for name in ("q", "team", "profile"))
    return InboxSearch(words, team, profile)


def inbox_csv(request: HttpRequest) -> HttpResponse:
    """Return every row of the tab that the address asks for."""
    tab = current_tab(request)
    items = Inbox(user_of(request), inbox_search(request)).tab(tab)
    columns = ("Kind", "Name", "Request", "Team", "Requester", "Requested at", "Age", "Decision")
    return csv_response(f"approvals-{tab}", (*columns, "Decided by", "Decided at"), map(csv_row, items[:]))


def csv_row(item: Item) -> tuple[object, ...]:
    return (
        *(item.label, item.title, item.summary, item.team.slug, item.requester.username),
        *(item.requested_at.isoformat(), "" if item.decision else item.age_label, item.decision),
        item.decided_by.username if item.decided_by else None,
        item.decided_at.isoformat() if item.decided_at else None,
    )


def thread_context(
    subject: Claim | QuotaRequest, user: User, role: Role | None, *, is_empty: bool = False
) -> dict[str, Any]:
    """Return the context of a thread for a reader with this role in the team; `may_write`: may comment."""
    comments = [] if is_empty else list(subject.comments.select_related("by"))
    if isinstance(subject, Claim):
        pending, requester = subject.state == ClaimState.REQUESTED, subject.requested_by
    else:
        pending, requester = subject.status == RequestStatus.WAITING, subject.requested_by
    return {
        "thread": comments,
        "thread_key": str(uuid4()),
        "question": open_question(comments) if pending else None,
        "requester": requester,
        "requester_label": requester.label,
        "may_write": role is not None and role.rank >= Role.MEMBER.rank,
    }


def extension_for(request: HttpRequest, extension_id: UUID) -> Extension:
    return pending_for(user_of(request), EXTENSIONS, extension_id)


def quota_request_for(request: HttpRequest, request_id: UUID) -> QuotaRequest:
    return pending_for(user_of(request), QUOTA_REQUESTS, request_id)


def pending_for[M: PendingRequest](
    user: User, queries: Mapping[bool, PreparedObjects[M]], request_id: UUID
) -> M:
    """Return the request by its id, 404 for an outsider; `queries` are by whether the reader is an admin."""
    for row in queries[user.is_superuser].objects(user.pk, request_id):
        return row
    raise Http404


def _pending[M: PendingRequest](model: type[M], *related: str) -> dict[bool, PreparedObjects[M]]:
    def query(*, is_admin: bool) -> PreparedObjects[M]:
        def build(person: UUID, request_id: UUID) -> QuerySet[M]:
            rows: Any = model._default_manager
            visible: QuerySet[M] = rows.visible_to(User(pk=person, is_superuser=is_admin))
            return visible.filter(pk=request_id).order_by().select_related(*related)

        return PreparedObjects(build, UUID, UUID)

    return {is_admin: query(is_admin=is_admin) for is_admin in (False, True)}


EXTENSIONS = _pending(
    Extension,
    *("claim__team", "claim__cluster", "claim__profile_version__profile", "claim__requested_by"),
    *("requested_by", "decided_by"),
)
QUOTA_REQUESTS = _pending(QuotaRequest, "team", "profile", "budget__team", "requested_by", "decided_by")


def extension_card(request: HttpRequest, extension_id: UUID) -> dict[str, Any]:
    extension = extension_for(request, extension_id)
    claim, pending = extension.claim, extension.status == RequestStatus.WAITING
    reason = (
        reason_not_to_decide(user_of(request), claim, requester=extension.requested_by) if pending else ""
    )
    return pending_request_card(extension, "claims/inbox/_extension_card.html", reason) | {
        "title": claim.name,
        "extension": extension,
        "claim": claim,
        "pods_after_end": pods_after_end(claim.end_policy),
        "budgets": extension_lines(extension) if pending else [],
        "reasons": reasons_for(claim.team) if pending else [],
    }


def quota_request_card(request: HttpRequest, request_id: UUID) -> dict[str, Any]:
    quota_request, user = quota_request_for(request, request_id), user_of(request)
    team, pending = quota_request.team, quota_request.status == RequestStatus.WAITING
    kind = request_kind(quota_request)
    reason = f"Only platform admins decide on {kind.lower()}." if pending and not user.is_superuser else ""
    template = f"claims/inbox/_{kind.lower()}_request_card.html"
    return pending_request_card(quota_request, template, reason) | {
        "title": f"{kind} request of {team}",
        "quota_request": quota_request,
        "may_withdraw": not reason_not_to_withdraw(user, quota_request, role_in(user, team)),
        **(extra_parts if quota_request.budget_id else quota_parts)(quota_request, request.POST.dict()),
        "reasons": reasons_for(team) if pending else [],
        **thread_context(quota_request, user, role_in(user, team)),
    }


def quota_parts(quota_request: QuotaRequest, typed: dict[str, Any]) -> dict[str, Any]:
    """Return what the card of a request for quota shows beside what all cards do."""
    grant = QuotaGrantForm(initial={"devices": quota_request.devices, "until": quota_request.until} | typed)
    return {"quota_impact": request_impact(quota_request), "grant": grant}


def extra_parts(quota_request: QuotaRequest, typed: dict[str, Any]) -> dict[str, Any]:
    """Return the same of a request for extra budget."""
    asked = {"amount": quota_request.amount, "hours": quota_request.hours}
    grant = ExtraGrantForm(quota_request.budget, initial=asked | typed)
    return {"effect": extra_effect(quota_request), "grant": grant}


def pending_request_card(
    pending_request: Extension | QuotaRequest, body: str, blocked_reason: str
) -> dict[str, Any]:
    """Return what the cards of extensions and quota requests share; `body` is the template of the rest."""
    kind = "extension" if isinstance(pending_request, Extension) else "quota_request"
    return {
        "card": "claims/inbox/_pending_request_card.html",
        "card_body": body,
        "current": pending_request.pk,
        "pending_request": pending_request,
        "waiting": pending_request.status == RequestStatus.WAITING,
        "blocked_reason": blocked_reason,
        "approve_url": f"claims:{kind}_approve",
        "deny_url": f"claims:{kind}_deny",
    }


@require_safe
def extension(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    return card_page(request, extension_card(request, extension_id))


@require_POST
def extension_approve(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    extension = extension_for(request, extension_id)

    def approve(note: str) -> str:
        approve_extension(extension=extension, by=user_of(request), note=note)
        return f"Extension of {extension.claim} approved."

    return decision(request, extension_card, extension_id, approve, NoteForm(request.POST))


@require_POST
def extension_deny(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    extension = extension_for(request, extension_id)

    def deny(reason: str) -> str:
        deny_extension(extension=extension, by=user_of(request), reason=reason)
        return f"Extension of {extension.claim} denied."

    return decision(request, extension_card, extension_id, deny, DenyForm(request.POST))


@require_safe
def quota_request(request: HttpRequest, request_id: UUID) -> HttpResponse:
    return card_page(request, quota_request_card(request, request_id))


@require_POST
def quota_request_approve(request: HttpRequest, request_id: UUID) -> HttpResponse:
    quota_request = quota_request_for(request, request_id)
    budget, sent = quota_request.budget, request.POST
    is_extra = budget is not None
    grant: Form = ExtraGrantForm(budget, sent) if is_extra else QuotaGrantForm(sent)

    def approve(note: str) -> str:
        approve_one: Callable[..., object] = approve_extra if is_extra else approve_quota_request
        approve_one(quota_request=quota_request, by=user_of(request), note=note, **grant.cleaned_data)
        return f"{request_kind(quota_request)} request of {quota_request.team} approved."

    return decision(request, quota_request_card, request_id, approve, NoteForm(request.POST), grant)


@require_POST
def quota_request_deny(request: HttpRequest, request_id: UUID) -> HttpResponse:
    quota_request = quota_request_for(request, request_id)

    def deny(reason: str) -> str:
        deny_quota_request(quota_request=quota_request, by=user_of(request), reason=reason)
        return f"{request_kind(quota_request)} request of {quota_request.team} denied."

    return decision(request, quota_request_card, request_id, deny, DenyForm(request.POST))


def decision(
    request: HttpRequest,
    card: Callable[[HttpRequest, UUID], dict[str, Any]],
    pk: UUID,
    decide_on: Callable[[str], str],
    form: Form,
    grant: Form | None = None,
) -> HttpResponse:
    """
    Call `decide_on` with the note and return to the inbox with what it says. The card shows a refusal, and
    what is wrong with `form`, the note, or with `grant`, what else the decision names.
    """
    page: dict[str, Any] = {"note": request.POST.get("note", ""), "note_errors": form.errors.get("note")}
    status = 422
    if form.is_valid() and (grant is None or grant.is_valid()):
        try:
            messages.success(request, decide_on(form.cleaned_data["note"]))
        except (BudgetExceeded, Conflict, Invalid) as refusal:
            page["refusal"], status = refusal, refusal.status
        else:
            return redirect("claims:approvals")
    page |= {"grant": grant} if grant else {}
    page = list_context(request) | card(request, pk) | page
    return render(request, "claims/inbox/approvals.html", page, status=status)


@require_POST
def comment(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    comment = comment_on_claim(claim=claim, by=user_of(request), **comment_fields(request))
    sent = f"Question sent to {claim.requested_by.label}." if comment.question else "Comment added."
    messages.success(request, sent)
    return redirect_back(request, reverse("claims:detail", args=[claim.pk]))


@require_POST
def quota_request_comment(request: HttpRequest, request_id: UUID) -> HttpResponse:
    quota_request = quota_request_for(request, request_id)
    comment_on_quota_request(quota_request=quota_request, by=user_of(request), **comment_fields(request))
    messages.success(request, "Comment added.")
    return redirect_back(request, reverse("claims:quota_request_decision", args=[quota_request.pk]))


def comment_fields(request: HttpRequest) -> dict[str, str]:
    """Return the text and its key; another text is another comment, also after going back to the page."""
    text = request.POST.get("text", "").strip()
    return {"text": text, "key": uuid5(NAMESPACE_OID, f"{request.POST.get('key', '')}\n{text}").hex}


@require_POST
def remind(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Remind those who decide on a request; htmx gets the words that take the place of the button."""
    requests = PendingDecision.objects.visible_to(request.user)
    related = ("team", "claim", "extension", "quota_request", "requester")
    pending = get_object_or_404(requests.select_related(*related), pk=request_id)
    send = partial(remind_deciders, request=pending, by=user_of(request), now=timezone.now())
    return reminded(request, send, decision_address(PendingDecision.Kind(pending.kind), pending.pk))


def reminded(request: HttpRequest, send: Callable[[], list[User]], page: str) -> HttpResponse:
    """
    Send a reminder and return to where the button was, else to `page`. htmx gets the words that take the
    place of the button, and a refusal as an error.
    """
    in_place = bool(request.headers.get("HX-Request"))
    try:
        people = send()
    except Conflict as refusal:
        if in_place:
            raise
        messages.error(request, refusal.message)
    else:
        if in_place:
            return render(request, "claims/inbox/_reminded.html", {"people": people})
        messages.success(request, f"Reminded: {', '.join(person.label for person in people)}.")
    return redirect_back(request, page)


@require_safe
def approvals(request: HttpRequest) -> HttpResponseBase:
    """The list; on wide screens the browser requests the card of its first row."""
    if request.GET.get("format") == "csv":
        return inbox_csv(request)
    page = list_context(request)
    first: Item | None = next(iter(page["rows"]), None)
    card = {"first": first, "current": first.pk if first else None, "on_list": True}
    return render(request, "claims/inbox/approvals.html", page | card)


@require_safe
def approval(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    return card_page(request, claim_card(request, visible_claim(request, claim_id)))


def card_page(request: HttpRequest, card: dict[str, Any]) -> HttpResponse:
    """Return the card to htmx as a fragment, otherwise its page with the list."""
    if request.headers.get("HX-Request"):
        response = render(request, card["card"], card)
    else:
        response = render(request, "claims/inbox/approvals.html", list_context(request) | card)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_safe
def approval_impact(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Return the impact of a pending claim to htmx as a fragment, otherwise its card with the impact."""
    claim = visible_claim(request, claim_id)
    is_part = bool(request.headers.get("HX-Request"))
    if is_part and claim.state != ClaimState.REQUESTED:
        # It was decided meanwhile: the page shows how.
        response = HttpResponse(headers={"HX-Refresh": "true"})
    else:
        authority = ApprovalAuthority(user_of(request), [claim.team])
        impact = None
        if claim.state == ClaimState.REQUESTED:
            impact = claim_impact(claim, authority.rules.for_claim(claim))
        if is_part:
            card = decision_context(claim, authority) | {"impact": impact}
            response = render(request, "claims/inbox/_impact.html", card)
        else:
            card = list_context(request) | claim_card(request, claim, authority) | {"impact": impact}
            response = render(request, "claims/inbox/approvals.html", card)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_POST
def approve(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Approve what the card showed: the spec hash is a field of the form."""
    claim, form = visible_claim(request, claim_id), ApproveForm(request.POST)

    def approve_it(note: str) -> str:
        spec_hash = form.cleaned_data["spec_hash"]
        return approval_message(
            decide.approve(claim=claim, by=user_of(request), spec_hash=spec_hash, note=note)
        )

    return decision(request, card_of_claim, claim_id, approve_it, form)


def approval_message(claim: Claim) -> str:
    """Return the message after an approval."""
    if claim.state == ClaimState.REQUESTED:
        return f"First approval of {claim} recorded. A platform admin decides next."
    return f"{claim} approved. It is being created in {claim.cluster}."


@require_POST
def deny(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Deny the request; without a reason the card asks for one."""
    claim = visible_claim(request, claim_id)

    def deny_it(reason: str) -> str:
        decide.deny(claim=claim, by=user_of(request), reason=reason)
        return f"{claim} denied."

    return decision(request, card_of_claim, claim_id, deny_it, DenyForm(request.POST))


def card_of_claim(request: HttpRequest, claim_id: UUID) -> dict[str, Any]:
    return claim_card(request, visible_claim(request, claim_id))


def decision_context(claim: Claim, authority: ApprovalAuthority) -> dict[str, Any]:
    """Return the context that the card of a claim and its impact share."""
    pending = claim.state == ClaimState.REQUESTED
    return {
        "claim": claim,
        "waiting": pending,
        "total": claim.devices * claim.parallel,
        "blocked_reason": authority.reason_not_to_decide(claim) if pending else "",
    }


def claim_card(
    request: HttpRequest, claim: Claim, authority: ApprovalAuthority | None = None
) -> dict[str, Any]:
    """
    Return the context of a claim's card: the request, and whether this reader decides. Its impact compares
    the request with all devices and profiles, so that `approval_impact` reads it when the card is open.
    """
    pending = claim.state == ClaimState.REQUESTED
    family, icon = LOOK[claim.state]
    user = user_of(request)
    authority = authority or ApprovalAuthority(user, [claim.team])
    _stage, first_approval = approval_stage(claim, authority.rules.for_claim(claim))
    again_url = ""
    if user.pk == claim.requested_by_id and not pending:
        again_url = request_again_url(claim, current_parts(claim, ()))
    return {
        "card": "claims/inbox/_card.html",
        "current": claim.pk,
        "title": claim.name,
        **decision_context(claim, authority),
        "look": {"family": family, "icon": icon},
        "impact": None,
        "decision": None if pending else last_decision(claim),
        "delegator": authority.delegator(claim),
        "first_approval": first_approval,
        "reasons": reasons_for(claim.team) if pending else [],
        "again_url": again_url,
        "approve_label": f"Approve {counted(claim.devices * claim.parallel, 'device')}",
        **thread_context(claim, user, role_in(user, claim.team)),
    }
