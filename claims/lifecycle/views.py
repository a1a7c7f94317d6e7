"""Pages that end, extend, shorten or transfer a claim: the effects, then the button."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods, require_POST

from claims.access import reason_not_to_release, visible_claim
from claims.approvals.forms import EndForm
from claims.catalogue.listing import kinds_for
from claims.delivery.eviction import holding_pods, pods_after_end, pods_named
from claims.lifecycle import services
from claims.lifecycle.extension_rules import ExtensionPolicy, pending_extension, reason_not_to_extend
from claims.lifecycle.facts import Facts, claim_facts
from claims.lifecycle.forms import ExtendForm, ShortenForm, TransferForm
from claims.lifecycle.keep_alive import keep as keep_claim
from claims.lifecycle.services import eligible_owners, withdraw_extension
from claims.lifecycle.services import extend as extend_claim
from claims.lifecycle.services import shorten as shorten_claim
from claims.lifecycle.services import transfer as transfer_claim
from claims.models import Claim, Extension, RequestStatus
from claims.models.limits import Delivery
from claims.plans.changes import request_again_url
from claims.states import RUNNING, ClaimState
from core import undo
from core.attempt import posted
from core.errors import BudgetExceeded, Conflict, Invalid, PortalError
from core.idempotency import on_form
from core.text import counted
from core.times import duration, moment, spell_duration
from inventory.cluster_snapshot import current_snapshot
from inventory.states import EndPolicy
from teams.access import role_in, user_of
from teams.models import User


@dataclass(frozen=True)
class EndAction:
    """One way to end a claim: the question, its consequences, the button, and the service behind it."""

    question: str
    effects: list[tuple[str, str]]  # icon, sentence
    button: str
    done: str
    service: Callable[..., Claim]
    refusal: str = ""  # why it is not possible now


def withdraw_ending(facts: Facts) -> EndAction:
    claim = facts.claim
    return EndAction(
        question=f"Withdraw {claim}?",
        effects=[
            ("user-minus", "Nobody needs to decide on it any more; it cannot be approved later."),
            ("gauge", quota_sentence(claim)),
        ],
        button="Withdraw the request",
        done=f"{claim} is withdrawn.",
        service=services.withdraw,
    )


def release_ending(facts: Facts) -> EndAction:
    claim = facts.claim
    kind = "template" if claim.delivery == Delivery.TEMPLATE else "claim object"
    effects = [("trash", f"The {kind} {claim.name} in {claim.cluster} is deleted.")]
    effects.append(("player-play" if facts.consumers else "circle-check", pods_sentence(facts)))
    if facts.held and facts.consumers:
        effects.append(("coin-euro", "Billing goes on until the last of these pods has ended."))
    effects.append(("gauge", quota_sentence(claim)))
    count = len(facts.held)
    return EndAction(
        question=f"Release {claim}?",
        effects=effects,
        button=f"Release {counted(count, 'device')}" if count else "Release the claim",
        done=f"{claim} is being released.",
        service=services.release,
    )


def evict_ending(facts: Facts) -> EndAction:
    claim, pods = facts.claim, holding_pods(facts.seen)
    names = pods_named(pod.name for pod in pods)
    return EndAction(
        question=f"Evict the pods of {claim}?",
        effects=[
            ("player-eject", f"Kubernetes ends {names}, with the grace period of the pod."),
            ("shield-lock", "A PodDisruptionBudget may refuse it; the portal then keeps trying."),
            ("circle-check", f"{counted(len(facts.held), 'device is', 'devices are')} free once they end."),
            ("refresh", "A Deployment or Job starts its pods again; without the claim they stay pending."),
        ],
        button=f"Evict {counted(len(pods), 'pod')}",
        done=f"The pods of {claim} are being evicted.",
        service=services.evict,
        refusal=services.reason_not_to_evict(claim, [pod.name for pod in pods]),
    )


def pods_sentence(facts: Facts) -> str:
    count, policy = len(facts.consumers), facts.claim.end_policy
    if not count:
        return "No pod uses it now."
    names = ", ".join(pod.name for pod in facts.consumers[:3]) + (" …" if count > 3 else "")
    pods = counted(count, "pod")
    if policy == EndPolicy.EVICT:
        notice = duration(settings.EVICTION_NOTICE)
        return f"{pods} {'is' if count == 1 else 'are'} evicted {notice} after the end: {names}."
    by_hand = " or is evicted by hand" if count == 1 else " or are evicted by hand"
    more = by_hand if policy == EndPolicy.ASK else ""
    return (
        f"{pods} keeps running with its devices until it ends{more}: {names}."
        if count == 1
        else f"{pods} keep running with their devices until they end{more}: {names}."
    )


def quota_sentence(claim: Claim) -> str:
    count = claim.devices * claim.parallel
    return f"{counted(count, 'device goes', 'devices go')} back to the quota of {claim.team}."


@require_http_methods(["GET", "HEAD", "POST"])
def withdraw(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    return end_claim(request, claim_id, withdraw_ending, (ClaimState.REQUESTED,))


@require_http_methods(["GET", "HEAD", "POST"])
def release(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    return end_claim(request, claim_id, release_ending, RUNNING)


@require_http_methods(["GET", "HEAD", "POST"])
def evict(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    return end_claim(request, claim_id, evict_ending, (ClaimState.RELEASING,))


def end_claim(
    request: HttpRequest,
    claim_id: UUID,
    ending_of: Callable[[Facts], EndAction],
    possible: tuple[ClaimState, ...],
) -> HttpResponse:
    """Show the effects on GET, end the claim on POST: 403 for those who may not, 409 if it is too late."""
    facts = claim_facts(visible_claim(request, claim_id), user_of(request))
    claim = facts.claim
    if reason := reason_not_to_release(user_of(request), claim, facts.role):
        raise PermissionDenied(reason)
    ending, form = ending_of(facts), EndForm(posted(request))
    page = {"claim": claim, "ending": ending, "form": form}
    if request.method != "POST":
        if ending.refusal:
            page["refusal"] = Conflict(ending.refusal)
        elif claim.state not in possible:
            page["refusal"] = too_late_to_end(claim)

    def act() -> None:
        ending.service(claim=claim, by=user_of(request), reason=form.cleaned_data["reason"])
        show_ended(request, facts, ending)

    return ask_or_act(request, "end", page, form, act)


def show_ended(request: HttpRequest, facts: Facts, ending: EndAction) -> None:
    """A withdrawn request cannot be restored, so the page offers to request the same again."""
    if ending.service is services.withdraw:
        again = request_again_url(facts.claim, facts.alternatives)
        undo.offer(request, ending.done, again, "Request again", post=False)
    else:
        messages.success(request, ending.done)


def too_late_to_end(claim: Claim) -> PortalError:
    return Conflict(f"{claim} is “{claim.get_state_display()}”; there is nothing left to end.")


type PageContext = dict[str, Any]


def owned_claim(request: HttpRequest, claim_id: UUID) -> Claim:
    """Return the claim for its owner or a lead; 404 for an outsider, 403 for anybody else."""
    claim = visible_claim(request, claim_id)
    user = user_of(request)
    if reason := reason_not_to_release(user, claim, role_in(user, claim.team)):
        raise PermissionDenied(reason)
    return claim


def reason_not_to_change_end(claim: Claim) -> PortalError | None:
    """Return why the end of this claim cannot change at all, None if it can."""
    if claim.state not in RUNNING or claim.expires_at is None:
        return Conflict(f"{claim} is “{claim.get_state_display()}”; only a running claim has an end date.")
    return None


@require_http_methods(["GET", "HEAD", "POST"])
def extend(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Show the usual spans with what each needs; with `until` in the address show what that end needs."""
    claim, user = owned_claim(request, claim_id), user_of(request)
    refusal = reason_not_to_change_end(claim)
    if refusal is None and (reason := reason_not_to_extend(claim)):
        refusal = Conflict(reason)
    if refusal is not None or claim.expires_at is None:
        return ask_or_act(request, "extend", {"claim": claim, "refusal": refusal})
    policy = ExtensionPolicy(claim, by=user)
    options = policy.options()
    proposed = next((span for span, option in options if option.at_once), timedelta(hours=24))
    possible = [span for span, option in options if not option.is_refused]
    sent = request.POST if request.method == "POST" else None
    form = ExtendForm(sent, end=claim.expires_at, span=proposed if proposed in possible else None)
    page: PageContext = {
        "claim": claim,
        "form": form,
        "options": [(spell_duration(span), span, option) for span, option in options],
        "reasons": dict.fromkeys(option.why for _span, option in options),
        "is_decided": any(option.who for _span, option in options),
        "kinds": kinds_for(claim.cluster_id, current_snapshot(claim.cluster), claim.spec),
        "devices": claim.devices * claim.parallel,
        "waiting": pending_extension(claim),
        "pods_after_end": pods_after_end(claim.end_policy),
    }
    if request.GET.get("until"):
        typed_form = ExtendForm(request.GET.dict() | {"span": ""}, end=claim.expires_at)
        later = typed_form.is_valid() and typed_form.cleaned_data["until"] > claim.expires_at
        if later:
            option = policy.option(typed_form.cleaned_data["until"])
            page |= {"option": option, "span": option.until - claim.expires_at}
        if request.headers.get("HX-Request"):
            return render(request, "claims/lifecycle/extend.html#typed", page)

    def act() -> None:
        cleaned = form.cleaned_data
        fields = {name: cleaned[name] for name in ("until", "reason", "key")}
        extension = extend_claim(claim=claim, by=user, **fields)
        if extension.status == RequestStatus.APPROVED:
            messages.success(request, f"{claim} now ends on {moment(extension.until)}.")
        else:
            messages.success(request, f"You asked to keep {claim} until {moment(extension.until)}.")

    return ask_or_act(request, "extend", page, form, act)


@require_POST
def extend_undo(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Undo a shortening: the button of a toast."""
    claim = owned_claim(request, claim_id)
    until = parse_datetime(request.GET.get("until", ""))
    if until is None or until.tzinfo is None:
        return ask_or_act(request, "extend", {"claim": claim, "refusal": Invalid("Say until when.")})
    if claim.expires_at == until:  # pressed twice
        return redirect("claims:detail", claim.pk)

    def act() -> None:
        extend_claim(claim=claim, by=user_of(request), until=until, key=str(uuid4()))
        messages.success(request, f"{claim} ends on {moment(until)} again.")

    return ask_or_act(request, "extend", {"claim": claim}, None, act)


@require_POST
def keep(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Keep a claim until its own end, whether or not the program that requested it is alive."""
    claim = visible_claim(request, claim_id)
    keep_claim(claim=claim, by=user_of(request))
    messages.success(request, f"{claim} stays until its own end; its program need not renew it any more.")
    return redirect("claims:detail", claim.pk)


@require_http_methods(["GET", "HEAD", "POST"])
def shorten(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim, user = owned_claim(request, claim_id), user_of(request)
    page: PageContext = {"claim": claim, "refusal": reason_not_to_change_end(claim)}
    if page["refusal"] is not None or claim.expires_at is None:
        return ask_or_act(request, "shorten", page)
    was = claim.expires_at
    form = ShortenForm(
        request.POST if request.method == "POST" else None, initial={"until": claim.expires_at}
    )
    page |= {"form": form, "pods": pods_sentence(claim_facts(claim, user))}

    def act() -> None:
        shortened = shorten_claim(claim=claim, by=user, until=form.cleaned_data["until"])
        message = f"{claim} now ends on {moment(form.cleaned_data['until'])}."
        if shortened.expires_at == was:
            messages.success(request, message)
            return
        back = f"{reverse('claims:extend_undo', args=[claim.pk])}?{urlencode({'until': was.isoformat()})}"
        undo.offer(request, message, back)

    return ask_or_act(request, "shorten", page, form, act)


@require_http_methods(["GET", "HEAD", "POST"])
def transfer(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim, user = owned_claim(request, claim_id), user_of(request)
    people = [person for person in eligible_owners(claim.team) if person != claim.requested_by]
    form = TransferForm(request.POST if request.method == "POST" else None, heirs=people)
    page: PageContext = {"claim": claim, "form": form, "nobody": not people}
    if claim.state not in RUNNING:
        page["refusal"] = Conflict(
            f"{claim} is “{claim.get_state_display()}”; only a running claim can be transferred."
        )

    def act() -> None:
        old, to = claim.requested_by, form.cleaned_data["to"]
        transfer_claim(claim=claim, by=user, to=to)
        back = f"{reverse('claims:transfer_undo', args=[claim.pk])}?{urlencode({'to': old.username})}"
        undo.offer(request, f"{claim} is {to.label}'s now.", back)

    return ask_or_act(request, "transfer", page, form, act)


@require_POST
def transfer_undo(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Undo a transfer: the button of a toast. The service decides whether it may be undone."""
    claim = visible_claim(request, claim_id)
    to = get_object_or_404(User, username=request.GET.get("to", ""), memberships__team=claim.team)

    def act() -> None:
        transfer_claim(claim=claim, by=user_of(request), to=to)
        messages.success(request, f"{claim} is {to.label}'s again.")

    return ask_or_act(request, "transfer", {"claim": claim}, None, act)


@require_POST
def extension_withdraw(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    visible = Extension.objects.visible_to(request.user).select_related("claim__team")
    extension = get_object_or_404(visible, pk=extension_id)

    def act() -> None:
        withdraw_extension(extension=extension, by=user_of(request))
        messages.success(request, f"Extension request for {extension.claim} withdrawn.")

    return ask_or_act(request, "extend", {"claim": extension.claim}, None, act)


def ask_or_act(
    request: HttpRequest,
    name: str,
    page: Mapping[str, Any],
    form: forms.Form | None = None,
    act: Callable[[], None] | None = None,
) -> HttpResponse:
    """
    Show the form on GET; on POST act and return to the claim, or show the reason: 422 for malformed input,
    409 if it is too late or beyond a budget.
    """
    template, claim = f"claims/lifecycle/{name}.html", page["claim"]
    if request.method != "POST":
        return render(request, template, page)
    refusal: PortalError | None = page.get("refusal")
    if refusal is not None or act is None:
        return render(request, template, page, status=refusal.status if refusal else 409)
    if form is not None and not form.is_valid():
        return render(request, template, page, status=422)
    try:
        act()
    except (Invalid, BudgetExceeded) as problem:
        if form is None:
            return render(request, template, {**page, "refusal": problem}, status=problem.status)
        form.add_error("until" if "until" in form.fields else None, on_form(problem, form).message)
        return render(request, template, page, status=problem.status)
    except Conflict as problem:
        return render(request, template, {**page, "refusal": problem}, status=problem.status)
    return redirect("claims:detail", claim.pk)
