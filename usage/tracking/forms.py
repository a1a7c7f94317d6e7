"""The form of a tracking server."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from core.errors import Invalid
from inventory.secret_form import SecretForm, address
from inventory.telemetry_access import Kind, server_of
from teams.models import Team
from usage.models import TrackingServer
from usage.tracking.servers import refuse_machine
from usage.tracking.wandb import MAX_URL

KINDS = [(str(kind), kind.label) for kind in (Kind.NONE, Kind.TOKEN, Kind.PASSWORD)]
PLAIN = ("url", "page_url", "authority")


class TrackingForm(SecretForm):
    field_order = ("team", "url", "page_url", "kind")

    team = forms.ModelChoiceField(
        label="For",
        queryset=Team.objects.none(),
        required=False,
        empty_label="The whole installation",
        help_text="The server of a team has runs of the team's claims only.",
    )
    url = address("Address", "Such as http://mlflow.mlflow:5000.")
    page_url = address("Address in browsers", "Where links to runs lead. Empty: the same.", required=False)
    kind = forms.ChoiceField(label="Authentication", choices=KINDS, required=False)

    def __init__(self, data: QueryDict | None = None, *, server: TrackingServer | None = None) -> None:
        self.stored = server
        initial = {name: getattr(server, name) for name in (*PLAIN, "kind")} if server else {}
        super().__init__(data, initial=initial)
        if server is None:
            teams = Team.objects.active().filter(tracking_server=None).order_by("title")
            self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        else:
            self.stored_kind, self.stored_server = server.kind, server.server
            del self.fields["team"]  # another team would get the runs of this one

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            refuse_machine(url)
        except Invalid as refusal:
            raise ValidationError(refusal.message) from refusal
        return url

    def server(self, fields: dict[str, Any]) -> str:
        return server_of(fields.get("url", ""))

    def typed(self) -> TrackingServer:
        """Return the server as it would be saved, to try it."""
        server = TrackingServer(**{name: self.cleaned_data[name] for name in PLAIN})
        if self.stored is not None:
            server.kind, server.server = self.stored.kind, self.stored.server
            server.sealed = self.stored.sealed
        return server

    def changes(self) -> dict[str, Any]:
        """Return the arguments of `save_server`."""
        return {name: self.cleaned_data[name] for name in (*PLAIN, "secret")}


class RunsLinkForm(forms.Form):
    """Where the runs of Weights & Biases are looked at (`usage.tracking.wandb`)."""

    team = forms.ModelChoiceField(
        Team.objects.active().order_by("title"),
        label="For",
        required=False,
        to_field_name="slug",
        empty_label="The whole installation",
    )
    url = forms.CharField(
        label="Address",
        max_length=MAX_URL,
        required=False,
        help_text=(
            "Such as https://wandb.ai/acme/vision/table. {tag}, {claim} and {team} stand for the tag of the "
            "claim, its id and the slug of its team. Empty: no link."
        ),
    )
