"""Ask the owners of a team to add somebody: what a lead does, who may not change members."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from claims.approvals.authority import join_names
from core.attempt import Attempt, posted
from core.errors import Conflict
from core.text import as_options
from core.transactions import service
from notify.models import Notice, NoticeKind
from notify.services import already_notified, notify, resolve
from teams.access import role_in, team_for, user_of
from teams.models import Membership, Role, Team, User, record_change
from teams.services import role_changed


@service
def ask_for_member(*, by: User, team: Team, person: str, role: Role, reason: str = "") -> list[User]:
    """
    Notify the owners of a team, without one the platform admins, that `by` asks to add `person`; return them.

    `person` is a user name or an email address, which is not looked up: nobody can list people by asking.
    Raise Forbidden below a lead, Conflict for an owner, an archived team, and if they were asked today (UTC).
    """
    team_for(by, team.slug, at_least=Role.LEAD)
    if role_in(by, team) == Role.OWNER:
        raise Conflict(f"You manage the members of {team}: add {person} yourself.")
    if team.archived_at:
        raise Conflict(f"{team} is archived.")
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)  # two at once: the second sees the notice
    key = f"member:{team.pk}:{person.lower()}:{role}:{timezone.now():%Y-%m-%d}"
    if already_notified([key]):
        raise Conflict(f"They were already asked today to add {person} as {role.label}. Write to them.")
    owners = User.objects.filter(memberships__team=team, memberships__role=Role.OWNER, is_active=True)
    asked = list(owners) or list(User.objects.filter(is_superuser=True, is_active=True))
    record_change(
        by=by,
        of=team,
        change=f"asked to add {person} as {role.label}",
        reason=reason,
        action="member.asked_for",
    )
    quoted = f"“{reason}”" if reason else ""
    notify(
        asked,
        kind=NoticeKind.CHANGE,
        key=key,
        team_id=team.pk,
        title=f"{by.label} asks you to add {person} to {team} as {role.label}",
        body=f"{quoted} Without an account in the portal, a platform admin sends an invitation.".strip(),
        url=f"{reverse('teams:people', args=[team.slug])}?{urlencode({'username': person, 'role': role})}",
        important=True,
    )
    return asked


@receiver(post_save, sender=Membership, dispatch_uid="portal.member_requests")
@receiver(role_changed, dispatch_uid="portal.member_requests.role")
def resolve_requests(*, instance: Membership | None = None, team_id: UUID | None = None, **_: Any) -> None:
    """Leads asked the owners of the team for people who have the role now."""
    team = instance.team_id if instance else team_id
    asked = Notice.objects.filter(key__startswith=f"member:{team}:", important=True, read_at=None)
    for key in set(asked.values_list("key", flat=True)):
        person, role, _day = key.split(":", 2)[2].rsplit(":", 2)
        named = Q(user__username__iexact=person) | Q(user__email__iexact=person)
        if Membership.objects.filter(named, team=team, role=role).exists():
            resolve(key)


class AskForm(forms.Form):
    person = forms.CharField(
        label="User name or email address",
        max_length=100,
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    role = forms.ChoiceField(label="Role", choices=as_options(Role.choices), initial=Role.MEMBER)
    reason = forms.CharField(label="Reason", max_length=300, required=False)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def member_ask(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the form of a lead who asks for a member; POST notifies the owners."""
    by = user_of(request)
    team = team_for(by, slug, at_least=Role.LEAD)
    form = AskForm(posted(request))
    with Attempt(form) as attempt:
        if form.is_valid():
            fields = form.cleaned_data | {"role": Role(form.cleaned_data["role"])}
            asked = ask_for_member(by=by, team=team, **fields)
            messages.success(request, f"{join_names(asked)} will see that you ask for {fields['person']}.")
            return redirect("team", team.slug)
    return render(request, "setup/member_ask.html", {"team": team, "form": form}, status=attempt.status)
