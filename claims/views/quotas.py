"""What teams may hold at once, how much of it they do, and which claims add up to the figure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from claims.forms import QuotaForm
from claims.models import Answer, Profile, Quota, QuotaRequest
from claims.quota.parts import parts_of
from claims.quota.quotas import Standing, label_of, standing, standing_of
from claims.services import set_quota
from core.sheets import sheet, wants_sheet
from inventory.models import DeviceClass
from teams.access import asker, is_platform_admin, role_in, teams_where
from teams.models import Role, Team


@dataclass(frozen=True)
class TeamRows:
    team: Team
    rows: list[Standing]


@require_safe
def quotas(request: HttpRequest) -> HttpResponse:
    page = quotas_page(request, QuotaForm())
    if wants_sheet(request):
        return quotas_sheet([row for group in page["groups"] for row in group.rows])
    return render(request, "claims/quotas.html", page)


def quotas_sheet(rows: list[Standing]) -> HttpResponse:
    heads = (
        *(_("Team"), _("Quota of"), _("Counts"), _("Limit"), _("Held"), _("Reserved")),
        *(_("Outside the portal"), _("Free"), _("Over"), _("Guaranteed")),
    )
    cells = (
        (
            *(row.team.slug, row.label, row.quota.get_counts_display(), row.limit, row.held, row.reserved),
            *(row.outside, row.free, row.over, row.quota.guaranteed),
        )
        for row in rows
    )
    return sheet("quotas", heads, cells)


def parts_sheet(found: Quota) -> HttpResponse:
    """Every claim and every object outside the portal in the figure of a quota."""
    parts = parts_of(found)
    heads = (_("Claim"), _("State"), _("Who"), _("Counts as"), _("Devices"))
    cells: list[tuple[object, ...]] = [
        (
            *(part.claim.name, part.claim.get_state_display(), part.claim.requested_by.username),
            *(_("reserved") if part.reserved else _("held"), part.devices),
        )
        for part in parts.claims
    ]
    cells += [
        (part.use.name, part.use.kind, part.use.namespace, _("outside the portal"), part.devices)
        for part in parts.outside
    ]
    return sheet(f"quota-{found.team.slug}-{slugify(label_of(found)) or found.counts}", heads, cells)


def quotas_page(request: HttpRequest, form: QuotaForm) -> dict[str, Any]:
    teams = teams_where(request.user, at_least=Role.VIEWER)
    wanted = request.GET.get("team", "")
    shown = [team for team in teams if team.slug == wanted] if wanted else teams
    rows = sorted(standing(shown), key=lambda row: (row.team.slug, *rank(row)))
    grouped = [TeamRows(team, list(group)) for team, group in groupby(rows, key=lambda row: row.team)]
    without = [team for team in shown if team not in {group.team for group in grouped}]
    return {
        "groups": grouped + [TeamRows(team, []) for team in without],
        "teams": teams,
        "wanted": wanted,
        "is_admin": is_platform_admin(request.user),
        "over": [row for row in rows if row.over],
        "asking": {team.pk for team in teams_where(request.user, at_least=Role.MEMBER)},
        "waiting": QuotaRequest.objects.visible_to(request.user).filter(answer=Answer.WAITING).count(),
        "form": form,
        "classes": DeviceClass.objects.filter(gone_at=None)
        .values_list("name", flat=True)
        .distinct()
        .order_by("name"),
        "profiles": Profile.objects.filter(retired_at=None),
    }


def rank(row: Standing) -> tuple[int, str]:
    """Order the quotas of a team: classes first, then profiles, then claims."""
    if row.quota.counts == Quota.Counts.CLAIMS:
        return 2, ""
    return int(bool(row.quota.profile_id)), row.label


def may_ask(request: HttpRequest, team: Team) -> bool:
    role = role_in(request.user, team)
    return role is not None and role.rank >= Role.MEMBER.rank


@require_safe
def quota(request: HttpRequest, quota_id: UUID) -> HttpResponse:
    """One quota with every claim in its figure; as a fragment it opens below its row."""
    found = get_object_or_404(
        Quota.objects.visible_to(request.user).select_related("team", "profile"), pk=quota_id
    )
    if wants_sheet(request):
        return parts_sheet(found)
    page = {
        "row": standing_of([found])[0],
        "parts": parts_of(found, request.user),
        "is_admin": is_platform_admin(request.user),
        "form": QuotaForm(
            initial={"devices": found.devices, "guaranteed": found.guaranteed, "counts": found.counts}
        ),
        "may_ask": may_ask(request, found.team),
    }
    return render(request, "claims/quota.html", page)


@require_safe
def quota_parts(request: HttpRequest, quota_id: UUID) -> HttpResponse:
    found = get_object_or_404(
        Quota.objects.visible_to(request.user).select_related("team", "profile"), pk=quota_id
    )
    page = {"row": standing_of([found])[0], "parts": parts_of(found, request.user), "drawer": True}
    return render(request, "claims/_quota_parts.html", page)


@require_POST
def quota_set(request: HttpRequest) -> HttpResponse:
    """Make or change a limit. Asked here too, so that a stranger hears 403 before the form is read."""
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only a platform admin sets quotas."))
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return render(request, "claims/quotas.html", quotas_page(request, form), status=422)
    saved = set_quota(by=asker(request), **form.cleaned_data)
    messages.success(
        request,
        _("%(team)s may hold %(n)d × %(what)s.")
        % {"team": saved.team, "n": saved.devices, "what": label_of(saved)},
    )
    return redirect("claims:quotas")
