"""Pages: the reader's API tokens, and the forms that create and rotate a token."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from django import forms
from django.contrib import messages
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from core.attempt import Attempt, posted, refusal_as_message
from core.errors import cleaned
from core.listing import csv_response, wants_csv
from core.scopes import MEANING, Scope
from teams.access import teams_where, user_of
from teams.models import ApiToken, Role, User
from teams.tokens import DEFAULT_OVERLAP, OVERLAPS, create_token, revoke_token, rotate_token

LIFETIMES = (
    (7, "7 days"),
    (30, "30 days"),
    (90, "90 days"),
    (365, "1 year"),
)
ALL_TEAMS = "All my teams"
TO_COME = "Ends now", "For 1 h", "For 1 day", "For 7 days"


class ReachForm(forms.Form):
    """For how long a token is valid, and where; with the scopes that `offered` names beside `read`."""

    days = forms.TypedChoiceField(label="Expires after", choices=LIFETIMES, coerce=int, initial=90)
    team = forms.ChoiceField()

    def __init__(self, user: User, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.teams = {team.slug: team for team in teams_where(User(pk=user.pk), at_least=Role.VIEWER)}
        teams = [("", ALL_TEAMS), *((slug, f"Only {slug}") for slug in self.teams)]
        self.fields["team"] = forms.ChoiceField(label="Teams", required=False, choices=teams)

    @property
    def chosen(self) -> dict[str, Any]:
        """What `create_token` takes."""
        team = self.teams.get(self.cleaned_data["team"])
        return {"team": team, "expires_at": expiry(self.cleaned_data["days"])}


def expiry(days: int) -> datetime:
    return timezone.now() + timedelta(days=days)


class ScopesField(forms.MultipleChoiceField):
    """The scopes beside `read`, which every token has."""

    def __init__(self, offered: Iterable[Scope]) -> None:
        super().__init__(
            label="Scopes",
            required=False,
            choices=[(scope.value, f"{scope.value}: {MEANING[scope]}") for scope in offered],
            initial=[Scope.REQUEST.value],
            widget=forms.CheckboxSelectMultiple,
            help_text="Every token may read.",
        )


class TokenForm(ReachForm):
    title = forms.CharField(label="Purpose", max_length=80, help_text="For example: notebook on mira-01")
    scopes = ScopesField((Scope.REQUEST, Scope.APPROVE, Scope.ADMIN))
    field_order = ("title", "scopes", "team", "days")

    @property
    def chosen(self) -> dict[str, Any]:
        fields = self.cleaned_data
        return {"title": fields["title"], "scopes": fields["scopes"], **super().chosen}


class RotateForm(forms.Form):
    """How long the text before works on, and whether tokens end that this one has made."""

    end_made = forms.BooleanField(required=False)
    overlap = forms.TypedChoiceField(
        label="Keep the old token valid",
        choices=[(int(span.total_seconds()), text) for span, text in zip(OVERLAPS, TO_COME, strict=True)],
        coerce=lambda seconds: timedelta(seconds=int(seconds)),
        initial=int(DEFAULT_OVERLAP.total_seconds()),
    )


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return the tokens that were not revoked, newest first, with what their rows show."""
    made = ApiToken.objects.filter(made_with=OuterRef("pk"), revoked_at=None, expires_at__gt=timezone.now())
    count = made.order_by().values("made_with").annotate(number=Count("pk")).values("number")
    tokens = ApiToken.objects.filter(user=user, revoked_at=None).select_related("limited_to")
    return tokens.annotate(made=Coalesce(Subquery(count), 0))


def ask_again(request: HttpRequest) -> None:
    """Ask for password or second factor before the text of a token is shown, unless that was so just now."""
    raise_if_reauthentication_required(request, app="teams")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    person = user_of(request)
    if request.method == "GET" and wants_csv(request):
        return tokens_csv("tokens", tokens_of(person))
    form = TokenForm(person, posted(request))
    new_token, text = None, ""
    if form.is_valid():
        ask_again(request)
        with Attempt(form):
            new_token, text = create_token(by=person, **form.chosen)
            form = TokenForm(person)
    return token_page(request, new_token, text, form=form)


def token_page(
    request: HttpRequest, new_token: ApiToken | None, text: str, *, form: TokenForm | None = None
) -> HttpResponse:
    """Show the reader's tokens, with the text of a new one."""
    form = form or TokenForm(user_of(request))
    page = {
        "tokens": tokens_of(user_of(request)),
        "form": form,
        "rotate_form": RotateForm(),
        "new_token": new_token,
        "text": text,
        "api": request.build_absolute_uri("/api/v1/me"),
    }
    return render(request, "teams/tokens.html", page, status=422 if form.errors else 200)


def tokens_csv(name: str, rows: Iterable[ApiToken]) -> HttpResponse:
    heads = (
        *("Token", "Prefix", "Scopes", "Team", "Created", "Expires", "Last used", "Last used from"),
        "Previous ends",
    )
    cells = (
        (
            *(row.title, row.start, " ".join(row.scopes), row.limited_to.slug if row.limited_to else "all"),
            *(row.created_at, row.expires_at, row.last_used_at, row.last_used_from),
            row.previous_ends_at if row.previous_works else None,
        )
        for row in rows
    )
    return csv_response(name, heads, cells)


@never_cache
@require_POST
def rotate(request: HttpRequest, token_id: UUID) -> HttpResponse:
    person = user_of(request)
    token = get_object_or_404(ApiToken.objects.select_related("limited_to"), pk=token_id, user=person)
    fields = cleaned(RotateForm(request.POST))
    ask_again(request)
    with refusal_as_message(request):
        text = rotate_token(by=person, token=token, **fields)
        return token_page(request, token, text)
    return redirect("teams:tokens")


@require_POST
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=token_id, user=user_of(request))
    revoke_token(by=user_of(request), token=token)
    messages.success(request, f"Token “{token.title}” revoked.")
    return redirect("teams:tokens")
