"""
Pages of platform admins for people: who has an account, platform admins, deactivation, invitations by email;
and the page on which an invited person accepts.

`teams.services` and `teams.invitations` decide and record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Claim, Delegation
from core.attempt import Attempt, posted, refusal_as_message
from core.errors import PortalError
from core.listing import Column, Listing
from core.models import Installation
from core.text import as_options, counted
from core.times import utc_moment
from notify.mail import send_now
from teams.access import require_admin, user_of
from teams.identity.models import IdentityProvider
from teams.identity.suspension import refused_by, set_break_glass
from teams.invitations import (
    LIFETIME,
    InvitationOver,
    accept_as,
    accept_as_new,
    find_invitation,
    invite,
    link_token,
    revoke_invitation,
)
from teams.models import Invitation, Membership, Role, Team, User, recorded_changes
from teams.services import deactivate_person, reactivate_person, set_platform_admin
from teams.sessions import installation_for
from teams.sign_out import sessions_of, sign_out_person
from teams.views import redirect_back

CHANGES = 10
MAX_INVITATIONS = 50  # shown of those that are open
BACKEND = "django.contrib.auth.backends.ModelBackend"

COLUMNS: list[Column[Any]] = [  # rows carry the annotation of `people_for_list`
    Column("username", "User name", lambda person: person.username, sort="username", fixed=True),
    Column("name", "Name", lambda person: person.get_full_name(), sort=("last_name", "first_name")),
    Column("email", "Email", lambda person: person.email, sort="email"),
    Column("teams", "Teams", lambda person: person.team_count, sort="team_count", numeric=True),
    Column("state", "State", lambda person: person_state(person), sort=("is_active", "is_superuser")),
    Column("last_login", "Last sign-in", lambda person: person.last_login, sort="last_login"),
]


def person_state(person: User) -> str:
    if not person.is_active:
        return "deactivated"
    return "platform admin" if person.is_superuser else "active"


def people_for_list() -> QuerySet[User]:
    memberships = Membership.objects.filter(user=OuterRef("pk")).order_by().values("user")
    return User.objects.filter(service_of=None).annotate(
        team_count=Subquery(memberships.annotate(number=Count("*")).values("number"))
    )


def open_invitations() -> list[Invitation]:
    """Return the newest open invitations into any team; one query."""
    return list(Invitation.objects.open().select_related("team", "invited_by")[:MAX_INVITATIONS])


@require_safe
def people(request: HttpRequest) -> HttpResponseBase:
    require_admin(user_of(request))
    listing = Listing(
        request,
        people_for_list(),
        columns=COLUMNS,
        title="People",
        search=("username", "first_name", "last_name", "email"),
        sort="username",
    )
    context = {
        "invitations": open_invitations,
        "empty_icon": "users",
        "empty_title": "No people yet",
    }
    return listing.respond("setup/people.html", context)


def person_use(person: User) -> dict[str, Any]:
    """Count what depends on a person; `alone` are the teams without another active owner."""
    now = timezone.now()
    owned = Team.objects.filter(memberships__user=person, memberships__role=Role.OWNER)
    others = Membership.objects.filter(role=Role.OWNER, user__is_active=True).exclude(user=person)
    delegations = Delegation.objects.filter(Q(lead=person) | Q(to=person), ends_at__gt=now)
    admins = User.objects.filter(is_superuser=True, is_active=True)
    return {
        "claims": Claim.objects.live().filter(requested_by=person).count(),
        "sessions": sessions_of(person).count(),
        "tokens": person.api_tokens.filter(expires_at__gt=now, revoked_at=None).count(),
        "delegations": delegations.count(),
        "alone": list(owned.exclude(pk__in=others.values("team"))),
        "other_admins": admins.exclude(pk=person.pk).count(),
    }


def person_for(request: HttpRequest, person_id: UUID) -> User:
    """Return the person; 403 for anybody but platform admins."""
    require_admin(user_of(request))
    return get_object_or_404(User, pk=person_id, service_of=None)


@require_safe
def person(request: HttpRequest, person_id: UUID) -> HttpResponse:
    row = person_for(request, person_id)
    page = {
        "person": row,
        "state": person_state(row),
        "use": person_use(row),
        "refused_by": refused_by(row),
        "memberships": row.memberships.select_related("team").order_by("team__slug"),
        "changes": recorded_changes(row)[:CHANGES],
    }
    return render(request, "setup/person.html", page)


def kept_by(person: User) -> str:
    """Return what a role in the portal means for whom a provider keeps through SCIM, empty for others."""
    provider = IdentityProvider.objects.filter(scim_users__user=person, scim_users__deleted_at=None).first()
    if provider is None:
        return ""
    return (
        f"{provider.title} keeps this account through SCIM. From now on it can no longer change, deactivate "
        f"or delete it: deactivate {person.label} here too when they leave."
    )


@require_http_methods(["GET", "HEAD", "POST"])
def person_admin(request: HttpRequest, person_id: UUID) -> HttpResponse:
    """Say what a platform admin may do, then make the person one, or end that."""
    row = person_for(request, person_id)
    attempt = Attempt()
    if request.method == "POST":
        admin = request.POST.get("admin") == "on"
        with attempt:
            set_platform_admin(by=user_of(request), person=row, admin=admin)
            now = "is now a platform admin" if admin else "is no longer a platform admin"
            messages.success(request, f"{row.username} {now}.")
            # Who has ended their own role may not see this page any more.
            return redirect("home") if row == request.user else redirect("setup:person", row.pk)
    page = {"person": row, "problem": attempt.problem, "use": person_use(row), "kept_by": kept_by(row)}
    return render(request, "setup/person_admin.html", page, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def person_break_glass(request: HttpRequest, person_id: UUID) -> HttpResponse:
    """Say what a break-glass account is, then mark the person's as one, or end that."""
    row = person_for(request, person_id)
    attempt = Attempt()
    if request.method == "POST":
        marked = request.POST.get("marked") == "on"
        with attempt:
            set_break_glass(by=user_of(request), person=row, marked=marked)
            now = "is a break-glass account now" if marked else "is no longer a break-glass account"
            messages.success(request, f"{row.username} {now}.")
            return redirect("setup:person", row.pk)
    page = {"person": row, "problem": attempt.problem, "refused_by": refused_by(row), "kept_by": kept_by(row)}
    return render(request, "setup/person_break_glass.html", page, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def person_deactivate(request: HttpRequest, person_id: UUID) -> HttpResponse:
    """Say what becomes of claims, tokens and delegations, then deactivate."""
    row = person_for(request, person_id)
    attempt = Attempt()
    if request.method == "POST":
        with attempt:
            deactivate_person(by=user_of(request), person=row)
            messages.success(request, f"{row.username} is deactivated.")
            return redirect("home") if row == request.user else redirect("setup:person", row.pk)
    page = {"person": row, "problem": attempt.problem, "use": person_use(row)}
    return render(request, "setup/person_deactivate.html", page, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def person_sign_out(request: HttpRequest, person_id: UUID) -> HttpResponse:
    """Say where the person is signed in, then end all their sessions."""
    row = person_for(request, person_id)
    if request.method == "POST":
        ended = sign_out_person(by=user_of(request), person=row)
        messages.success(request, f"{row.username}: {counted(ended, 'session')} ended.")
        return redirect("setup:person", row.pk)
    return render(request, "setup/person_sign_out.html", {"person": row, "use": person_use(row)})


@require_POST
def person_reactivate(request: HttpRequest, person_id: UUID) -> HttpResponse:
    row = person_for(request, person_id)
    reactivate_person(by=user_of(request), person=row)
    messages.success(request, f"{row.username} may sign in again.")
    return redirect("setup:person", row.pk)


class InviteForm(forms.Form):
    email = forms.EmailField(label="Email address", max_length=254)
    team = forms.ModelChoiceField(
        Team.objects.active(),
        to_field_name="slug",
        label="Team",
        required=False,
        empty_label="No team yet",
        blank=True,
    )
    role = forms.ChoiceField(label="Role in the team", choices=as_options(Role.choices), initial=Role.MEMBER)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def person_invite(request: HttpRequest) -> HttpResponse:
    """Send an invitation by email; without an email server show its link once, to be handed on."""
    by = user_of(request)
    require_admin(by)
    form = InviteForm(posted(request), initial={"team": request.GET.get("team", "")})
    with Attempt(form) as attempt:
        if form.is_valid():
            fields = form.cleaned_data | {"role": Role(form.cleaned_data["role"])}
            return invited(request, invite(by=by, **fields))
    page = {"form": form, "sends_mail": bool(settings.MAIL_URL), "lifetime": LIFETIME}
    return render(request, "setup/person_invite.html", page, status=attempt.status)


@never_cache
@require_POST
def invitation_resend(request: HttpRequest, invitation_id: UUID) -> HttpResponse:
    """Send a new link; the earlier one ends."""
    require_admin(user_of(request))
    open_ones = Invitation.objects.open().select_related("team")
    row = get_object_or_404(open_ones, pk=invitation_id)
    with refusal_as_message(request):
        renewed = invite(by=user_of(request), email=row.email, team=row.team, role=Role(row.role))
        return invited(request, renewed)
    return redirect_back(request, reverse("setup:people"))


def invited(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    """Mail the link and return to the list; show the link if no mail went out."""
    sent = send_link(request, invitation)
    if not sent.problem:
        messages.success(request, f"{invitation.email} was invited.")
        return redirect_back(request, reverse("setup:people"))
    return render(request, "setup/invited.html", {"sent": sent})


@dataclass(frozen=True, slots=True)
class SentLink:
    """An invitation and its link; `problem` says why no mail went out, "" if one did."""

    invitation: Invitation
    link: str
    problem: str


def send_link(request: HttpRequest, invitation: Invitation) -> SentLink:
    """Mail the link of an invitation."""
    path = reverse("setup:join", args=[link_token(invitation)])
    link = f"{settings.PORTAL_URL}{path}" if settings.PORTAL_URL else request.build_absolute_uri(path)
    what = f"the team {invitation.team.title}" if invitation.team else installation_for(request).name
    inviter = user_of(request).label
    body = (
        f"{inviter} invites you to {what}, where teams request GPUs.\n\n{link}\n\n"
        f"The link works once, until {utc_moment(invitation.expires_at)}."
    )
    problem = send_now(to=invitation.email, subject=f"{inviter} invites you to {what}", body=body)
    return SentLink(invitation, link, problem)


@require_POST
def invitation_revoke(request: HttpRequest, invitation_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    row = get_object_or_404(Invitation.objects.select_related("team"), pk=invitation_id)
    revoke_invitation(by=user_of(request), invitation=row)
    messages.success(request, f"The invitation of {row.email} is withdrawn; its link no longer works.")
    return redirect_back(request, reverse("setup:people"))


class JoinForm(forms.Form):
    username = forms.CharField(
        label="User name",
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        widget=forms.TextInput({"autocomplete": "username"}),
    )
    first_name = forms.CharField(label="First name", max_length=150, required=False)
    last_name = forms.CharField(label="Last name", max_length=150, required=False)
    password = forms.CharField(
        label="Password", max_length=1000, widget=forms.PasswordInput({"autocomplete": "new-password"})
    )


@sensitive_post_parameters("password")
@sensitive_variables()
@never_cache
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Show an invitation and accept it: with the account that is signed in, or with a new one."""
    try:
        invitation = find_invitation(token)
    except InvitationOver as refusal:
        return render(request, "setup/join_over.html", {"refusal": refusal}, status=refusal.status)
    is_known = User.objects.filter(email__iexact=invitation.email).exists()
    signed_in = request.user.is_authenticated
    has_password = not is_known and Installation.load().password_sign_in
    form = JoinForm(request.POST or None) if has_password and not signed_in else None
    page: dict[str, Any] = {"invitation": invitation, "form": form, "is_known": is_known}
    status = 200
    if request.method == "POST":
        try:
            if signed_in:
                accept_as(by=user_of(request), token=token)
                return joined(request, invitation)
            if form is not None and form.is_valid():
                fields = form.cleaned_data
                name = (fields["first_name"], fields["last_name"])
                person = accept_as_new(
                    token=token, username=fields["username"], name=name, password=fields["password"]
                )
                login(request, person, backend=BACKEND)
                return joined(request, invitation)
            status = 422
        except PortalError as refusal:
            status = refusal.status
            if form is not None:
                form.add_error(refusal.extra.get("field"), refusal.message)
            else:
                page["problem"] = refusal.message
    return render(request, "setup/join.html", page, status=status)


def joined(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    where = invitation.team.title if invitation.team else installation_for(request).name
    messages.success(request, f"Welcome to {where}.")
    return redirect("home")
