"""Pages: teams and their members; the reader's profile, theme and current team."""

from typing import cast
from uuid import UUID

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.account.views import password_reset as allauth_password_reset
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core import undo
from core.attempt import Attempt, refusal_as_message
from core.errors import cleaned
from core.listing import csv_response, wants_csv
from core.text import as_options
from teams import services
from teams.access import role_in, team_for, user_of
from teams.account_views import AccountForm
from teams.identity.rules import groups_giving
from teams.models import Membership, Role, Team, User, recorded_changes
from teams.service_accounts import service_accounts_of
from teams.zones import zone_choices


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic while it runs
    marks_required = True
    timezone = forms.ChoiceField(
        label="Time zone",
        required=False,
        help_text="For times on pages and in emails.",
        choices=lambda: zone_choices("Same as browser"),
    )

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "timezone", "theme")
        labels = {
            "first_name": "First name",
            "last_name": "Last name",
            "theme": "Theme",
        }


class MemberForm(forms.Form):
    username = forms.CharField(
        label="User name", max_length=150, widget=forms.TextInput({"autocomplete": "off"})
    )
    role = forms.ChoiceField(label="Role", choices=as_options(Role.choices), initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(label="Role", choices=as_options(Role.choices))


CHANGES = 10  # shown of members and roles


@require_http_methods(["GET", "HEAD", "POST"])
def members(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the members of a team; POST adds one."""
    team = team_for(request.user, slug)
    if request.method == "GET" and wants_csv(request):
        return members_csv(team)
    asked_for = {name: request.GET[name] for name in ("username", "role") if name in request.GET}
    form = MemberForm(request.POST or None, initial=asked_for)
    if request.method == "POST":
        team_for(request.user, slug, at_least=Role.OWNER)
        if form.is_valid() and (response := add_member(request, team, form)):
            return response
    role = role_in(request.user, team)
    rows = by_role(team)
    page = {
        "team": team,
        "form": form,
        "members": rows,
        "any_from_groups": name_groups(team, rows),
        "roles": Role,
        "accounts": service_accounts_of(team),
        "account_form": AccountForm(auto_id="account_%s"),
        "may_make_accounts": role in (Role.LEAD, Role.OWNER),
        "may_change": (may_change := role == Role.OWNER),
        "changes": recorded_changes(team)[:CHANGES] if may_change else (),
    }
    return render(request, "teams/people.html", page, status=422 if form.errors else 200)


def by_role(team: Team) -> list[Membership]:
    """Return the members, those who may do most first."""
    rows = team.memberships.filter(user__service_of=None).select_related("user").order_by("user__username")
    return sorted(rows, key=lambda row: -Role(row.role).rank)


def name_groups(team: Team, members: list[Membership]) -> bool:
    """Say of each member through which groups they have a role; return whether anybody has one so."""
    from_groups = [member for member in members if member.from_groups]
    groups = groups_giving(team, [member.user_id for member in from_groups]) if from_groups else {}
    for member in from_groups:
        member.by_groups = groups.get(member.user_id) or ["a group of an identity provider"]  # type: ignore[attr-defined]
    return bool(from_groups)


def members_csv(team: Team) -> HttpResponse:
    rows = by_role(team)
    name_groups(team, rows)
    heads = ("User name", "Name", "Role", "By group")
    cells = (
        (row.user.username, row.user.label, row.get_role_display(), ", ".join(getattr(row, "by_groups", ())))
        for row in rows
    )
    return csv_response(f"people-{team.slug}", heads, cells)


def add_member(request: HttpRequest, team: Team, form: MemberForm) -> HttpResponse | None:
    """Add the person of a valid form; if that is refused, put the reason into the form and return None."""
    name, role = form.cleaned_data["username"], Role(form.cleaned_data["role"])
    with Attempt(form, field="username"):
        services.add_member(by=user_of(request), team=team, username=name, role=role)
        messages.success(request, f"{name} was added to {team.slug}.")
        return redirect("teams:people", team.slug)
    return None


@require_POST
def change_role(request: HttpRequest, slug: str, user_id: UUID) -> HttpResponse:
    team = team_for(request.user, slug, at_least=Role.OWNER)
    member = get_object_or_404(team.memberships.select_related("user"), user_id=user_id)
    form = RoleForm(request.POST if "role" in request.POST else request.GET)  # the second is Undo
    before, chosen = Role(member.role), Role(cleaned(form)["role"])
    with refusal_as_message(request):
        services.change_role(by=user_of(request), team=team, member=member, role=chosen)
        said = f"{member.user.username} is now {chosen.label} of {team.slug}."
        if before == chosen:
            messages.success(request, said)
        else:
            undo.offer(request, said, f"{request.path}?role={before}")
    return redirect_back(request, reverse("teams:people", args=[team.slug]))


@require_POST
def remove_member(request: HttpRequest, slug: str, user_id: UUID) -> HttpResponse:
    """Remove a member; everybody may leave a team."""
    leaves = user_id == user_of(request).pk
    team = team_for(request.user, slug, at_least=Role.VIEWER if leaves else Role.OWNER)
    member = get_object_or_404(team.memberships.select_related("user"), user_id=user_id)
    people = reverse("teams:people", args=[team.slug])
    with refusal_as_message(request):
        services.remove_member(by=user_of(request), team=team, member=member)
        messages.success(request, f"{member.user.username} was removed from {team.slug}.")
        if leaves:
            return redirect("home")
    return redirect_back(request, people)


@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    person = user_of(request)
    form = PersonForm(request.POST or None, instance=person)
    if request.method == "POST" and form.is_valid():
        if "email" in form.changed_data:  # to which a new password is sent
            raise_if_reauthentication_required(request, app="teams")
        services.change_profile(by=person, **form.cleaned_data)
        messages.success(request, "Account saved.")
        return store_preference(request, redirect("teams:profile"), "theme", person.theme)
    memberships = Membership.objects.filter(user=person).select_related("team").order_by("team__slug")
    page = {"form": form, "memberships": memberships}
    return render(request, "teams/profile.html", page, status=422 if form.errors else 200)


@login_not_required
def password_reset(request: HttpRequest) -> HttpResponseBase:
    """Show allauth's page; without an email server one that says whom to ask."""
    if settings.MAIL_URL:
        return cast(HttpResponseBase, allauth_password_reset(request))
    return render(request, "account/password_reset_by_admin.html")


YEAR = 365 * 24 * 3600  # seconds


def redirect_back(request: HttpRequest, default: str = "home") -> HttpResponse:
    """Redirect to the page that sent the form (`next`), if it is on this host; else to `default`."""
    url = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())
    # redirect() takes a text without a slash for a view name.
    return redirect(url if allowed and "/" in url else default)


def store_preference(request: HttpRequest, response: HttpResponse, name: str, value: str) -> HttpResponse:
    response.set_cookie(name, value, max_age=YEAR, secure=request.is_secure(), httponly=True, samesite="Lax")
    return response


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Set the theme: in a cookie for this browser, and in the profile for other browsers."""
    chosen = request.POST.get("theme", "")
    if chosen not in User.Theme.values:
        return HttpResponseBadRequest()
    if request.user.is_authenticated:
        User.objects.filter(pk=request.user.pk).update(theme=chosen)
    return store_preference(request, redirect_back(request), "theme", chosen)


@require_POST
def switch_team(request: HttpRequest) -> HttpResponse:
    """Set the current team; empty means all teams, which only platform admins see."""
    slug = request.POST.get("team", "")
    if slug:
        team_for(user_of(request), slug)
    return store_preference(request, redirect_back(request), "team", slug)


@require_safe
def choose_team(request: HttpRequest) -> HttpResponse:
    """List the reader's teams as buttons: in the menu of the frame once it opens, else as a page."""
    page = {"teams": Team.objects.visible_to(request.user).active(), "next": request.GET.get("next", "")}
    is_part = request.headers.get("HX-Request") == "true"
    return render(request, "teams/_choices.html" if is_part else "teams/choose.html", page)
