"""Teams, and the people of one: everybody in it sees them, an owner changes them."""

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.errors import PortalError
from core.sheets import sheet, wants_sheet
from teams import services
from teams.access import asker, is_platform_admin, role_in, team_for
from teams.forms import MemberForm, RoleForm
from teams.models import Role, Team


@require_safe
def teams(request: HttpRequest) -> HttpResponse:
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only a platform admin sees every team.")
    every = Team.objects.annotate(people=Count("memberships")).order_by("slug")
    if wants_sheet(request):
        heads = ("Team", "Name", "People")
        return sheet("teams", heads, every.values_list("slug", "title", "people"))
    return render(request, "teams/list.html", {"teams": every})


@require_http_methods(["GET", "HEAD", "POST"])
def people(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the members; POST adds one."""
    team = team_for(request.user, slug)
    if request.method == "GET" and wants_sheet(request):
        return people_sheet(team)
    form = MemberForm(request.POST or None)
    if request.method == "POST":
        team_for(request.user, slug, at_least=Role.OWNER)
        if form.is_valid() and (response := add(request, team, form)):
            return response
    page = {
        "team": team,
        "form": form,
        "members": team.memberships.select_related("user").order_by("user__username"),
        "roles": Role,
        "may_change": role_in(request.user, team) == Role.OWNER,
    }
    return render(request, "teams/people.html", page, status=422 if form.errors else 200)


def people_sheet(team: Team) -> HttpResponse:
    rows = team.memberships.select_related("user").order_by("user__username")
    heads = ("User name", "Name", "Role")
    cells = ((one.user.username, one.user.label, one.get_role_display()) for one in rows)
    return sheet(f"people-{team.slug}", heads, cells)


def add(request: HttpRequest, team: Team, form: MemberForm) -> HttpResponse | None:
    """Add the person of a valid form; None if that was refused, with the sentence in the form."""
    name, role = form.cleaned_data["username"], Role(form.cleaned_data["role"])
    try:
        services.add_member(by=asker(request), team=team, username=name, role=role)
    except PortalError as refusal:
        form.add_error("username", refusal.message)
        return None
    messages.success(request, f"{name} is in {team.slug} now.")
    return redirect("teams:people", team.slug)


@require_POST
def role(request: HttpRequest, slug: str, user_id: UUID) -> HttpResponse:
    team = team_for(request.user, slug, at_least=Role.OWNER)
    member = get_object_or_404(team.memberships.select_related("user"), user_id=user_id)
    form = RoleForm(request.POST)
    if form.is_valid():
        chosen = Role(form.cleaned_data["role"])
        try:
            services.change_role(by=asker(request), team=team, member=member, role=chosen)
        except PortalError as refusal:
            messages.error(request, refusal.message)
        else:
            messages.success(request, f"{member.user.username} is {chosen.label} of {team.slug} now.")
        return redirect("teams:people", team.slug)
    return render(request, "404.html", status=422)


@require_POST
def remove(request: HttpRequest, slug: str, user_id: UUID) -> HttpResponse:
    """Take somebody out of the team; one may always take out oneself."""
    leaves = user_id == asker(request).pk
    team = team_for(request.user, slug, at_least=Role.VIEWER if leaves else Role.OWNER)
    member = get_object_or_404(team.memberships.select_related("user"), user_id=user_id)
    try:
        services.remove_member(by=asker(request), team=team, member=member)
    except PortalError as refusal:
        messages.error(request, refusal.message)
        return redirect("teams:people", team.slug)
    messages.success(request, f"{member.user.username} is no longer in {team.slug}.")
    return redirect("home") if leaves else redirect("teams:people", team.slug)
