"""The page of a service account that says which pods act as it; owners of the team change it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from claims.workloads import services
from core.attempt import Attempt, posted
from teams.access import role_in, team_for, user_of
from teams.account_views import account_for
from teams.models import Role, User


class AllowForm(forms.Form):
    cluster = forms.ChoiceField()
    service_account = forms.CharField(
        label="Service account in the cluster", max_length=253, help_text="For example: default"
    )

    def __init__(self, account: User, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        places = [(place.cluster.name, str(place)) for place in services.places_of(account)]
        self.fields["cluster"] = forms.ChoiceField(label="Namespace", choices=places)


@require_http_methods(["GET", "HEAD", "POST"])
def workloads(request: HttpRequest, slug: str, account_id: UUID) -> HttpResponse:
    """Show which pods may act as the account, and how; POST allows more."""
    team, account = account_for(request, slug, account_id)
    form = AllowForm(account, posted(request))
    if request.method == "POST":
        team_for(request.user, slug, at_least=Role.OWNER)
    with Attempt(form, field="service_account") as attempt:
        if form.is_valid():
            row = services.allow(by=user_of(request), account=account, **form.cleaned_data)
            messages.success(request, f"Pods of {row} may act as {account.first_name}.")
            return redirect("claims:workloads", team.slug, account.pk)
    rows = list(services.identities_of(account))
    page = {
        "team": team,
        "account": account,
        "rows": rows,
        "form": form,
        "may_change": role_in(request.user, team) == Role.OWNER,
        "audience": services.AUDIENCE,
        "login": request.build_absolute_uri("/api/v1/login/kubernetes/"),
        "portal": request.build_absolute_uri("/").rstrip("/"),
        "cluster": rows[0].place.cluster.name if rows else "NAME",
    }
    return render(request, "claims/workloads.html", page, status=attempt.status)


@require_POST
def disallow(request: HttpRequest, slug: str, account_id: UUID, identity_id: UUID) -> HttpResponse:
    team, account = account_for(request, slug, account_id)
    team_for(request.user, slug, at_least=Role.OWNER)
    rows = services.identities_of(account).select_related("place__cluster", "account__service_of")
    row = get_object_or_404(rows, pk=identity_id)
    services.disallow(by=user_of(request), identity=row)
    messages.success(request, f"Pods of {row} no longer act as {account.first_name}.")
    return redirect("claims:workloads", team.slug, account.pk)
