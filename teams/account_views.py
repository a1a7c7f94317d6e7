"""Pages: one service account of a team with its tokens, for leads and owners; `views.members` lists them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from core.attempt import Attempt, posted, refusal_as_message
from core.errors import cleaned
from core.listing import wants_csv
from core.scopes import Scope
from core.text import as_options
from teams import service_accounts
from teams.access import team_for, user_of
from teams.models import ApiToken, Role, Team, User
from teams.service_accounts import ROLES, service_accounts_of
from teams.token_views import LIFETIMES, RotateForm, ScopesField, ask_again, expiry, tokens_csv, tokens_of


class AccountForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=service_accounts.MAX_NAME_LENGTH,
        help_text="For example: ci-train",
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    role = forms.ChoiceField(
        label="Role", choices=as_options((role.value, role.label) for role in ROLES), initial=Role.MEMBER
    )


class AccountTokenForm(forms.Form):
    title = forms.CharField(label="Purpose", max_length=80, help_text="For example: nightly training")
    scopes = ScopesField((Scope.REQUEST,))
    days = forms.TypedChoiceField(label="Expires after", choices=LIFETIMES, coerce=int, initial=90)


def account_for(request: HttpRequest, slug: str, account_id: UUID) -> tuple[Team, User]:
    """Return a team that the reader leads and its account; 403 for other members, 404 for outsiders."""
    team = team_for(request.user, slug, at_least=Role.LEAD)
    return team, get_object_or_404(service_accounts_of(team), pk=account_id)


@require_POST
def create(request: HttpRequest, slug: str) -> HttpResponse:
    team = team_for(request.user, slug, at_least=Role.LEAD)
    fields = cleaned(AccountForm(request.POST))
    account = service_accounts.create_service_account(
        by=user_of(request), team=team, name=fields["name"], role=Role(fields["role"])
    )
    messages.success(request, f"{account.first_name} was created. Create its first token.")
    return redirect("teams:account", team.slug, account.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest, slug: str, account_id: UUID) -> HttpResponse:
    """Show the account and its tokens; POST creates one."""
    team, row = account_for(request, slug, account_id)
    if request.method == "GET" and wants_csv(request):
        return tokens_csv(f"tokens-{row.username}", tokens_of(row))
    form = AccountTokenForm(posted(request))
    new_token, text = None, ""
    if form.is_valid():
        fields = form.cleaned_data
        ask_again(request)
        with Attempt(form):
            new_token, text = service_accounts.create_account_token(
                by=user_of(request),
                account=row,
                title=fields["title"],
                scopes=fields["scopes"],
                expires_at=expiry(fields["days"]),
            )
            form = AccountTokenForm()
    return account_page(request, team, row, new_token, text, form=form)


def account_page(
    request: HttpRequest,
    team: Team,
    row: User,
    new_token: ApiToken | None = None,
    text: str = "",
    *,
    form: AccountTokenForm | None = None,
) -> HttpResponse:
    form = form or AccountTokenForm()
    page: dict[str, Any] = {
        "team": team,
        "account": row,
        "role": Role(row.role).label,  # type: ignore[attr-defined]
        "tokens": tokens_of(row),
        "form": form,
        "rotate_form": RotateForm(),
        "new_token": new_token,
        "text": text,
        "api": request.build_absolute_uri("/api/v1/me"),
    }
    return render(request, "teams/service_account.html", page, status=422 if form.errors else 200)


@never_cache
@require_POST
def rotate_token(request: HttpRequest, slug: str, account_id: UUID, token_id: UUID) -> HttpResponse:
    team, row = account_for(request, slug, account_id)
    token = get_object_or_404(tokens_of(row), pk=token_id)
    fields = cleaned(RotateForm(request.POST))
    ask_again(request)
    with refusal_as_message(request):
        text = service_accounts.rotate_account_token(by=user_of(request), account=row, token=token, **fields)
        return account_page(request, team, row, token, text)
    return redirect("teams:account", team.slug, row.pk)


@require_POST
def revoke_token(request: HttpRequest, slug: str, account_id: UUID, token_id: UUID) -> HttpResponse:
    team, row = account_for(request, slug, account_id)
    token = get_object_or_404(row.api_tokens, pk=token_id)
    service_accounts.revoke_account_token(by=user_of(request), account=row, token=token)
    messages.success(request, f"Token “{token.title}” revoked.")
    return redirect("teams:account", team.slug, row.pk)


@require_POST
def switch(request: HttpRequest, slug: str, account_id: UUID) -> HttpResponse:
    """Enable or disable the account."""
    team, row = account_for(request, slug, account_id)
    enabled = request.POST.get("enabled") == "on"
    service_accounts.set_enabled(by=user_of(request), account=row, enabled=enabled)
    messages.success(request, f"{row.first_name} is {'enabled' if enabled else 'disabled'}.")
    return redirect("teams:account", team.slug, row.pk)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, slug: str, account_id: UUID) -> HttpResponse:
    """Say what ends and what stays, then delete."""
    team, row = account_for(request, slug, account_id)
    if request.method == "POST":
        service_accounts.delete_service_account(by=user_of(request), account=row)
        messages.success(request, f"{row.first_name} was deleted.")
        return redirect(reverse("teams:people", args=[team.slug]))
    page = {"team": team, "account": row, "tokens": tokens_of(row).count()}
    return render(request, "teams/service_account_delete.html", page)
