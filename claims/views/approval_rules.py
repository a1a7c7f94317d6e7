"""Rules that say who decides: the list, the form with what a rule would do, and removing one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from claims import services
from claims.approval.rule_effect import effect_of
from claims.approval.rules import name_of
from claims.forms.rule import RuleForm
from claims.models import ApprovalRule
from core.errors import Invalid
from core.listing import Column, Listing
from core.times import duration
from teams.access import asker, is_platform_admin

COLUMNS: list[Column[ApprovalRule]] = [
    Column(
        "team", gettext_lazy("Team"), lambda rule: rule.team or _("every team"), sort="team__slug", fixed=True
    ),
    Column(
        "profile",
        gettext_lazy("Profile"),
        lambda rule: rule.profile or _("every profile"),
        sort="profile__slug",
        fixed=True,
    ),
    Column("approval", gettext_lazy("Who decides"), lambda rule: words_of(rule), sort="approval"),
    Column(
        "most",
        gettext_lazy("Nobody up to"),
        lambda rule: rule.automatic_devices,
        sort="automatic_devices",
        numeric=True,
    ),
    Column("longest", gettext_lazy("For up to"), lambda rule: span_of(rule.automatic_duration)),
    Column("escalate", gettext_lazy("Admins too after"), lambda rule: span_of(rule.escalate_after)),
    Column("own", gettext_lazy("Own requests"), lambda rule: _("yes") if rule.self_approval else _("no")),
]


def words_of(rule: ApprovalRule) -> str:
    return str(rule.get_approval_display()) if rule.approval else _("as the profile says")


def span_of(span: Any) -> str:
    return duration(span) if span is not None else ""


def require_admin(request: HttpRequest) -> None:
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only a platform admin sets who decides."))


@require_safe
def approval_rules(request: HttpRequest) -> HttpResponseBase:
    require_admin(request)
    listing = Listing(
        request,
        ApprovalRule.objects.select_related("team", "profile"),
        columns=COLUMNS,
        title=gettext_lazy("Approval rules"),
        search=("team__slug", "profile__slug", "profile__title"),
        sort="team",
    )
    empty = {
        "undecided": settings.REQUEST_TTL,
        "empty_icon": "route",
        "empty_title": _("No rules"),
        "empty_text": _("0 rules: every profile says itself who decides on it."),
    }
    return listing.respond("claims/approval_rules.html", empty)


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
        saved = services.save_rule(by=asker(request), **form.cleaned_data)
    except Invalid as refusal:
        form.add_error(None, refusal.message)
        return form_page(request, form, rule, None, status=422)
    messages.success(request, _("%(rule)s is saved.") % {"rule": name_of(saved)})
    return redirect("claims:approval_rules")


@require_http_methods(["GET", "HEAD", "POST"])
def approval_rule_remove(request: HttpRequest, rule_id: UUID) -> HttpResponse:
    """Say what counts without it, and remove it."""
    require_admin(request)
    rule = get_object_or_404(ApprovalRule.objects.select_related("team", "profile"), pk=rule_id)
    if request.method == "POST":
        services.remove_rule(by=asker(request), rule=rule)
        messages.success(request, _("%(rule)s is removed.") % {"rule": name_of(rule)})
        return redirect("claims:approval_rules")
    return render(request, "claims/approval_rule_remove.html", {"rule": rule, "name": name_of(rule)})


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
        "name": name_of(rule) if rule else _("New rule"),
        "effect": effect_of(tried) if tried else None,
    }
    fragment = "#effect" if request.headers.get("HX-Request") else ""
    return render(request, f"claims/approval_rule.html{fragment}", page, status=200 if fragment else status)
