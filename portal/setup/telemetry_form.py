"""The form of a cluster's telemetry: its source, and how the portal authenticates there."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import QueryDict
from django.views.decorators.debug import sensitive_variables

from core.errors import Invalid
from inventory.models import Cluster, TelemetryAccess
from inventory.models.cluster import (
    validate_certificates,
    validate_http_url,
    validate_matchers,
    validate_tenant,
)
from inventory.telemetry_access import NO_SECRET, TOKEN_LIMIT, Kind, TelemetrySecret, server_of

ADDRESSES = ("prometheus_url", "metrics_url")
PLAIN = ("authority", "tenant", "matchers", "timeout_seconds")
SECRETS = ("token", "password", "certificate", "key")
FIELDS = {
    Kind.TOKEN: ("token",),
    Kind.PASSWORD: ("user", "password"),
    Kind.CERTIFICATE: ("certificate", "key"),
}
PEM_LIMIT = 64 * 1024  # characters


class SecretText(forms.Textarea):
    """A text that is never sent back to the browser, as with a password."""

    def format_value(self, value: Any) -> str:
        return ""


class SourceAddress(forms.TextInput):
    """An address; a user and password in one that is refused are not sent back."""

    def format_value(self, value: Any) -> str:
        return re.sub(r"(?<=//)[^/?#]*@", "", str(value or ""))


def address(label: str, help_text: str) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=200,
        validators=[validate_http_url],
        widget=SourceAddress,
        help_text=help_text,
    )


def secret(label: str, limit: int) -> forms.CharField:
    """Return a field that browsers neither show, fill in nor offer to save."""
    widget = forms.PasswordInput({"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, max_length=limit, widget=widget)


def pem(label: str) -> forms.CharField:
    widget = SecretText({"rows": 3, "spellcheck": "false", "autocomplete": "off"})
    return forms.CharField(label=label, required=False, max_length=PEM_LIMIT, widget=widget)


class TelemetryForm(forms.Form):
    """An empty secret of the stored kind keeps the stored one; no secret is shown."""

    prometheus_url = address(
        "Prometheus",
        "Such as http://prometheus.monitoring:9090; Thanos, Mimir and VictoriaMetrics too. Empty: none.",
    )
    metrics_url = address("dcgm-exporter", "Its /metrics, where there is no Prometheus.")
    kind = forms.ChoiceField(label="Authentication", choices=Kind.choices, required=False)
    token = secret("Token", TOKEN_LIMIT)
    user = forms.CharField(
        label="User", required=False, max_length=255, widget=forms.TextInput({"autocomplete": "off"})
    )
    password = secret("Password", 1024)
    certificate = pem("Client certificate")
    key = pem("Its key")
    authority = forms.CharField(
        label="Certificate of its CA",
        required=False,
        max_length=PEM_LIMIT,
        validators=[validate_certificates],
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="PEM. Empty: the certificates that this server trusts.",
    )
    tenant = forms.CharField(
        label="Tenant",
        required=False,
        max_length=150,
        validators=[validate_tenant],
        help_text="Sent as X-Scope-OrgID. Empty: not sent.",
    )
    matchers = forms.CharField(
        label="Label matchers",
        required=False,
        max_length=200,
        validators=[validate_matchers],
        help_text='Such as cluster="fra-1", where one Prometheus has several clusters.',
    )
    timeout_seconds = forms.IntegerField(
        label="Time limit", min_value=1, max_value=60, help_text="Seconds per query."
    )

    def __init__(self, cluster: Cluster, data: QueryDict | None = None) -> None:
        self.cluster = cluster
        self.access = TelemetryAccess.objects.filter(cluster=cluster).first() or TelemetryAccess(
            cluster=cluster
        )
        initial = {name: getattr(cluster, name) for name in ADDRESSES}
        initial |= {name: getattr(self.access, name) for name in (*PLAIN, "kind")}
        super().__init__(data, initial=initial)

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        fields = dict(super().clean() or {})
        kind = fields.get("kind", "")
        fields["secret"] = None  # the stored one stays
        names = FIELDS.get(kind, ())
        for other, others in FIELDS.items():
            if other != kind and any(fields.get(name) for name in others):
                self.add_error("kind", f"Choose “{Kind(other).label}”, or empty its fields.")
        given = {name: fields.get(name, "").strip() for name in names}
        if not kind:
            fields["secret"] = NO_SECRET
        elif any(given.values()) or kind != self.access.kind:
            fields["secret"] = self.sound(TelemetrySecret(**given), kind, names[0])
        elif self.access.server != self.server(fields):
            self.add_error(
                names[0],
                f"It was given for {self.access.server} and is not sent elsewhere. Give it again.",
            )
        if kind and not self.server(fields) and not self.errors:
            self.add_error("prometheus_url", "Give the address of Prometheus or of an exporter.")
        return fields

    @sensitive_variables()
    def sound(self, secret: TelemetrySecret, kind: str, field: str) -> TelemetrySecret:
        """Return the secret; add an error for one that is incomplete or damaged."""
        problem = ""
        try:
            secret.require_sound()
        except Invalid as refusal:
            problem = refusal.message
        if not problem and secret.kind != kind:
            problem = f"Give the {Kind(kind).label.lower()}."
        if problem:  # outside: no trace of a secret
            self.add_error(field, problem)
        return secret

    @staticmethod
    def server(fields: dict[str, Any]) -> str:
        return server_of(fields.get("prometheus_url") or fields.get("metrics_url") or "")

    def changes(self) -> dict[str, Any]:
        """Return the arguments of `change_telemetry`."""
        fields = self.cleaned_data
        return {
            "addresses": {name: fields[name] for name in ADDRESSES},
            "secret": fields["secret"],
            "fields": {name: fields[name] for name in PLAIN},
        }

    def typed(self) -> tuple[Cluster, TelemetryAccess]:
        """Return cluster and access as they would be saved, to try them."""
        for name in ADDRESSES:
            setattr(self.cluster, name, self.cleaned_data[name])
        for name in PLAIN:
            setattr(self.access, name, self.cleaned_data[name])
        return self.cluster, self.access
