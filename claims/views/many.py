"""One action on several claims: first what it would do to each, then one button, then what became of each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from claims.forms.many import ManyForm
from claims.life import many
from claims.models import Claim
from claims.observed.labels import ids as ids_of
from claims.views.listing import listing_of
from core.errors import Invalid
from teams.access import asker
from teams.models import Role, Team, User


@require_http_methods(["GET", "HEAD", "POST"])
def several(request: HttpRequest) -> HttpResponse:
    """Preview on GET, do on POST; what cannot be done to one claim stands beside it."""
    said = request.POST if request.method == "POST" else request.GET
    try:
        claims = many.chosen(asker(request), chosen_ids(request))
    except Invalid as refusal:
        return render(request, "claims/many.html", {"refusal": refusal}, status=refusal.status)
    form = ManyForm(said, people=heirs_of(claims))
    page: dict[str, Any] = {"form": form, "claims": claims, "action": said.get("action", "")}
    if not claims or not form.is_valid():
        # Before somebody has said by how much or to whom, there is nothing wrong yet.
        status = 422 if request.method == "POST" else 200
        return render(request, "claims/many.html", page, status=status)
    wish = dict(form.cleaned_data)
    wish["action"] = many.Action(wish["action"])
    order = many.Order(**wish, key=said.get("key") or uuid.uuid4().hex)
    page |= {"order": order, "label": order.action.label}
    if request.method == "POST":
        page["results"] = results = many.do(asker(request), claims, order)
        page["done"] = done = sum(not result.refusal for result in results)
        return render(request, "claims/many.html", page, status=200 if done == len(results) else 409)
    lines = sorted(many.preview(asker(request), claims, order), key=lambda line: bool(line.reason_not))
    page["lines"] = lines  # what can be done comes first
    page["ready"] = ready = [line for line in lines if not line.reason_not]
    page["devices"], page["pods"] = sum(line.devices for line in ready), sum(line.pods for line in ready)
    return render(request, "claims/many.html", page)


def chosen_ids(request: HttpRequest) -> list[UUID]:
    """Return the claims that are ticked; with `all`, every claim that the list's own address asks for."""
    if request.method != "POST" and request.GET.get("all"):
        # One more than can be done at once: enough to say that it is too many.
        return list(listing_of(request).rows.values_list("pk", flat=True)[: many.MOST + 1])
    said = request.POST if request.method == "POST" else request.GET
    return list(dict.fromkeys(ids_of(said.getlist("claim"))))


def heirs_of(claims: Sequence[Claim]) -> QuerySet[User]:
    """Return who could own claims in any of the teams concerned; the preview says which they cannot have."""
    teams = Team.objects.filter(pk__in={claim.team_id for claim in claims})
    roles = [role for role in Role if role.rank >= Role.MEMBER.rank]
    members = User.objects.filter(is_active=True, memberships__team__in=teams, memberships__role__in=roles)
    return members.distinct().order_by("username")
