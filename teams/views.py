"""
Pages: teams, the people of one, the reader's profile and preferences, tokens, notices.

Teams, and the people of one: everybody in it sees them, an owner changes them.

The page of a person about themselves.

Choices that a browser keeps in a cookie: the theme, and the team whose pages the sidebar shows.

The API tokens of a person: the list, a new one, shown once, and the end of one.

What the portal had to tell a person: the list, the bell above every page, and reading.
"""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_filters import ChoiceFilter, FilterSet

from core.errors import PortalError
from core.listing import Column, Listing, sheet, wants_sheet
from core.text import counted
from teams import services
from teams.access import asker, is_platform_admin, role_in, team_for
from teams.forms import AccountForm, MemberForm, RoleForm, TokenForm
from teams.models import ApiToken, Membership, Notice, Role, Team, User
from teams.notices import mark_read
from teams.tokens import create_token, revoke_token


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


@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    person = asker(request)
    form = AccountForm(request.POST or None, instance=person)
    if request.method == "POST" and form.is_valid():
        person.save(update_fields=list(form.cleaned_data))
        messages.success(request, "Your profile is saved.")
        return remember(request, redirect("teams:profile"), "theme", person.theme)
    memberships = Membership.objects.filter(user=person).select_related("team").order_by("team__slug")
    page = {"form": form, "memberships": memberships}
    return render(request, "teams/profile.html", page, status=422 if form.errors else 200)


YEAR = 365 * 24 * 3600


def back(request: HttpRequest) -> HttpResponse:
    """Redirect to where the form stood, if that is an address of ours."""
    there = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(there, {request.get_host()}, require_https=request.is_secure())
    # Without a slash it would be taken for the name of a view.
    return redirect(there if allowed and "/" in there else "home")


def remember(request: HttpRequest, response: HttpResponse, name: str, value: str) -> HttpResponse:
    response.set_cookie(name, value, max_age=YEAR, secure=request.is_secure(), httponly=True, samesite="Lax")
    return response


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Choose light, dark or as the system; known to the browser, and to the person on other browsers."""
    chosen = request.POST.get("theme", "")
    if chosen not in User.Theme.values:
        return HttpResponseBadRequest()
    if request.user.is_authenticated:
        User.objects.filter(pk=request.user.pk).update(theme=chosen)
    return remember(request, back(request), "theme", chosen)


@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """Choose the current team; empty is all teams, which only a platform admin sees."""
    slug = request.POST.get("team", "")
    if slug:
        team_for(asker(request), slug)
    return remember(request, back(request), "team", slug)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    person = asker(request)
    if request.method == "GET" and wants_sheet(request):
        return tokens_sheet(person)
    form = TokenForm(request.POST or None)
    made, text = None, ""
    if request.method == "POST" and form.is_valid():
        made, text = create_token(by=person, title=form.cleaned_data["title"], expires_at=form.expiry())
        form = TokenForm()
    page = {
        "tokens": ApiToken.objects.filter(user=person, revoked_at=None),
        "form": form,
        "made": made,
        "text": text,
        "now": timezone.now(),
        "api": request.build_absolute_uri("/api/v1/me"),
    }
    return render(request, "teams/tokens.html", page, status=422 if form.errors else 200)


def tokens_sheet(person: User) -> HttpResponse:
    heads = ("Token", "Begins with", "Made", "Runs out", "Last used")
    rows = ApiToken.objects.filter(user=person, revoked_at=None)
    cells = ((one.title, one.start, one.created_at, one.expires_at, one.last_used_at) for one in rows)
    return sheet("tokens", heads, cells)


@require_POST
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=token_id, user=asker(request))
    revoke_token(by=asker(request), token=token)
    messages.success(request, f"“{token.title}” does not work any more.")
    return redirect("teams:tokens")


UNREAD, IMPORTANT = "unread", "important"


class NoticeFilter(FilterSet):
    show = ChoiceFilter(
        label="Show",
        choices=[(UNREAD, "unread"), (IMPORTANT, "what needs me")],
        method="by_kind",
        empty_label="All",
    )

    class Meta:
        model = Notice
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_kind(self, notices: QuerySet[Notice], name: str, value: str) -> QuerySet[Notice]:
        return notices.filter(read_at=None) if value == UNREAD else notices.filter(important=True)


COLUMNS: list[Column[Notice]] = [
    Column("title", "Notice", lambda notice: notice.title, fixed=True),
    Column("created", "When", lambda notice: notice.created_at.isoformat(), sort="created_at"),
    Column("body", "What it says", lambda notice: notice.body, shown=False),
    Column("read", "Read", lambda notice: notice.read_at and notice.read_at.isoformat()),
]


@require_safe
def notices(request: HttpRequest) -> HttpResponseBase:
    """The notices of the reader, newest first."""
    listing = Listing(
        request,
        Notice.objects.filter(user=asker(request)),
        columns=COLUMNS,
        title="Notices",
        filters=NoticeFilter,
        search=("title", "body"),
        sort="-created",
    )
    empty = "What happens to your claims, and what waits for your decision, will stand here."
    return listing.respond(
        "teams/notices.html",
        {"empty_icon": "bell", "empty_title": "Nothing to tell", "empty_text": empty},
    )


@require_safe
def bell(request: HttpRequest) -> HttpResponse:
    """The bell alone, which renews itself."""
    return render(request, "teams/_bell.html")


@require_safe
def follow(request: HttpRequest, notice_id: UUID) -> HttpResponse:
    """Go to what a notice is about. It counts as read from then on, which is all that this changes."""
    notice = get_object_or_404(Notice, pk=notice_id, user=asker(request))
    mark_read(by=asker(request), ids=[notice.pk])
    return redirect(notice.url or reverse("teams:notices"))


@require_POST
def read(request: HttpRequest) -> HttpResponse:
    """Mark the notices that are named as read, or all of them where none is."""
    chosen = IdsForm(request.POST)
    if not chosen.is_valid():
        return HttpResponse("A notice is named by its id.", status=422)
    count = mark_read(by=asker(request), ids=chosen.cleaned_data["id"])
    messages.success(request, f"{counted(count, 'notice is', 'notices are')} read.")
    return redirect("teams:notices")


class IdsForm(forms.Form):
    id = forms.TypedMultipleChoiceField(required=False, coerce=UUID, empty_value=None)

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data)
        ids = [(value, value) for value in data.getlist("id")]
        self.fields["id"].choices = ids  # type: ignore[attr-defined]
