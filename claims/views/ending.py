"""Withdrawing and releasing: a page that says what will happen, and the button that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from claims import services
from claims.access import claim_for, reason_not_to_end
from claims.forms import EndForm
from claims.models import Claim
from claims.models.profile import Delivery
from claims.request.alternatives import again_url
from claims.states import RUNNING, ClaimState
from claims.views.facts import Facts, facts_of
from core import undo
from core.errors import Conflict, PortalError
from teams.access import asker


@dataclass(frozen=True)
class Ending:
    """One way to end a claim: the question, its consequences, the button, and the service behind it."""

    question: str
    effects: list[tuple[str, str]]  # icon, sentence
    button: str
    done: str
    service: Callable[..., Claim]


def withdraw_ending(facts: Facts) -> Ending:
    claim = facts.claim
    return Ending(
        question=_("Withdraw %(claim)s?") % {"claim": claim},
        effects=[
            ("user-minus", _("Nobody needs to decide on it any more; it cannot be approved later.")),
            ("gauge", back_to_quota(claim)),
        ],
        button=_("Withdraw the request"),
        done=_("%(claim)s is withdrawn.") % {"claim": claim},
        service=services.withdraw,
    )


def release_ending(facts: Facts) -> Ending:
    claim = facts.claim
    kind = _("template") if claim.delivery == Delivery.TEMPLATE else _("claim object")
    where = {"kind": kind, "name": claim.name, "cluster": claim.cluster}
    effects = [("trash", _("The %(kind)s %(name)s in %(cluster)s is deleted.") % where)]
    effects.append(("player-play" if facts.consumers else "circle-check", what_pods_do(facts)))
    if facts.held and facts.consumers:
        effects.append(("coin-euro", _("Billing goes on until the last of these pods has ended.")))
    effects.append(("gauge", back_to_quota(claim)))
    count = len(facts.held)
    return Ending(
        question=_("Release %(claim)s?") % {"claim": claim},
        effects=effects,
        button=ngettext("Release %(n)d device", "Release %(n)d devices", count) % {"n": count}
        if count
        else _("Release the claim"),
        done=_("%(claim)s is being released.") % {"claim": claim},
        service=services.release,
    )


def what_pods_do(facts: Facts) -> str:
    count = len(facts.consumers)
    if not count:
        return _("No pod uses it now.")
    names = ", ".join(pod.name for pod in facts.consumers[:3]) + (" …" if count > 3 else "")
    return ngettext(
        "%(n)d pod keeps running with its devices until it ends: %(names)s.",
        "%(n)d pods keep running with their devices until they end: %(names)s.",
        count,
    ) % {"n": count, "names": names}


def back_to_quota(claim: Claim) -> str:
    count = claim.devices * claim.parallel
    return ngettext(
        "%(n)d device goes back to the quota of %(team)s.",
        "%(n)d devices go back to the quota of %(team)s.",
        count,
    ) % {"n": count, "team": claim.team}


@require_http_methods(["GET", "HEAD", "POST"])
def withdraw(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    return end(request, claim_id, withdraw_ending, (ClaimState.REQUESTED,))


@require_http_methods(["GET", "HEAD", "POST"])
def release(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    return end(request, claim_id, release_ending, RUNNING)


def end(
    request: HttpRequest,
    claim_id: UUID,
    ending_of: Callable[[Facts], Ending],
    possible: tuple[ClaimState, ...],
) -> HttpResponse:
    """Ask on GET, do on POST: 403 for those who may not, 409 where it is too late."""
    facts = facts_of(claim_for(request, claim_id), asker(request))
    claim = facts.claim
    if reason := reason_not_to_end(asker(request), claim, facts.role):
        raise PermissionDenied(reason)
    ending, form = ending_of(facts), EndForm(request.POST if request.method == "POST" else None)
    page = {"claim": claim, "ending": ending, "form": form}
    if request.method != "POST":
        if claim.state not in possible:
            page["refusal"] = too_late(claim)
        return render(request, "claims/end.html", page)
    if not form.is_valid():
        return render(request, "claims/end.html", page, status=422)
    try:
        ending.service(claim=claim, by=asker(request), reason=form.cleaned_data["reason"])
    except Conflict as refusal:
        return render(request, "claims/end.html", page | {"refusal": refusal}, status=refusal.status)
    say_ended(request, facts, ending)
    return redirect("claims:detail", claim.pk)


def say_ended(request: HttpRequest, facts: Facts, ending: Ending) -> None:
    """A request that was withdrawn cannot come back; the next best thing is the same one again."""
    if ending.service is services.withdraw:
        again = again_url(facts.claim, facts.alternatives)
        undo.offer(request, ending.done, again, _("Ask again"), post=False)
    else:
        messages.success(request, ending.done)


def too_late(claim: Claim) -> PortalError:
    return Conflict(
        _("%(claim)s is “%(state)s”; there is nothing left to end.")
        % {"claim": claim, "state": claim.get_state_display()}
    )
