"""Pages of approval rules, delegations and reasons to deny."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.approvals import services
from claims.approvals.forms import AwayForm, ReasonForm, RuleForm
from claims.approvals.rules import effect_of, name_of
from claims.approvals.services import kept_by, usual
from claims.models import ApprovalRule, Delegation, ReasonTemplate
from core.errors import Conflict, Invalid
from core.listing import Column, Listing
from core.times import duration
from teams.access import is_platform_admin, people_in, team_for, teams_where, user_of
from teams.models import Membership, Role, Team, User

RULE_COLUMNS: list[Column[ApprovalRule]] = [
    Column("team", "Team", lambda rule: rule.team or "every team", sort="team__slug", fixed=True),
    Column(
        "profile",
        "Profile",
        lambda rule: rule.profile or "every profile",
        sort="profile__slug",
        fixed=True,
    ),
    Column("approval", "Who decides", lambda rule: words_of(rule), sort="approval"),
    Column(
        "most",
        "Nobody up to",
        lambda rule: rule.automatic_devices,
        sort="automatic_devices",
        numeric=True,
    ),
    Column("longest", "For up to", lambda rule: span_of(rule.automatic_duration)),
    Column("escalate", "Admins too after", lambda rule: span_of(rule.escalate_after)),
    Column("own", "Own requests", lambda rule: "yes" if rule.self_approval else "no"),
]


def words_of(rule: ApprovalRule) -> str:
    return str(rule.get_approval_display()) if rule.approval else "as the profile says"


def span_of(span: Any) -> str:
    return duration(span) if span is not None else ""


def require_admin(request: HttpRequest) -> None:
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only a platform admin sets who decides.")


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
    empty = {
        "undecided": settings.REQUEST_TTL,
        "empty_icon": "route",
        "empty_title": "No rules",
        "empty_text": "0 rules: every profile says itself who decides on it.",
    }
    return listing.respond("claims/approvals/approval_rules.html", empty)


@require_http_methods(["GET", "HEAD", "POST"])
def approval_rule(request: HttpRequest, rule_id: UUID | None = None) -> HttpResponse:
    """Make or change a rule; `preview` says what it would do and saves nothing."""
    require_admin(request)
    rule = (
        get_object_or_404(ApprovalRule.objects.select_related("team", "profile"), pk=rule_id)
        if rule_id
        else None
    )
    if request.method != "POST":
        return form_page(request, RuleForm(rule=rule), rule, rule)
    form = RuleForm(request.POST, rule=rule)
    if not form.is_valid():
        return form_page(request, form, rule, None, status=422)
    if "preview" in request.POST:
        return form_page(request, form, rule, ApprovalRule(**form.cleaned_data))
    try:
        saved = services.save_rule(by=user_of(request), **form.cleaned_data)
    except Invalid as refusal:
        form.add_error(None, refusal.message)
        return form_page(request, form, rule, None, status=422)
    messages.success(request, f"{name_of(saved)} is saved.")
    return redirect("claims:approval_rules")


@require_http_methods(["GET", "HEAD", "POST"])
def approval_rule_remove(request: HttpRequest, rule_id: UUID) -> HttpResponse:
    """Say what counts without it, and remove it."""
    require_admin(request)
    rule = get_object_or_404(ApprovalRule.objects.select_related("team", "profile"), pk=rule_id)
    if request.method == "POST":
        services.remove_rule(by=user_of(request), rule=rule)
        messages.success(request, f"{name_of(rule)} is removed.")
        return redirect("claims:approval_rules")
    return render(
        request, "claims/approvals/approval_rule_remove.html", {"rule": rule, "name": name_of(rule)}
    )


def form_page(
    request: HttpRequest,
    form: RuleForm,
    rule: ApprovalRule | None,
    tried: ApprovalRule | None,
    *,
    status: int = 200,
) -> HttpResponse:
    page = {
        "form": form,
        "rule": rule,
        "name": name_of(rule) if rule else "New rule",
        "effect": effect_of(tried) if tried else None,
    }
    fragment = "#effect" if request.headers.get("HX-Request") else ""
    return render(
        request, f"claims/approvals/approval_rule.html{fragment}", page, status=200 if fragment else status
    )


@require_http_methods(["GET", "HEAD", "POST"])
def away(request: HttpRequest) -> HttpResponse:
    """The reader's stand-ins and those they stand in for; a form per team that they lead."""
    if request.method != "POST":
        return render(request, "claims/approvals/away.html", page_of(request))
    user = user_of(request)
    team = team_for(user, request.POST.get("team", ""), at_least=Role.LEAD)
    form = form_for(user, team, request)
    if not form.is_valid():
        return render(request, "claims/approvals/away.html", page_of(request, team, form), status=422)
    try:
        row = services.delegate(by=user, team=team, **form.cleaned_data)
    except (Invalid, Conflict) as refusal:
        form.add_error(None, refusal.message)
        return render(
            request, "claims/approvals/away.html", page_of(request, team, form), status=refusal.status
        )
    messages.success(request, f"{row.to.label} stands in for you.")
    return redirect("claims:away")


@require_POST
def away_end(request: HttpRequest, delegation_id: UUID) -> HttpResponse:
    user = user_of(request)
    mine = Delegation.objects.filter(Q(lead=user) | Q(to=user)).select_related("team", "lead", "to")
    row = services.end_delegation(by=user, delegation=get_object_or_404(mine, pk=delegation_id))
    messages.success(
        request,
        f"{row.to.label} does not decide for {row.lead.label} any more.",
    )
    return redirect("claims:away")


def page_of(request: HttpRequest, team: Team | None = None, bound: AwayForm | None = None) -> dict[str, Any]:
    user, now = user_of(request), timezone.now()
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


REASON_COLUMNS: list[Column[ReasonTemplate]] = [
    Column("title", "Title", lambda reason: reason.title, sort="title", fixed=True),
    Column("team", "Offered in", lambda reason: reason.team or "every team", "team__slug"),
    Column("text", "Text", lambda reason: reason.text),
]


def led_by(request: HttpRequest) -> list[Team]:
    """Return the teams whose reasons the reader keeps; 403 for who leads none."""
    teams = teams_where(request.user, at_least=Role.LEAD)
    if not teams and not is_platform_admin(request.user):
        raise PermissionDenied("Only leads and platform admins keep reasons.")
    return teams


@require_safe
def reasons(request: HttpRequest) -> HttpResponseBase:
    led_by(request)
    listing = Listing(
        request,
        kept_by(user_of(request)).select_related("team"),
        columns=REASON_COLUMNS,
        title="Reasons to deny",
        search=("title", "text", "team__slug"),
        sort="title",
    )
    empty = {
        "usual": usual(),
        "empty_icon": "note",
        "empty_title": "No reasons of your own",
        "empty_text": "0 reasons were written; those below are offered everywhere.",
    }
    return listing.respond("claims/approvals/reasons.html", empty)


@require_http_methods(["GET", "HEAD", "POST"])
def reason(request: HttpRequest, reason_id: int | None = None) -> HttpResponse:
    """Make or change a reason."""
    teams, found = led_by(request), None
    if reason_id:
        found = get_object_or_404(kept_by(user_of(request)).select_related("team"), pk=reason_id)
    fields: dict[str, Any] = {"teams": teams, "everybody": is_platform_admin(request.user), "reason": found}
    form = ReasonForm(request.POST if request.method == "POST" else None, **fields)
    if request.method == "POST" and form.is_valid():
        try:
            saved = services.save_reason(by=user_of(request), reason=found, **form.cleaned_data)
        except Invalid as refusal:
            form.add_error(None, refusal.message)
        else:
            messages.success(request, f"“{saved.title}” is saved.")
            return redirect("claims:reasons")
    page = {"form": form, "reason": found, "name": found.title if found else "New reason"}
    return render(request, "claims/approvals/reason.html", page, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def reason_remove(request: HttpRequest, reason_id: int) -> HttpResponse:
    """Say what removing does, and do it."""
    led_by(request)
    found = get_object_or_404(kept_by(user_of(request)).select_related("team"), pk=reason_id)
    if request.method == "POST":
        services.remove_reason(by=user_of(request), reason=found)
        messages.success(request, f"“{found.title}” is removed.")
        return redirect("claims:reasons")
    return render(request, "claims/approvals/reason_remove.html", {"reason": found})
