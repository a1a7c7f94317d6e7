"""The page on which a person allows or denies a program that asked for a token (`teams.device_login`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from core.errors import PortalError
from core.origin import client_address
from core.scopes import Scope
from teams import device_login
from teams.access import user_of
from teams.models import DeviceLogin, User
from teams.token_views import ReachForm, ScopesField, ask_again


class CodeForm(forms.Form):
    code = forms.CharField(
        label="Code",
        max_length=20,
        help_text="Eight letters that the program shows, such as BCDF-GHJK",
        widget=forms.TextInput(
            {"autocomplete": "off", "autocapitalize": "characters", "spellcheck": "false"}
        ),
    )


class DecisionForm(ReachForm):
    field_order = ("scopes", "team", "days")

    def __init__(self, user: User, login: DeviceLogin, *args: Any, **options: Any) -> None:
        super().__init__(user, *args, **options)
        asked = [Scope(scope) for scope in login.scopes if scope != Scope.READ]
        if asked:
            self.fields["scopes"] = ScopesField(asked)
            self.fields["scopes"].initial = [scope.value for scope in asked]
        self.order_fields(self.field_order)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def device(request: HttpRequest) -> HttpResponse:
    """Ask for the code; with one, show who asks for what, and take the decision."""
    code = request.POST.get("code", request.GET.get("code", ""))
    if not code:
        return render(request, "teams/device.html", {"form": CodeForm()})
    person = user_of(request)
    try:
        login = device_login.find_waiting(code, by=person, address=client_address(request))
    except PortalError as refusal:
        code_form = CodeForm({"code": code})
        code_form.add_error("code", refusal.message)
        return render(request, "teams/device.html", {"form": code_form}, status=refusal.status)
    form = DecisionForm(person, login, request.POST or None)
    if request.method == "POST" and (request.POST.get("decision") == "deny" or form.is_valid()):
        return _decided(request, login, form)
    page = {"decision": form, "login": login, "code": code}
    return render(request, "teams/device.html", page, status=422 if form.errors else 200)


def _decided(request: HttpRequest, login: DeviceLogin, form: DecisionForm) -> HttpResponse:
    allow = request.POST.get("decision") == "allow"
    fields: dict[str, Any] = {}
    if allow:
        ask_again(request)
        fields = {
            "scopes": form.cleaned_data.get("scopes", ()),
            "team": form.chosen["team"],
            "lifetime": timedelta(days=form.cleaned_data["days"]),
        }
    device_login.decide(by=user_of(request), login=login, allow=allow, **fields)
    return render(request, "teams/device.html", {"login": login, "allowed": allow, "decided": True})
