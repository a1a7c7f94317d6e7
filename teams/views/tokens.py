"""The API tokens of a person: the list, a new one, shown once, and the end of one."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from core.sheets import sheet, wants_sheet
from teams.access import asker
from teams.forms import TokenForm
from teams.models import ApiToken, User
from teams.tokens import create_token, revoke_token


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
