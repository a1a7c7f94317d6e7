"""Standing in for a lead: who for whom, and from when to when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from claims import services
from claims.forms import AwayForm
from claims.models import Delegation
from core.errors import Conflict, Invalid
from teams.access import asker, people_in, team_for
from teams.models import Membership, Role, Team, User


@require_http_methods(["GET", "HEAD", "POST"])
def away(request: HttpRequest) -> HttpResponse:
    """The reader's stand-ins and those they stand in for; a form per team that they lead."""
    if request.method != "POST":
        return render(request, "claims/away.html", page_of(request))
    user = asker(request)
    team = team_for(user, request.POST.get("team", ""), at_least=Role.LEAD)
    form = form_for(user, team, request)
    if not form.is_valid():
        return render(request, "claims/away.html", page_of(request, team, form), status=422)
    try:
        row = services.delegate(by=user, team=team, **form.cleaned_data)
    except (Invalid, Conflict) as refusal:
        form.add_error(None, refusal.message)
        return render(request, "claims/away.html", page_of(request, team, form), status=refusal.status)
    messages.success(request, _("%(person)s stands in for you.") % {"person": row.to.label})
    return redirect("claims:away")


@require_POST
def away_end(request: HttpRequest, delegation_id: UUID) -> HttpResponse:
    user = asker(request)
    mine = Delegation.objects.filter(Q(lead=user) | Q(to=user)).select_related("team", "lead", "to")
    row = services.end_delegation(by=user, delegation=get_object_or_404(mine, pk=delegation_id))
    messages.success(
        request,
        _("%(to)s does not decide for %(lead)s any more.") % {"to": row.to.label, "lead": row.lead.label},
    )
    return redirect("claims:away")


def page_of(request: HttpRequest, team: Team | None = None, bound: AwayForm | None = None) -> dict[str, Any]:
    user, now = asker(request), timezone.now()
    roles = [role for role in Role if role.rank >= Role.LEAD.rank]
    led = Membership.objects.filter(user=user, role__in=roles).select_related("team").order_by("team__slug")
    mine = Delegation.objects.filter(Q(lead=user) | Q(to=user)).select_related("team", "lead", "to")
    return {
        "forms": [
            (row.team, bound if bound and team == row.team else form_for(user, row.team)) for row in led
        ],
        "current": [(row, row.starts_at <= now) for row in mine.filter(ends_at__gt=now)],
        "past": mine.filter(ends_at__lte=now).order_by("-ends_at")[:20],
    }


def form_for(user: User, team: Team, request: HttpRequest | None = None) -> AwayForm:
    people = [
        person
        for person in people_in(team, at_least=Role.MEMBER)
        if person != user and not person.is_superuser
    ]
    now = timezone.localtime().replace(second=0, microsecond=0)
    initial = {"starts_at": now, "ends_at": now + timedelta(days=7)}
    form = AwayForm(request.POST if request else None, people=people, initial=initial)
    form.auto_id = f"id_{team.slug}_%s"
    return form
