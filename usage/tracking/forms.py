"""The form of a tracking server."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.views.decorators.debug import sensitive_variables

from core.errors import Invalid
from inventory.models.cluster import validate_certificates, validate_http_url
from inventory.telemetry_access import NO_SECRET, TOKEN_LIMIT, Kind, TelemetrySecret, server_of
from teams.models import Team
from usage.models import TrackingServer
from usage.tracking.servers import refuse_link_local

SECRETS = ("token", "password")
KINDS = [(str(kind), kind.label) for kind in (Kind.NONE, Kind.TOKEN, Kind.PASSWORD)]
FIELDS = {Kind.TOKEN: ("token",), Kind.PASSWORD: ("user", "password")}
PLAIN = ("url", "page_url", "authority")


class TrackingForm(forms.Form):
    """An empty secret of the stored kind keeps the stored one; no secret is shown."""

    team = forms.ModelChoiceField(
        label="For",
        queryset=Team.objects.none(),
        required=False,
        empty_label="the whole installation",
        help_text="The server of a team has runs of the team's claims only.",
    )
    url = forms.CharField(
        label="Address",
        max_length=200,
        validators=[validate_http_url],
        help_text="Such as http://mlflow.mlflow:5000.",
    )
    page_url = forms.CharField(
        label="Address in browsers",
        required=False,
        max_length=200,
        validators=[validate_http_url],
        help_text="Where links to runs lead. Empty: the same.",
    )
    kind = forms.ChoiceField(label="Authentication", choices=KINDS, required=False)
    token = forms.CharField(
        label="Token",
        required=False,
        max_length=TOKEN_LIMIT,
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )
    user = forms.CharField(
        label="User", required=False, max_length=255, widget=forms.TextInput({"autocomplete": "off"})
    )
    password = forms.CharField(
        label="Password",
        required=False,
        max_length=1024,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
    )
    authority = forms.CharField(
        label="Certificate of its CA",
        required=False,
        max_length=64 * 1024,
        validators=[validate_certificates],
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="PEM. Empty: the certificates that this server trusts.",
    )

    def __init__(self, data: QueryDict | None = None, *, server: TrackingServer | None = None) -> None:
        self.server = server
        initial = {name: getattr(server, name) for name in (*PLAIN, "kind")} if server else {}
        super().__init__(data, initial=initial)
        if server is None:
            teams = Team.objects.active().filter(tracking_server=None).order_by("title")
            self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        else:
            del self.fields["team"]  # another team would get the runs of this one

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            refuse_link_local(url)
        except Invalid as refusal:
            raise ValidationError(refusal.message) from refusal
        return url

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        fields = dict(super().clean() or {})
        kind = fields.get("kind", "")
        for other, names in FIELDS.items():
            if other != kind and any(fields.get(name) for name in names):
                self.add_error("kind", f"Choose “{other.label}”, or empty its fields.")
        given = {name: fields.get(name, "").strip() for name in FIELDS.get(kind, ())}
        stored = self.server if self.server and self.server.kind == kind else None
        fields["secret"] = None  # the stored one stays
        if not kind:
            fields["secret"] = NO_SECRET
        elif any(given.values()) or stored is None:
            fields["secret"] = self.sound(TelemetrySecret(**given), kind)
        elif stored.server != server_of(fields.get("url", "")):
            self.add_error(
                next(iter(given)),
                f"It was given for {stored.server} and is not sent elsewhere. Give it again.",
            )
        return fields

    @sensitive_variables()
    def sound(self, secret: TelemetrySecret, kind: str) -> TelemetrySecret:
        """Return the secret; add an error for one that is incomplete."""
        problem = ""
        try:
            secret.require_sound()
        except Invalid as refusal:
            problem = refusal.message
        if not problem and secret.kind != kind:
            problem = f"Give the {Kind(kind).label.lower()}."
        if problem:  # outside: no trace of a secret
            self.add_error(FIELDS[Kind(kind)][0], problem)
        return secret

    def typed(self) -> TrackingServer:
        """Return the server as it would be saved, to try it."""
        server = TrackingServer(**{name: self.cleaned_data[name] for name in PLAIN})
        if self.server is not None:
            server.kind, server.server, server.sealed = (
                self.server.kind,
                self.server.server,
                self.server.sealed,
            )
        return server

    def changes(self) -> dict[str, Any]:
        """Return the arguments of `save_server`."""
        return {name: self.cleaned_data[name] for name in (*PLAIN, "secret")}
