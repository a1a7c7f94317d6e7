"""Pages of approval rules, delegations and reasons to deny."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.approvals import services
from claims.approvals.authority import LEADS
from claims.approvals.forms import DelegationForm, ReasonForm, RuleForm
from claims.approvals.rules import rule_effect, rule_name
from claims.approvals.services import default_reasons, editable_reasons
from claims.models import ApprovalRule, ReasonTemplate
from core.attempt import Attempt, posted
from core.listing import Column, Listing
from core.times import duration
from teams.access import is_platform_admin, people_in, team_for, teams_where, user_of
from teams.models import Membership, Role, Team, User

RULE_COLUMNS: list[Column[ApprovalRule]] = [
    Column("team", "Team", lambda rule: rule.team or "Every team", sort="team__slug", fixed=True),
    Column(
        "profile",
        "Profile",
        lambda rule: rule.profile or "Every profile",
        sort="profile__slug",
        fixed=True,
    ),
    Column("approval", "Who decides", lambda rule: approval_label(rule), sort="approval"),
    Column(
        "most",
        "Auto-approve up to (devices)",
        lambda rule: rule.automatic_devices,
        sort="automatic_devices",
        numeric=True,
    ),
    Column("longest", "For at most", lambda rule: duration_cell(rule.automatic_duration)),
    Column("escalate", "Escalate to admins after", lambda rule: duration_cell(rule.escalate_after)),
    Column("own", "Own requests allowed", lambda rule: "yes" if rule.self_approval else "no"),
]


def approval_label(rule: ApprovalRule) -> str:
    return capfirst(rule.get_approval_display()) if rule.approval else "As in the profile"


def duration_cell(span: timedelta | None) -> str:
    return duration(span) if span is not None else ""


def require_admin(request: HttpRequest) -> None:
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only platform admins edit approval rules.")


@require_safe
def approval_rules(request: HttpRequest) -> HttpResponseBase:
    require_admin(request)
    listing = Listing(
        request,
        ApprovalRule.objects.select_related("team", "profile"),
        columns=RULE_COLUMNS,
        title="Approval rules",
        search=("team__slug", "profile__slug", "profile__title"),
        sort="team",
    )
    context = {
        "request_ttl": settings.REQUEST_TTL,
        "empty_icon": "route",
        "empty_title": "No approval rules",
        "empty_text": "Each profile defines its own approval.",
    }
    return listing.respond("claims/approvals/approval_rules.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def approval_rule(request: HttpRequest, rule_id: UUID | None = None) -> HttpResponse:
    """Create or change a rule; `preview` shows its effect and saves nothing."""
    require_admin(request)
    rule = (
        get_object_or_404(ApprovalRule.objects.select_related("team", "profile"), pk=rule_id)
        if rule_id
        else None
    )
    if request.method != "POST":
        return rule_page(request, RuleForm(rule=rule), rule, rule)
    form = RuleForm(request.POST, rule=rule)
    with Attempt(form) as attempt:
        if form.is_valid():
            if "preview" in request.POST:
                return rule_page(request, form, rule, ApprovalRule(**form.cleaned_data))
            saved = services.save_rule(by=user_of(request), **form.cleaned_data)
            messages.success(request, f"{rule_name(saved)} was saved.")
            return redirect("claims:approval_rules")
    return rule_page(request, form, rule, None, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def approval_rule_remove(request: HttpRequest, rule_id: UUID) -> HttpResponse:
    """Confirm and remove a rule."""
    require_admin(request)
    rule = get_object_or_404(ApprovalRule.objects.select_related("team", "profile"), pk=rule_id)
    if request.method == "POST":
        services.remove_rule(by=user_of(request), rule=rule)
        messages.success(request, f"{rule_name(rule)} was removed.")
        return redirect("claims:approval_rules")
    return render(
        request, "claims/approvals/approval_rule_remove.html", {"rule": rule, "name": rule_name(rule)}
    )


def rule_page(
    request: HttpRequest,
    form: RuleForm,
    rule: ApprovalRule | None,
    previewed: ApprovalRule | None,
    *,
    status: int = 200,
) -> HttpResponse:
    page = {
        "form": form,
        "rule": rule,
        "name": rule_name(rule) if rule else "New rule",
        "effect": rule_effect(previewed) if previewed else None,
    }
    fragment = "#effect" if request.headers.get("HX-Request") else ""
    return render(
        request, f"claims/approvals/approval_rule.html{fragment}", page, status=200 if fragment else status
    )


@require_http_methods(["GET", "HEAD", "POST"])
def delegations(request: HttpRequest) -> HttpResponse:
    """The reader's delegations in both directions, and a form for each team that they lead."""
    if request.method != "POST":
        return render(request, "claims/approvals/delegations.html", delegations_context(request))
    user = user_of(request)
    team = team_for(user, request.POST.get("team", ""), at_least=Role.LEAD)
    form = delegation_form(user, team, request)
    with Attempt(form) as attempt:
        if form.is_valid():
            delegation = services.delegate(by=user, team=team, **form.cleaned_data)
            messages.success(request, f"{delegation.to.label} is now your delegate in {team}.")
            return redirect("claims:delegations")
    page = delegations_context(request, team, form)
    return render(request, "claims/approvals/delegations.html", page, status=attempt.status)


@require_POST
def delegation_end(request: HttpRequest, delegation_id: UUID) -> HttpResponse:
    user = user_of(request)
    delegation = get_object_or_404(services.delegations_of(user), pk=delegation_id)
    delegation = services.end_delegation(by=user, delegation=delegation)
    messages.success(request, f"{delegation.to.label} is no longer the delegate of {delegation.lead.label}.")
    return redirect("claims:delegations")


def delegations_context(
    request: HttpRequest, team: Team | None = None, bound: DelegationForm | None = None
) -> dict[str, Any]:
    user, now = user_of(request), timezone.now()
    memberships = Membership.objects.filter(user=user, role__in=LEADS).select_related("team")
    mine = services.delegations_of(user)
    return {
        "forms": [
            (row.team, bound if bound and team == row.team else delegation_form(user, row.team))
            for row in memberships.order_by("team__slug")
        ],
        "current": [(row, row.starts_at <= now) for row in mine.filter(ends_at__gt=now)],
        "past": mine.filter(ends_at__lte=now).order_by("-ends_at")[:20],
    }


def delegation_form(user: User, team: Team, request: HttpRequest | None = None) -> DelegationForm:
    people = [
        person
        for person in people_in(team, at_least=Role.MEMBER)
        if person != user and not person.is_superuser
    ]
    now = timezone.localtime().replace(second=0, microsecond=0)
    initial = {"starts_at": now, "ends_at": now + timedelta(days=7)}
    form = DelegationForm(request.POST if request else None, people=people, initial=initial)
    form.auto_id = f"id_{team.slug}_%s"
    return form


REASON_COLUMNS: list[Column[ReasonTemplate]] = [
    Column("title", "Title", lambda reason: reason.title, sort="title", fixed=True),
    Column("team", "Offered in", lambda reason: reason.team or "Every team", "team__slug"),
    Column("text", "Text", lambda reason: reason.text),
]


def teams_with_reasons(request: HttpRequest) -> list[Team]:
    """Return the teams whose reasons the reader may edit; raise PermissionDenied if they may edit none."""
    teams = teams_where(request.user, at_least=Role.LEAD)
    if not teams and not is_platform_admin(request.user):
        raise PermissionDenied("Only leads and platform admins edit reasons.")
    return teams


@require_safe
def reasons(request: HttpRequest) -> HttpResponseBase:
    teams_with_reasons(request)
    listing = Listing(
        request,
        editable_reasons(user_of(request)).select_related("team"),
        columns=REASON_COLUMNS,
        title="Reasons to deny",
        search=("title", "text", "team__slug"),
        sort="title",
    )
    context = {
        "default_reasons": default_reasons(),
        "empty_icon": "note",
        "empty_title": "No saved reasons",
        "empty_text": "The default reasons below are offered in every team.",
    }
    return listing.respond("claims/approvals/reasons.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def reason(request: HttpRequest, reason_id: int | None = None) -> HttpResponse:
    """Create or change a reason."""
    teams, existing = teams_with_reasons(request), None
    if reason_id:
        existing = get_object_or_404(editable_reasons(user_of(request)).select_related("team"), pk=reason_id)
    fields: dict[str, Any] = {"teams": teams, "for_all": is_platform_admin(request.user), "reason": existing}
    form = ReasonForm(posted(request), **fields)
    with Attempt(form) as attempt:
        if form.is_valid():
            saved = services.save_reason(by=user_of(request), reason=existing, **form.cleaned_data)
            messages.success(request, f"“{saved.title}” was saved.")
            return redirect("claims:reasons")
    page = {"form": form, "reason": existing, "name": existing.title if existing else "New reason"}
    return render(request, "claims/approvals/reason.html", page, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def reason_remove(request: HttpRequest, reason_id: int) -> HttpResponse:
    """Confirm and remove a reason."""
    teams_with_reasons(request)
    existing = get_object_or_404(editable_reasons(user_of(request)).select_related("team"), pk=reason_id)
    if request.method == "POST":
        services.remove_reason(by=user_of(request), reason=existing)
        messages.success(request, f"“{existing.title}” was removed.")
        return redirect("claims:reasons")
    return render(request, "claims/approvals/reason_remove.html", {"reason": existing})
