"""
Pages of platform admins for one team: create it with its namespaces; its members, invitations, title and
goal; archive it. The page of a team opens beside the list too (`portal.setup.team_list`).

`teams.services` and `claims.quotas.namespaces` decide and record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.validators import validate_email
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from claims.models import Budget, Claim, Quota, TeamNamespace
from claims.quotas.namespaces import archive_team, reason_not_to_archive, restore_team, set_namespace
from claims.states import FINAL, ClaimState
from core.attempt import Attempt, posted, refusal_as_message
from core.errors import Conflict
from core.inputs import validate_name
from core.text import as_options
from core.transactions import service
from inventory.models import Cluster, Freshness, Namespace
from portal.setup.people import send_link
from portal.setup.team_list import held_places
from teams.access import require_admin, user_of
from teams.invitations import LIFETIME, invite
from teams.models import Membership, Role, Team, User, recorded_changes
from teams.services import change_team, create_team
from teams.views import by_role

CHANGES = 10
SHOWN_MEMBERS = 30
MOST_INVITED = 20  # at once
OFFERED = 500  # names of namespaces that a field suggests


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
        label="Owner (manages members)",
        max_length=150,
        required=False,
        widget=forms.TextInput({"autocomplete": "off"}),
        help_text="Empty: add or invite people later.",
    )

    def clean_owner(self) -> User | None:
        username = self.cleaned_data["owner"]
        owner = User.objects.filter(username=username, is_active=True, service_of=None).first()
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
    own: dict[UUID, str] = {}
    taken: set[tuple[UUID, str]] = set()
    places = TeamNamespace.objects.filter(cluster__in=clusters).values_list("cluster", "namespace", "team")
    for cluster_id, name, owner in places:
        if team and owner == team.pk:
            own[cluster_id] = name
        else:
            taken.add((cluster_id, name))
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
    form = TeamForm(posted(request))
    with Attempt(form) as attempt:
        if form.is_valid():
            team = create_team_with_namespaces(by, request.POST, **form.cleaned_data)
            messages.success(request, f"{team.title} was created. Give it a quota, so that it can request.")
            return redirect("setup:team", team.slug)
    rows = [
        replace(row, namespace=request.POST.get(f"namespace-{row.cluster.name}", ""))
        for row in namespace_rows(None)
    ]
    return render(request, "setup/team_new.html", {"form": form, "rows": rows}, status=attempt.status)


@service
def create_team_with_namespaces(by: User, typed: Mapping[str, Any], **fields: Any) -> Team:
    """Create a team with the namespaces that were typed. Raises as the services do; then there is no team."""
    team = create_team(by=by, **fields)
    for cluster in Cluster.objects.defer("credentials").filter(enabled=True):
        if namespace := str(typed.get(f"namespace-{cluster.name}", "")).strip():
            set_namespace(by=by, team=team, cluster=cluster, namespace=namespace)
    return team


def team_of(request: HttpRequest, slug: str) -> Team:
    """Return the team; 403 for anybody but platform admins."""
    require_admin(user_of(request))
    return get_object_or_404(Team, slug=slug)


class TeamInviteForm(forms.Form):
    """The addresses to invite into one team."""

    emails = forms.CharField(
        label="Email addresses",
        max_length=4000,
        widget=forms.TextInput({"autocomplete": "off", "placeholder": "ana@example.org, ben@example.org"}),
    )
    role = forms.ChoiceField(
        label="Role",
        choices=as_options(Role.choices),
        initial=Role.MEMBER,
        widget=forms.Select({"aria-label": "Role of the invited people"}),
    )

    def clean_emails(self) -> list[str]:
        emails = list(dict.fromkeys(re.split(r"[\s,;]+", self.cleaned_data["emails"].strip(" ,;"))))
        if len(emails) > MOST_INVITED:
            raise forms.ValidationError(
                f"{len(emails)} addresses; invite at most {MOST_INVITED} people at once."
            )
        for email in emails:
            try:
                validate_email(email)
            except forms.ValidationError:
                raise forms.ValidationError(f"“{email}” is no email address.") from None
        return emails


@require_http_methods(["GET", "HEAD", "POST"])
def team_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Show all that an admin changes of a team; POST changes title and goal."""
    team, by = team_of(request, slug), user_of(request)
    initial = {"title": team.title, "efficiency_goal": team.efficiency_goal}
    form = TeamSettingsForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        change_team(by=by, team=team, **form.cleaned_data)
        messages.success(request, f"Title and goal of {slug} were saved.")
        return redirect("setup:team", slug)
    return settings_page(request, team, {"form": form}, status=422 if form.errors else 200)


def settings_page(
    request: HttpRequest, team: Team, shown: Mapping[str, object], *, status: int = 200
) -> HttpResponse:
    rows = [] if team.archived_at else namespace_rows(team)
    held = held_places()
    page: dict[str, object] = {
        "team": team,
        "form": TeamSettingsForm(initial={"title": team.title, "efficiency_goal": team.efficiency_goal}),
        "invite": TeamInviteForm(),
        "rows": rows,
        "held": sum(held[row.cluster.pk, row.namespace] for row in rows if row.namespace),
        "members": (members := by_role(team))[:SHOWN_MEMBERS],
        "more_members": len(members[SHOWN_MEMBERS:]),
        "member_count": len(members),
        "roles": Role,
        "invitations": team.invitations.open(),
        "sends_mail": bool(settings.MAIL_URL),
        "lifetime": LIFETIME,
        "quotas": Quota.objects.filter(team=team).select_related("profile"),
        "budget": Budget.objects.open().filter(team=team, title="").first(),
        "claims": claims_of(team),
        "changes": recorded_changes(team)[:CHANGES],
    }
    return render(request, "setup/team.html", {**page, **shown}, status=status)


def claims_of(team: Team) -> dict[str, int]:
    """Return the numbers of all claims of a team, of those that are live, and of undecided requests."""
    return Claim.objects.filter(team=team).aggregate(
        all=Count("pk"),
        live=Count("pk", filter=~Q(state__in=FINAL)),
        waiting=Count("pk", filter=Q(state=ClaimState.REQUESTED)),
    )


@never_cache
@require_POST
def team_invite(request: HttpRequest, slug: str) -> HttpResponse:
    """Invite addresses into the team; a refused one is said. Without an email server show the links, once."""
    team, form = team_of(request, slug), TeamInviteForm(request.POST)
    if not form.is_valid():
        return settings_page(request, team, {"invite": form}, status=422)
    role, links = Role(form.cleaned_data["role"]), []
    for email in form.cleaned_data["emails"]:
        with refusal_as_message(request):
            sent = send_link(request, invite(by=user_of(request), email=email, team=team, role=role))
            if sent.problem:
                links.append(sent)
            else:
                messages.success(request, f"{email} was invited as {role.label}.")
    if links:
        return settings_page(request, team, {"links": links})
    return redirect("setup:team", slug)


@require_POST
def team_namespace(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the namespace of the team in one cluster; empty: none there."""
    team = team_of(request, slug)
    cluster = get_object_or_404(Cluster.objects.defer("credentials"), name=request.POST.get("cluster", ""))
    namespace = request.POST.get("namespace", "").strip()
    with refusal_as_message(request, of=Conflict):
        set_namespace(by=user_of(request), team=team, cluster=cluster, namespace=namespace)
        where = f"works in {namespace} in {cluster}" if namespace else f"has no namespace in {cluster}"
        messages.success(request, f"{slug} {where}.")
    return redirect("setup:team", slug)


def team_use(team: Team) -> dict[str, int]:
    """Count what archiving a team removes and keeps: `only_here` are people of no other team."""
    elsewhere = Membership.objects.exclude(team=team).values("user")
    people = team.memberships.filter(user__service_of=None)
    return {
        "people": people.count(),
        "only_here": people.filter(user__is_superuser=False).exclude(user__in=elsewhere).count(),
        "quotas": Quota.objects.filter(team=team).count(),
        "budgets": Budget.objects.open().filter(team=team).count(),
        "namespaces": TeamNamespace.objects.filter(team=team).count(),
        "invitations": team.invitations.open().count(),
        "claims": Claim.objects.filter(Q(team=team), state__in=FINAL).count(),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def team_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what archiving removes, then archive."""
    team, attempt = team_of(request, slug), Attempt()
    if request.method == "POST":
        with attempt:
            archive_team(by=user_of(request), team=team)
            messages.success(request, f"{team.title} is archived.")
            return redirect("setup:teams")
    page = {"team": team, "use": team_use(team), "reason": reason_not_to_archive(team)}
    return render(request, "setup/team_archive.html", page, status=attempt.status)


@require_POST
def team_restore(request: HttpRequest, slug: str) -> HttpResponse:
    team = team_of(request, slug)
    restore_team(by=user_of(request), team=team)
    messages.success(request, f"{team.title} is back. Add people, namespaces and quotas again.")
    return redirect("setup:team", slug)
