"""Asking for more quota, from the quota page or from a request that did not fit."""

from __future__ import annotations

from uuid import UUID, uuid4

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.access import may_ask, require_member
from claims.forms.quota_ask import QuotaAskForm
from claims.models import Profile, Quota, QuotaRequest
from claims.quota.asks import named_quota, until_words, what_of
from claims.quota.quotas import Standing, standing_of
from claims.services import ask_for_quota, withdraw_quota_request
from core.errors import Conflict, PortalError
from core.listing import Column, Listing
from inventory.models import DeviceClass
from teams.access import asker, role_in, teams_where
from teams.models import Role, Team

PREFILLED = ("team", "device_class", "profile", "counts", "more")

COLUMNS: list[Column[QuotaRequest]] = [
    Column("team", gettext_lazy("Team"), lambda one: one.team.slug, sort="team__slug"),
    Column("what", gettext_lazy("What"), what_of, fixed=True),
    Column("devices", gettext_lazy("Limit asked for"), lambda one: one.devices, sort="devices", numeric=True),
    Column("until", gettext_lazy("Until"), lambda one: until_words(one.until), sort="until"),
    Column("answer", gettext_lazy("Answer"), lambda one: one.get_answer_display(), sort="answer"),
    Column("who", gettext_lazy("Asked by"), lambda one: one.asked_by.username, sort="asked_by__username"),
    Column("asked", gettext_lazy("Asked"), lambda one: one.asked_at.isoformat(), sort="asked_at"),
    Column("reason", gettext_lazy("Reason"), lambda one: one.reason, shown=False),
]


@require_http_methods(["GET", "HEAD", "POST"])
def quota_ask(request: HttpRequest) -> HttpResponse:
    """
    The form, filled in from the address: a quota, or what a request did not find room for.

    A viewer may not ask at all, and hears so before filling it in.
    """
    require_member(request)
    if request.method != "POST":
        form = form_for(request, initial=initial_of(request) | {"key": str(uuid4())})
        return render(request, "claims/quota_ask.html", ask_page(request, form))
    form = form_for(request, data=request.POST)
    if not form.is_valid():
        return render(request, "claims/quota_ask.html", ask_page(request, form), status=422)
    said = dict(form.cleaned_data)
    now = standing_now(said["team"], said["device_class"], said["profile"], said["counts"])
    more = said.pop("more")
    try:
        asked = ask_for_quota(by=asker(request), devices=(now.limit if now else 0) + more, **said)
    except PortalError as refusal:
        page = ask_page(request, form) | {"refusal": refusal}
        return render(request, "claims/quota_ask.html", page, status=refusal.status)
    messages.success(request, _("You have asked for %(n)d more. Platform admins decide.") % {"n": more})
    return redirect("claims:quota_request_decision", asked.pk)


@require_safe
def quota_requests(request: HttpRequest) -> HttpResponseBase:
    """Every request for more quota in the reader's teams, with its answer."""
    rows = QuotaRequest.objects.visible_to(request.user)
    listing = Listing(
        request,
        rows.select_related("team", "profile", "asked_by"),
        columns=COLUMNS,
        title=_("Quota requests"),
        search=("team__slug", "device_class", "profile__title", "reason", "asked_by__username"),
        sort="-asked",
    )
    context = {
        "may_ask": may_ask(request),
        "empty_icon": "gauge",
        "empty_title": _("Nobody has asked for more quota"),
        "empty_text": _("What a team may hold stands on the quota page; you can ask for more from there."),
        "empty_url": reverse("claims:quotas"),
        "empty_action": _("Open the quotas"),
    }
    return listing.respond("claims/quota_requests.html", context)


@require_POST
def quota_request_withdraw(request: HttpRequest, request_id: UUID) -> HttpResponse:
    visible = QuotaRequest.objects.visible_to(request.user)
    one = get_object_or_404(visible.select_related("team"), pk=request_id)
    try:
        withdraw_quota_request(quota_request=one, by=asker(request))
        messages.success(request, _("The request for more quota is withdrawn."))
    except Conflict as refusal:
        messages.error(request, refusal.message)
    return redirect("claims:quota_request_decision", one.pk)


def form_for(request: HttpRequest, **more: object) -> QuotaAskForm:
    profiles: QuerySet[Profile] = Profile.objects.visible_to(request.user).filter(retired_at=None)
    teams = [team.pk for team in teams_where(request.user, at_least=Role.MEMBER)]
    return QuotaAskForm(teams=Team.objects.filter(pk__in=teams), profiles=profiles, **more)


def ask_page(request: HttpRequest, form: QuotaAskForm) -> dict[str, object]:
    values = form.cleaned_data if form.is_bound and form.is_valid() else form.initial
    team, profile = values.get("team"), values.get("profile")
    if isinstance(team, str):
        team = Team.objects.visible_to(request.user).filter(slug=team).first()
    if isinstance(profile, str):
        profile = Profile.objects.visible_to(request.user).filter(slug=profile).first()
    row = None
    if team is not None and role_in(request.user, team):
        row = standing_now(team, values.get("device_class") or "", profile, values.get("counts") or "devices")
    classes = DeviceClass.objects.filter(gone_at=None).values_list("name", flat=True)
    return {"form": form, "row": row, "classes": classes.distinct().order_by("name")}


def initial_of(request: HttpRequest) -> dict[str, object]:
    """Read what the address says; a quota that the reader may not know of says nothing."""
    initial: dict[str, object] = {name: request.GET[name] for name in PREFILLED if request.GET.get(name)}
    try:
        wanted = UUID(request.GET.get("quota", ""))
    except ValueError:
        return initial
    visible = Quota.objects.visible_to(request.user).select_related("team", "profile")
    quota = visible.filter(pk=wanted).first()
    if quota is None:
        return initial
    profile = quota.profile.slug if quota.profile else ""
    named = {"device_class": quota.device_class, "profile": profile, "counts": quota.counts}
    return initial | named | {"team": quota.team.slug}


def standing_now(team: Team, device_class: str, profile: Profile | None, counts: str) -> Standing | None:
    row = named_quota(
        team, device_class=device_class, profile_id=profile.pk if profile else None, counts=counts
    )
    return standing_of([row])[0] if row else None
