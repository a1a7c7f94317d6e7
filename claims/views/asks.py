"""The cards of the inbox for more time and for more quota, and the answers to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from claims.approval import approvals
from claims.approval.reasons import reasons_for
from claims.forms.quota_ask import QuotaGrantForm
from claims.models import Answer, Extension, QuotaRequest
from claims.quota.asks import impact_of
from claims.services.extend import approve_extension, deny_extension
from claims.services.quota_requests import (
    approve_quota_request,
    deny_quota_request,
    reason_not_to_withdraw,
)
from claims.views.inbox import list_of
from claims.views.talk import thread_of
from core.errors import Conflict, Invalid, PortalError
from teams.access import asker, role_in


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
    waits = one.answer == Answer.WAITING
    reason = approvals.reason_not_to_decide(asker(request), one.claim, asked_by=one.asked_by)
    return ask_card(one, "claims/_extension_card.html", reason if waits else "") | {
        "title": one.claim.name,
        "extension": one,
        "claim": one.claim,
        "reasons": reasons_for(one.claim.team) if waits else [],
    }


def quota_request_card(request: HttpRequest, request_id: UUID) -> dict[str, Any]:
    one = quota_request_for(request, request_id)
    reason = ""
    if one.answer == Answer.WAITING and not asker(request).is_superuser:
        reason = _("Only a platform admin decides on quota.")
    return ask_card(one, "claims/_quota_request_card.html", reason) | {
        "title": _("More quota for %(team)s") % {"team": one.team},
        "quota_request": one,
        "quota_impact": impact_of(one),
        "may_withdraw": not reason_not_to_withdraw(asker(request), one, role_in(asker(request), one.team)),
        "grant": QuotaGrantForm(initial={"devices": one.devices, "until": one.until}),
        "reasons": reasons_for(one.team) if one.answer == Answer.WAITING else [],
        **thread_of(one, asker(request)),
    }


def ask_card(one: Extension | QuotaRequest, body: str, reason_not: str) -> dict[str, Any]:
    kind = "extension" if isinstance(one, Extension) else "quota_request"
    return {
        "card": "claims/_ask_card.html",
        "card_body": body,
        "current": one.pk,
        "ask": one,
        "waiting": one.answer == Answer.WAITING,
        "reason_not": reason_not,
        "approve_url": f"claims:{kind}_approve",
        "deny_url": f"claims:{kind}_deny",
    }


@require_safe
def extension(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    page = list_of(request) | extension_card(request, extension_id)
    return render(request, "claims/approvals.html", page)


@require_POST
def extension_approve(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    one = extension_for(request, extension_id)

    def act() -> str:
        approve_extension(extension=one, by=asker(request), note=request.POST.get("note", "")[:500])
        return _("%(claim)s may be kept longer.") % {"claim": one.claim}

    return answered(request, act, lambda: extension_card(request, extension_id))


@require_POST
def extension_deny(request: HttpRequest, extension_id: UUID) -> HttpResponse:
    one = extension_for(request, extension_id)

    def act() -> str:
        deny_extension(extension=one, by=asker(request), reason=request.POST.get("note", "")[:500])
        return _("%(claim)s keeps its end.") % {"claim": one.claim}

    return answered(request, act, lambda: extension_card(request, extension_id))


@require_safe
def quota_request(request: HttpRequest, request_id: UUID) -> HttpResponse:
    page = list_of(request) | quota_request_card(request, request_id)
    return render(request, "claims/approvals.html", page)


@require_POST
def quota_request_approve(request: HttpRequest, request_id: UUID) -> HttpResponse:
    one = quota_request_for(request, request_id)

    def act() -> str:
        grant = QuotaGrantForm(request.POST)
        if not grant.is_valid():
            raise Invalid(" ".join(str(message) for errors in grant.errors.values() for message in errors))
        note = request.POST.get("note", "")[:500]
        approve_quota_request(quota_request=one, by=asker(request), note=note, **grant.cleaned_data)
        return _("%(team)s has the quota that it asked for.") % {"team": one.team}

    return answered(request, act, lambda: quota_request_card(request, request_id))


@require_POST
def quota_request_deny(request: HttpRequest, request_id: UUID) -> HttpResponse:
    one = quota_request_for(request, request_id)

    def act() -> str:
        deny_quota_request(quota_request=one, by=asker(request), reason=request.POST.get("note", "")[:500])
        return _("The quota of %(team)s stays as it is.") % {"team": one.team}

    return answered(request, act, lambda: quota_request_card(request, request_id))


def answered(
    request: HttpRequest, act: Callable[[], str], card: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """Do what was decided and go back to the inbox; where it cannot be, the card says why."""
    try:
        messages.success(request, act())
    except (Conflict, Invalid) as error:
        refusal: PortalError = error
        said = {"refusal": refusal, "note": request.POST.get("note", "")}
        page = list_of(request) | card() | said
        return render(request, "claims/approvals.html", page, status=refusal.status)
    return redirect("claims:approvals")
