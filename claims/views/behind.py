"""Putting right what others did to the object of a claim."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from claims import services
from claims.access import claim_for
from claims.forms import EndForm
from claims.views.facts import facts_of
from claims.views.mending import mending_of
from core.errors import Conflict
from teams.access import asker


@require_http_methods(["GET", "HEAD", "POST"])
def accept(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Ask on GET, do on POST: 403 for all but platform admins, 409 where there is nothing to accept."""
    facts = facts_of(claim_for(request, claim_id), asker(request))
    claim = facts.claim
    if not asker(request).is_platform_admin:
        raise PermissionDenied(_("Only a platform admin may accept another object."))
    form = EndForm(request.POST if request.method == "POST" else None)
    page = {"claim": claim, "form": form, "written": facts.seen.written}
    if request.method != "POST":
        mending = mending_of(facts, asker(request))
        if mending is None or not mending.may_accept:
            none = _("%(claim)s has no new object that asks for what was approved.") % {"claim": claim}
            page["refusal"] = Conflict(none)
        return render(request, "claims/accept.html", page)
    if not form.is_valid():
        return render(request, "claims/accept.html", page, status=422)
    try:
        services.accept_object(claim=claim, by=asker(request), reason=form.cleaned_data["reason"])
    except Conflict as refusal:
        return render(request, "claims/accept.html", page | {"refusal": refusal}, status=refusal.status)
    messages.success(request, _("The new object is now the one of %(claim)s.") % {"claim": claim})
    return redirect("claims:detail", claim.pk)


@require_POST
def label(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = claim_for(request, claim_id)
    services.label_again(claim=claim, by=asker(request))
    messages.success(request, _("The label of the portal is being written to %(claim)s.") % {"claim": claim})
    return redirect("claims:detail", claim.pk)
