"""The form of a cluster's telemetry: its source, and how the portal authenticates there."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import QueryDict

from inventory.models import Cluster, TelemetryAccess
from inventory.models.cluster import validate_exporters, validate_matchers, validate_tenant
from inventory.secret_form import SecretForm, address, pem
from inventory.telemetry_access import ADDRESSES, PLAIN, server_of


class SourceAddress(forms.TextInput):
    """An address; a user and password in one that is refused are not sent back."""

    def format_value(self, value: Any) -> str:
        return re.sub(r"(?<=//)[^/?#]*@", "", str(value or ""))


def source_address(label: str, help_text: str) -> forms.CharField:
    return address(label, help_text, required=False, widget=SourceAddress)


class TelemetryForm(SecretForm):
    field_order = (*ADDRESSES, "kind", "token", "user", "password", "certificate", "key")

    prometheus_url = source_address(
        "Prometheus",
        "Such as http://prometheus.monitoring:9090; Thanos, Mimir and VictoriaMetrics too. Empty: none.",
    )
    metrics_url = address(
        "Exporters",
        "Of sites without Prometheus, such as http://{address}:9400/metrics: {address} and {node} stand for "
        "each node with devices. Several addresses have spaces between them.",
        limit=2000,
        validator=validate_exporters,
        required=False,
        widget=SourceAddress,
    )
    certificate = pem("Client certificate")
    key = pem("Client key")
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
        self.stored_kind, self.stored_server = self.access.kind, self.access.server
        initial = {name: getattr(cluster, name) for name in ADDRESSES}
        initial |= {name: getattr(self.access, name) for name in (*PLAIN, "kind")}
        super().__init__(data, initial=initial)

    def clean(self) -> dict[str, Any]:
        fields = super().clean()
        if fields.get("kind") and not self.server(fields) and not self.errors:
            self.add_error("prometheus_url", "Give the address of Prometheus or of an exporter.")
        return fields

    def server(self, fields: dict[str, Any]) -> str:
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
