"""Pages of quotas and of requests for more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.access import NO_CLAIM, may_request, require_member
from claims.models import Profile, Quota, QuotaRequest, RequestStatus
from claims.quotas.counts import unmanaged_use
from claims.quotas.forms import QuotaForm, QuotaRequestForm
from claims.quotas.quota_requests import named_quota, quota_words, until_words
from claims.quotas.quota_usage import (
    Contribution,
    QuotaUsage,
    quota_breakdown,
    quota_label,
    quota_usage,
    team_usage,
)
from claims.quotas.services import request_quota, set_quota, withdraw_quota_request
from core.attempt import Attempt, posted, refusal_as_message
from core.errors import Conflict
from core.listing import Column, Listing, csv_response, wants_csv
from core.markup import markup
from core.templatetags.ui import icon, meter
from inventory.models import DeviceClass
from teams.access import is_platform_admin, role_in, teams_where, user_of
from teams.models import Role, Team, recorded_changes

TEAMS_PER_PAGE = 10


@dataclass(frozen=True)
class TeamRows:
    """The quotas of a team; `may_request` says whether the reader may request more."""

    team: Team
    rows: list[QuotaUsage]
    may_request: bool = False

    @property
    def cards(self) -> Iterator[SafeString]:
        return (quota_card(row, links=True, may_request=self.may_request) for row in self.rows)


@require_safe
def quotas(request: HttpRequest) -> HttpResponse:
    if wants_csv(request):
        teams = chosen_teams(request, teams_where(request.user, at_least=Role.VIEWER))
        return quotas_sheet([row for group in team_groups(teams) for row in group.rows])
    return render(
        request,
        "claims/quotas/quotas.html",
        quotas_page(request, QuotaForm(initial={"team": request.GET.get("team", "")})),
    )


def quotas_sheet(rows: list[QuotaUsage]) -> HttpResponse:
    heads = (
        *("Team", "Quota of", "Counts", "Limit", "Held", "Reserved"),
        *("Unmanaged", "Free", "Over", "Guaranteed"),
    )
    cells = (
        (
            *(row.team.slug, row.label, row.quota.get_counts_display(), row.limit, row.held, row.reserved),
            *(row.unmanaged, row.free, row.over, row.quota.guaranteed),
        )
        for row in rows
    )
    return csv_response("quotas", heads, cells)


def quota_parts_sheet(quota: Quota) -> HttpResponse:
    """Every claim and every unmanaged object in the figure of a quota."""
    parts = quota_breakdown(quota)
    heads = ("Claim", "State", "Who", "Counts as", "Devices")
    cells: list[tuple[object, ...]] = [
        (
            *(part.claim.name, part.claim.get_state_display(), part.claim.requested_by.username),
            *("reserved" if part.reserved else "held", part.devices),
        )
        for part in parts.claims
    ]
    cells += [
        (part.use.name, part.use.kind, part.use.namespace, "unmanaged", part.devices)
        for part in parts.unmanaged
    ]
    return csv_response(
        f"quota-{quota.team.slug}-{slugify(quota_label(quota)) or quota.counts}", heads, cells
    )


def quotas_page(request: HttpRequest, form: QuotaForm) -> dict[str, Any]:
    teams = teams_where(request.user, at_least=Role.VIEWER)
    shown = Paginator(chosen_teams(request, teams), TEAMS_PER_PAGE).get_page(request.GET.get("page"))
    is_admin = is_platform_admin(request.user)
    member_of = teams_where(request.user, at_least=Role.MEMBER) if not is_admin else shown.object_list
    groups = team_groups(list(shown.object_list), {team.pk for team in member_of})
    return {
        "groups": groups,
        "page": shown,
        "wanted": request.GET.get("team", ""),
        "q": request.GET.get("q", ""),
        "is_admin": is_admin,
        "team_options": datalist_options(team.slug for team in teams) if is_admin else "",
        "over": [row for group in groups for row in group.rows if row.over],
        "waiting": QuotaRequest.objects.visible_to(request.user)
        .of_quota()
        .filter(status=RequestStatus.WAITING)
        .count(),
        "form": form,
        "classes": DeviceClass.objects.filter(gone_at=None)
        .values_list("name", flat=True)
        .distinct()
        .order_by("name"),
    }


def datalist_options(values: Iterable[str]) -> SafeString:
    """Return an `<option>` per value; a template takes ten times as long for hundreds."""
    return mark_safe("".join(f'<option value="{escape(value)}"></option>' for value in values))  # noqa: S308


def chosen_teams(request: HttpRequest, teams: Iterable[Team]) -> list[Team]:
    """Return the reader's teams, or those in the address: one by `team`, or by words in `q`."""
    wanted, words = request.GET.get("team", ""), request.GET.get("q", "").lower().split()
    return [
        team
        for team in teams
        if (not wanted or team.slug == wanted)
        and all(word in f"{team.slug} {team.title}".lower() for word in words)
    ]


def team_groups(teams: Sequence[Team], member_of: Collection[UUID] = ()) -> list[TeamRows]:
    """Return the quotas of these teams; teams without one come last."""
    rows = sorted(team_usage(teams), key=lambda row: (row.team.slug, *quota_order(row)))
    groups = [
        TeamRows(team, list(group), team.pk in member_of)
        for team, group in groupby(rows, key=lambda row: row.team)
    ]
    with_quota = {group.team for group in groups}
    return groups + [TeamRows(team, [], team.pk in member_of) for team in teams if team not in with_quota]


def quota_order(row: QuotaUsage) -> tuple[int, str]:
    """Order the quotas of a team: classes first, then profiles, then claims."""
    if row.quota.counts == Quota.Counts.CLAIMS:
        return 2, ""
    return int(bool(row.quota.profile_id)), row.label


# One quota: what it is for, the bar, the numbers, and how they come about. A template takes several times as
# long for the quotas of ten teams.
CARD = (
    '<div class="card-body" data-quota="{}/{}" data-taken="{}"><div class="dg-stack dg-g8">'
    '<div class="dg-row dg-between dg-wrap"><span class="dg-b">{}{}{}</span>'
    '<span class="dg-2"><b>{}</b> held{} · <b>{}</b> reserved · <b>{}</b> free of {}{}</span></div>{}{}'
    "</div></div>"
)
LINKS = (
    '<div class="dg-s dg-row dg-wrap">'
    '<a href="{}" hx-get="{}" hx-target="#parts-{}">How is this computed?</a>{}</div>'
    '<div class="dg-maybe" id="parts-{}"></div>'
)


def quota_card(row: QuotaUsage, *, links: bool = False, may_request: bool = False) -> SafeString:
    """Draw one quota, with `links` to what adds up to it and, if the reader may, to a request for more."""
    over = icon("alert-triangle", "s") if row.over else ""
    return markup(
        CARD,
        row.team.slug,
        row.label,
        row.used,
        row.name,
        _if_any(' <span class="dg-tag">{} guaranteed</span>', row.guaranteed),
        _if_any(' <span class="dg-tag">{} temporary</span>', row.raised),
        row.held,
        _if_any(" · <b>{}</b> unmanaged", row.unmanaged),  # in the order of the bar
        row.reserved,
        row.free,
        row.limit,
        _if_any(' <span class="dg-bad dg-b">{1} {0} over</span>', row.over, over),
        quota_meter(row),
        quota_links(row, may_request=may_request) if links else "",
    )


def _if_any(text: str, number: int, *more: object) -> SafeString | str:
    """Return the number in its text, "" for 0."""
    return markup(text, number, *more) if number else ""


def quota_meter(row: QuotaUsage) -> SafeString:
    if row.over:
        return meter(row.limit, label=row.sentence, size="tall", held=row.limit, over=row.over)
    parts = {"held": row.within, "borrow": row.beyond, "none": row.unmanaged, "pend": row.reserved}
    return meter(row.limit, label=row.sentence, size="tall", **parts)


def quota_links(row: QuotaUsage, *, may_request: bool) -> SafeString:
    key = str(row.quota.pk)
    page, parts, new = (address.replace(NO_QUOTA, key) for address in _addresses())
    more = markup('<a href="{}?quota={}">Request more</a>', new, key) if may_request else ""
    return markup(LINKS, page, parts, key, more, key)


NO_QUOTA = str(UUID(int=0))


@cache
def _addresses() -> tuple[str, str, str]:
    """Return the addresses of a quota, of its parts, and of a request for more; with `NO_QUOTA` as its id."""
    page, parts = (reverse(name, args=[NO_QUOTA]) for name in ("claims:quota", "claims:quota_parts"))
    return page, parts, reverse("claims:quota_request_new")


PART = (
    '<tr><td class="wide"><a class="dg-link" href="{}">{}</a><span class="sub">{}</span>{}</td>'
    '<td data-l="State">{}</td><td data-l="Who">{}</td><td data-l="Counts as">{}</td>'
    '<td class="dg-n" data-l="Number" data-part>{}</td></tr>'
)


def part_rows(parts: Iterable[Contribution]) -> SafeString:
    """Return a `<tr>` for each claim in the figure of a quota."""
    address = reverse("claims:detail", args=[NO_CLAIM])
    carried = '<span class="sub">{} counted with the claim that it replaces</span>'
    return format_html_join(
        "\n",
        PART,
        (
            (
                address.replace(str(NO_CLAIM), str(part.claim.pk)),
                part.claim.name,
                part.claim.titles,
                markup(carried, part.carried) if part.carried else "",
                part.claim.get_state_display(),
                part.claim.requested_by.label,
                "reserved" if part.reserved else "held",
                part.devices,
            )
            for part in parts
        ),
    )


def may_request_quota(request: HttpRequest, team: Team) -> bool:
    role = role_in(request.user, team)
    return role is not None and role.rank >= Role.MEMBER.rank


CHANGES = 10  # shown of a quota


@require_safe
def quota(request: HttpRequest, quota_id: UUID) -> HttpResponse:
    """One quota with every claim in its figure; as a fragment it opens below its row."""
    quota = get_object_or_404(
        Quota.objects.visible_to(request.user).select_related("team", "profile"), pk=quota_id
    )
    if wants_csv(request):
        return quota_parts_sheet(quota)
    page = usage_page(request, quota) | {
        "is_admin": is_platform_admin(request.user),
        "form": QuotaForm(
            initial={"devices": quota.devices, "guaranteed": quota.guaranteed, "counts": quota.counts}
        ),
        "may_request": may_request_quota(request, quota.team),
        "changes": recorded_changes(quota)[:CHANGES],
    }
    return render(request, "claims/quotas/quota.html", page)


@require_safe
def quota_parts(request: HttpRequest, quota_id: UUID) -> HttpResponse:
    quota = get_object_or_404(
        Quota.objects.visible_to(request.user).select_related("team", "profile"), pk=quota_id
    )
    page = usage_page(request, quota) | {"drawer": True}
    return render(request, "claims/quotas/_quota_parts.html", page)


def usage_page(request: HttpRequest, quota: Quota) -> dict[str, Any]:
    """Return the use of a quota, and the page of its parts that the address names."""
    unmanaged = unmanaged_use([quota.team_id])
    number = request.GET.get("page", "1")
    parts = quota_breakdown(quota, request.user, number=number, unmanaged=unmanaged)
    row = quota_usage([quota], unmanaged)[0]
    return {"row": row, "card": quota_card(row), "parts": parts, "claim_rows": part_rows(parts.claims)}


@require_http_methods(["GET", "HEAD", "POST"])
def quota_set(request: HttpRequest) -> HttpResponse:
    """
    Create or change a limit; GET leads to the page with the form, for a reload after an error.

    Permission is checked here too, so that 403 comes before form errors.
    """
    if request.method != "POST":
        return redirect("claims:quotas")
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only a platform admin sets quotas.")
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return render(request, "claims/quotas/quotas.html", quotas_page(request, form), status=422)
    saved = set_quota(by=user_of(request), **form.cleaned_data)
    messages.success(
        request,
        f"{saved.team} may hold {saved.devices} × {quota_label(saved)}.",
    )
    return redirect("claims:quotas")


PREFILLED = ("team", "device_class", "profile", "counts", "more")

COLUMNS: list[Column[QuotaRequest]] = [
    Column("team", "Team", lambda row: row.team.slug, sort="team__slug"),
    Column("what", "What", quota_words, fixed=True),
    Column("devices", "Requested limit", lambda row: row.devices, sort="devices", numeric=True),
    Column("until", "Until", lambda row: until_words(row.until), sort="until"),
    Column("status", "Status", lambda row: row.get_status_display(), sort="status"),
    Column("requester", "Requester", lambda row: row.requested_by.username, sort="requested_by__username"),
    Column("requested", "Requested", lambda row: row.requested_at.isoformat(), sort="requested_at"),
    Column("reason", "Reason", lambda row: row.reason, shown=False),
]


@require_http_methods(["GET", "HEAD", "POST"])
def quota_request_new(request: HttpRequest) -> HttpResponse:
    """
    The form, filled in from the address: a quota, or what a request lacked.

    403 for a viewer, before they fill in the form.
    """
    require_member(request)
    form = form_for(request, data=posted(request), initial=initial_values(request) | {"key": str(uuid4())})
    page = request_page(request, form)
    with Attempt(form) as attempt:
        if form.is_valid():
            fields = dict(form.cleaned_data)
            now = current_usage(fields["team"], fields["device_class"], fields["profile"], fields["counts"])
            more = fields.pop("more")
            devices = (now.limit if now else 0) + more
            quota_request = request_quota(by=user_of(request), devices=devices, **fields)
            messages.success(request, f"Requested: {more} more. A platform admin decides.")
            return redirect("claims:quota_request_decision", quota_request.pk)
    page["refusal"] = attempt.refusal
    return render(request, "claims/quotas/quota_request_new.html", page, status=attempt.status)


@require_safe
def quota_requests(request: HttpRequest) -> HttpResponseBase:
    """Every quota request of the reader's teams, with its decision."""
    rows = QuotaRequest.objects.visible_to(request.user).of_quota()
    listing = Listing(
        request,
        rows.select_related("team", "profile", "requested_by"),
        columns=COLUMNS,
        title="Quota requests",
        search=("team__slug", "device_class", "profile__title", "reason", "requested_by__username"),
        sort="-requested",
    )
    context = {
        "may_request": may_request(request),
        "empty_icon": "gauge",
        "empty_title": "No quota requests",
        "empty_text": "The quota page shows what each team may hold; request more there.",
        "empty_url": reverse("claims:quotas"),
        "empty_action": "Open the quotas",
    }
    return listing.respond("claims/quotas/quota_requests.html", context)


@require_POST
def quota_request_withdraw(request: HttpRequest, request_id: UUID) -> HttpResponse:
    visible = QuotaRequest.objects.visible_to(request.user)
    quota_request = get_object_or_404(visible.select_related("team"), pk=request_id)
    with refusal_as_message(request, of=Conflict):
        withdraw_quota_request(quota_request=quota_request, by=user_of(request))
        messages.success(request, f"The request for more {quota_words(quota_request)} is withdrawn.")
    return redirect("claims:quota_request_decision", quota_request.pk)


def form_for(request: HttpRequest, **more: object) -> QuotaRequestForm:
    profiles: QuerySet[Profile] = Profile.objects.visible_to(request.user).filter(retired_at=None)
    teams = [team.pk for team in teams_where(request.user, at_least=Role.MEMBER)]
    return QuotaRequestForm(teams=Team.objects.filter(pk__in=teams), profiles=profiles, **more)


def request_page(request: HttpRequest, form: QuotaRequestForm) -> dict[str, object]:
    values = form.cleaned_data if form.is_bound and form.is_valid() else form.initial
    team, profile = values.get("team"), values.get("profile")
    if isinstance(team, str):
        team = Team.objects.visible_to(request.user).filter(slug=team).first()
    if isinstance(profile, str):
        profile = Profile.objects.visible_to(request.user).filter(slug=profile).first()
    row = None
    if team is not None and role_in(request.user, team):
        row = current_usage(
            team, values.get("device_class") or "", profile, values.get("counts") or "devices"
        )
    classes = DeviceClass.objects.filter(gone_at=None).values_list("name", flat=True)
    card = quota_card(row) if row else ""
    return {"form": form, "row": row, "card": card, "classes": classes.distinct().order_by("name")}


def initial_values(request: HttpRequest) -> dict[str, object]:
    """Return the initial values from the address; a quota that the reader may not see gives none."""
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


def current_usage(team: Team, device_class: str, profile: Profile | None, counts: str) -> QuotaUsage | None:
    row = named_quota(
        team, device_class=device_class, profile_id=profile.pk if profile else None, counts=counts
    )
    return quota_usage([row])[0] if row else None
