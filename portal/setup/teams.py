"""
Pages of platform admins for teams: the list; create one with its namespaces, rename it, archive it.

`teams.services` and `claims.quotas.namespaces` decide and record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Budget, Claim, Quota, TeamNamespace
from claims.quotas.counts import class_quotas
from claims.quotas.namespaces import archive_team, reason_not_to_archive, restore_team, set_namespace
from claims.states import FINAL
from core.errors import PortalError
from core.inputs import validate_name
from core.listing import Column, Listing
from core.markup import joined, markup
from core.prepared import Prepared
from core.templatetags.ui import state_badge
from core.times import ago
from inventory.models import Cluster, Freshness, Namespace
from teams.access import require_admin, user_of
from teams.models import Membership, Role, Team, User, label_of, recorded_changes
from teams.services import create_team, rename_team, set_efficiency_goal

CHANGES = 10
OFFERED = 500  # names of namespaces that a field suggests


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """
    What a team has. `deciders` are its owners and leads, `places` its namespaces as "fra-1 vision".

    `held` and `limit` are devices of its quotas for device classes; both are 0 without one.
    """

    people: int
    deciders: list[str]
    places: list[str]
    held: int
    limit: int
    live_claims: int


MEMBERS = Prepared(
    lambda team: (
        Membership.objects.filter(team=team)
        .order_by("user__username")
        .values_list("team", label_of("user"), "role")
    ),
    UUID,
    any_of="team_id",
)
PLACES = Prepared(
    lambda team: (
        TeamNamespace.objects.filter(team=team)
        .order_by("cluster__name")
        .values_list("team", "cluster__name", "namespace")
    ),
    UUID,
    any_of="team_id",
)
LIVE_CLAIMS = Prepared(
    lambda team: (
        Claim.objects.live().filter(team=team).order_by().values_list("team").annotate(total=Count("pk"))
    ),
    UUID,
    any_of="team_id",
)


def summarize(teams: list[Team]) -> None:
    """Set `summary` of each team; the number of queries does not grow with them."""
    ids = [team.pk for team in teams]
    people: dict[UUID, list[tuple[str, str]]] = defaultdict(list)
    for team_id, label, role in MEMBERS.rows(ids):
        people[team_id].append((label, role))
    places: dict[UUID, list[str]] = defaultdict(list)
    for team_id, cluster, namespace in PLACES.rows(ids):
        places[team_id].append(f"{cluster} {namespace}")
    devices, live = class_quotas(ids), dict(LIVE_CLAIMS.rows(ids))
    for team in teams:
        held, limit = devices[team.pk]
        team.summary = TeamSummary(  # type: ignore[attr-defined]
            people=len(people[team.pk]),
            deciders=[name for name, role in people[team.pk] if role in (Role.OWNER, Role.LEAD)],
            places=places[team.pk],
            held=held,
            limit=limit,
            live_claims=live.get(team.pk, 0),
        )


COLUMNS: list[Column[Any]] = [  # rows have the `summary` of `summarize`
    Column("title", "Team", lambda team: team.title, sort="title", fixed=True),
    Column("slug", "Name", lambda team: team.slug, sort="slug"),
    Column("people", "People", lambda team: team.summary.people, numeric=True),
    Column("deciders", "Owners and leads", lambda team: ", ".join(team.summary.deciders)),
    Column("namespaces", "Namespaces", lambda team: ", ".join(team.summary.places)),
    Column("claims", "Live claims", lambda team: team.summary.live_claims, numeric=True),
    Column("held", "Devices held", lambda team: team.summary.held, numeric=True),
    Column("limit", "Device quota", lambda team: team.summary.limit, numeric=True),
    Column("archived", "Archived", lambda team: team.archived_at, sort="archived_at", shown=False),
]


NO_SLUG, BREAK = "no-slug", mark_safe("<br>")
# The cells behind the title, by the names of their columns and in their order.
CELLS: dict[str, Callable[[Any, Mapping[str, str]], SafeString]] = {
    "slug": lambda team, _to: markup('<td class="wide"><span class="dg-id">{}</span></td>', team.slug),
    "people": lambda team, to: markup(
        '<td class="dg-n" data-l="People"><a href="{}" aria-label="People of {}: {}">{}</a></td>',
        *(to["people"].replace(NO_SLUG, team.slug), team.title, team.summary.people, team.summary.people),
    ),
    "deciders": lambda team, _to: markup(
        '<td class="dg-break mr" data-l="Owners and leads">{}</td>', ", ".join(team.summary.deciders) or "—"
    ),
    "namespaces": lambda team, _to: markup(
        '<td class="wide" data-l="Namespaces">{}</td>',
        joined(BREAK, (markup('<span class="dg-id">{}</span>', place) for place in team.summary.places))
        or "—",
    ),
    "claims": lambda team, to: markup(
        '<td class="dg-n" data-l="Live claims"><a href="{}?team={}">{}</a></td>',
        *(to["claims"], team.slug, team.summary.live_claims),
    ),
    "held": lambda team, _to: markup(
        '<td class="dg-n mr{}" data-l="Devices held">{}</td>',
        *(" dg-bad" if team.summary.held > team.summary.limit else "", team.summary.held),
    ),
    "limit": lambda team, to: markup(
        '<td class="dg-n" data-l="Device quota"><a href="{}?team={}">{}</a></td>',
        *(to["quotas"], team.slug, team.summary.limit),
    ),
    "archived": lambda team, _to: markup(
        '<td class="mr" data-l="Archived">{}</td>', ago(team.archived_at) if team.archived_at else "—"
    ),
}


def table_rows(teams: Iterable[Team], shows: Mapping[str, bool]) -> SafeString:
    """Return a `<tr>` per team with its `summary`, and a cell for each shown column."""
    settings_url = reverse("setup:team", args=[NO_SLUG])
    to = {
        "people": reverse("teams:people", args=[NO_SLUG]),
        "claims": reverse("claims:list"),
        "quotas": reverse("claims:quotas"),
    }
    shown = [cell for column, cell in CELLS.items() if shows.get(column)]
    archived = state_badge("over", "circle-minus", "Archived")
    return joined(
        "\n",
        (
            markup(
                '<tr{}><td class="wide"><a class="dg-link" href="{}">{}</a> {}</td>{}</tr>',
                mark_safe(' class="soft"') if team.archived_at else "",
                *(settings_url.replace(NO_SLUG, team.slug), team.title, archived if team.archived_at else ""),
                joined("", (cell(team, to) for cell in shown)),
            )
            for team in teams
        ),
    )


@require_safe
def team_list(request: HttpRequest) -> HttpResponseBase:
    require_admin(user_of(request))
    listing = Listing(
        request,
        Team.objects.all(),
        columns=COLUMNS,
        title="Teams",
        search=("slug", "title"),
        sort="title",
        prepare=summarize,
    )
    context = {
        "rows": lambda: table_rows(listing.page.object_list, listing.shows),
        "empty_icon": "users-group",
        "empty_title": "No teams yet",
        "empty_text": "Claims, quotas and costs belong to teams.",
        "empty_url": reverse("setup:team_new"),
        "empty_action": "New team",
    }
    return listing.respond("setup/teams.html", context)


class TitleForm(forms.Form):
    title = forms.CharField(label="Title", max_length=80, help_text="Such as “Computer vision”.")


class TeamSettingsForm(TitleForm):
    efficiency_goal = forms.IntegerField(
        label="Efficiency goal in percent",
        required=False,
        min_value=1,
        max_value=100,
        help_text="Shown beside the utilization on the team’s cost page and in the report. Not enforced.",
    )


class TeamForm(TitleForm):
    field_order = ("slug", "title", "owner")

    slug = forms.CharField(
        label="Name",
        max_length=40,
        validators=[validate_name],
        help_text="Lower-case letters, digits and hyphens. It labels claims and cannot be changed.",
    )
    owner = forms.CharField(
        label="Owner",
        max_length=150,
        required=False,
        widget=forms.TextInput({"autocomplete": "off"}),
        help_text="User name of who manages the members. Empty: add or invite people later.",
    )

    def clean_owner(self) -> User | None:
        username = self.cleaned_data["owner"]
        owner = User.objects.filter(username=username, is_active=True).first()
        if username and owner is None:
            raise forms.ValidationError(f"No user has the name “{username}”.")
        return owner


@dataclass(frozen=True, slots=True)
class TeamNamespaceRow:
    """
    The namespace of a team in a cluster, with what the mirror knows of it.

    `exists` is None while the namespaces of the cluster have not been read. `names` are those of the cluster
    that no other team has.
    """

    cluster: Cluster
    namespace: str
    exists: bool | None
    live_claims: int
    names: list[str]


def namespace_rows(team: Team | None) -> list[TeamNamespaceRow]:
    """Return a row for each cluster in use; four queries."""
    clusters = list(Cluster.objects.defer("credentials").filter(enabled=True).order_by("name"))
    names: dict[Any, list[str]] = {cluster.pk: [] for cluster in clusters}
    present = Namespace.objects.filter(cluster__in=clusters, gone_at=None).order_by("name")
    for cluster_id, name in present.values_list("cluster", "name"):
        names[cluster_id].append(name)
    listed = set(
        Freshness.objects.filter(resource="namespaces", listed_at__isnull=False).values_list(
            "cluster", flat=True
        )
    )
    places = list(TeamNamespace.objects.filter(cluster__in=clusters).select_related("team"))
    own = {place.cluster_id: place.namespace for place in places if place.team == team}
    taken = {(place.cluster_id, place.namespace) for place in places if place.team != team}
    claims = Claim.objects.live().filter(team=team).order_by() if team else Claim.objects.none()
    live = dict(claims.values_list("cluster").annotate(Count("pk")))
    return [
        TeamNamespaceRow(
            cluster,
            own.get(cluster.pk, ""),
            own.get(cluster.pk, "") in names[cluster.pk] if cluster.pk in listed else None,
            live.get(cluster.pk, 0),
            [name for name in names[cluster.pk] if (cluster.pk, name) not in taken][:OFFERED],
        )
        for cluster in clusters
    ]


@require_http_methods(["GET", "HEAD", "POST"])
def team_new(request: HttpRequest) -> HttpResponse:
    """Create a team, and give it the namespaces that were typed."""
    by = user_of(request)
    require_admin(by)
    form, status = TeamForm(request.POST or None), 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                team = create_team(by=by, **form.cleaned_data)
            except PortalError as refusal:
                form.add_error(refusal.extra.get("field"), refusal.message)
                status = refusal.status
            else:
                messages.success(
                    request, f"{team.title} was created. Give it a quota, so that it can request."
                )
                add_namespaces(request, team)
                return redirect("setup:team", team.slug)
    return render(request, "setup/team_new.html", {"form": form, "rows": namespace_rows(None)}, status=status)


def add_namespaces(request: HttpRequest, team: Team) -> None:
    """Set the namespaces of a new team; a refused one is said and can be mended on the page of the team."""
    for cluster in Cluster.objects.defer("credentials").filter(enabled=True):
        if namespace := request.POST.get(f"namespace-{cluster.name}", "").strip():
            try:
                set_namespace(by=user_of(request), team=team, cluster=cluster, namespace=namespace)
            except PortalError as refusal:
                messages.error(request, refusal.message)


def team_of(request: HttpRequest, slug: str) -> Team:
    """Return the team; 403 for anybody but platform admins."""
    require_admin(user_of(request))
    return get_object_or_404(Team, slug=slug)


@require_http_methods(["GET", "HEAD", "POST"])
def team_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Show title, goal, namespaces, quotas and people of a team; POST changes title and goal."""
    team, by = team_of(request, slug), user_of(request)
    initial = {"title": team.title, "efficiency_goal": team.efficiency_goal}
    form = TeamSettingsForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        rename_team(by=by, team=team, title=form.cleaned_data["title"])
        set_efficiency_goal(by=by, team=team, percent=form.cleaned_data["efficiency_goal"])
        messages.success(request, f"Title and goal of {slug} were saved.")
        return redirect("setup:team", slug)
    page = {
        "team": team,
        "form": form,
        "rows": [] if team.archived_at else namespace_rows(team),
        "people": team.memberships.count(),
        "invited": team.invitations.open().count(),
        "quotas": Quota.objects.filter(team=team).select_related("profile"),
        "claims": Claim.objects.filter(team=team).count(),
        "changes": recorded_changes(team)[:CHANGES],
    }
    return render(request, "setup/team.html", page, status=422 if form.errors else 200)


@require_POST
def team_namespace(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the namespace of the team in one cluster; empty: none there."""
    team = team_of(request, slug)
    cluster = get_object_or_404(Cluster.objects.defer("credentials"), name=request.POST.get("cluster", ""))
    namespace = request.POST.get("namespace", "").strip()
    try:
        set_namespace(by=user_of(request), team=team, cluster=cluster, namespace=namespace)
    except PortalError as refusal:
        messages.error(request, refusal.message)
    else:
        where = f"works in {namespace} in {cluster}" if namespace else f"has no namespace in {cluster}"
        messages.success(request, f"{slug} {where}.")
    return redirect("setup:team", slug)


@dataclass(frozen=True, slots=True)
class TeamUse:
    """What archiving a team removes and keeps, in numbers."""

    people: int
    only_here: int  # of them, in no other team
    quotas: int
    budgets: int
    namespaces: int
    invitations: int
    claims: int  # that are over: they stay


def team_use(team: Team) -> TeamUse:
    elsewhere = Membership.objects.exclude(team=team).values("user")
    return TeamUse(
        people=team.memberships.count(),
        only_here=team.memberships.filter(user__is_superuser=False).exclude(user__in=elsewhere).count(),
        quotas=Quota.objects.filter(team=team).count(),
        budgets=Budget.objects.open().filter(team=team).count(),
        namespaces=TeamNamespace.objects.filter(team=team).count(),
        invitations=team.invitations.open().count(),
        claims=Claim.objects.filter(Q(team=team), state__in=FINAL).count(),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def team_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what archiving removes, then archive."""
    team, status = team_of(request, slug), 200
    if request.method == "POST":
        try:
            archive_team(by=user_of(request), team=team)
        except PortalError as refusal:
            status = refusal.status
        else:
            messages.success(request, f"{team.title} is archived.")
            return redirect("setup:teams")
    page = {"team": team, "use": team_use(team), "reason": reason_not_to_archive(team)}
    return render(request, "setup/team_archive.html", page, status=status)


@require_POST
def team_restore(request: HttpRequest, slug: str) -> HttpResponse:
    team = team_of(request, slug)
    restore_team(by=user_of(request), team=team)
    messages.success(request, f"{team.title} is back. Add people, namespaces and quotas again.")
    return redirect("setup:team", slug)
