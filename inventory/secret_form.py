"""
The part of a form that gives a secret for one server: a telemetry source, a tracking server.

An empty secret of the stored kind keeps the stored one. No secret is shown, and one that was given for
another server is not sent on: it has to be given again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.views.decorators.debug import sensitive_variables

from core.errors import Invalid
from inventory.models.cluster import validate_certificates, validate_http_url
from inventory.telemetry_access import NO_SECRET, TOKEN_LIMIT, Kind, TelemetrySecret

SECRETS = ("token", "password", "certificate", "key")  # fields that no log may show
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


def address(
    label: str,
    help_text: str,
    *,
    limit: int = 200,
    validator: Callable[[str], None] = validate_http_url,
    **more: Any,
) -> forms.CharField:
    return forms.CharField(label=label, max_length=limit, validators=[validator], help_text=help_text, **more)


def secret(label: str, limit: int) -> forms.CharField:
    """Return a field that browsers neither show, fill in nor offer to save."""
    widget = forms.PasswordInput({"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, max_length=limit, widget=widget)


def pem(label: str) -> forms.CharField:
    widget = SecretText({"rows": 3, "spellcheck": "false", "autocomplete": "off"})
    return forms.CharField(label=label, required=False, max_length=PEM_LIMIT, widget=widget)


class SecretForm(forms.Form):
    """A form of a server has `stored_kind` and `stored_server` of the secret that it has already."""

    kind = forms.ChoiceField(label="Authentication", choices=Kind.choices, required=False)
    token = secret("Token", TOKEN_LIMIT)
    user = forms.CharField(
        label="User", required=False, max_length=255, widget=forms.TextInput({"autocomplete": "off"})
    )
    password = secret("Password", 1024)
    authority = forms.CharField(
        label="CA certificate",
        required=False,
        max_length=PEM_LIMIT,
        validators=[validate_certificates],
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="PEM. Empty: the certificates that this server trusts.",
    )

    stored_kind = ""
    stored_server = ""

    def server(self, fields: dict[str, Any]) -> str:
        """Return the server that would get the secret."""
        raise NotImplementedError

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        """Add `secret`: what was given, `NO_SECRET` to remove it, None to keep the stored one."""
        fields = dict(super().clean() or {})
        kind = fields.get("kind", "")
        for other, names in FIELDS.items():
            if other != kind and any(fields.get(name) for name in names):
                self.add_error("kind", f"Choose “{other.label}”, or empty its fields.")
        given = {name: fields.get(name, "").strip() for name in FIELDS.get(kind, ())}
        fields["secret"] = None
        if not kind:
            fields["secret"] = NO_SECRET
        elif any(given.values()) or kind != self.stored_kind:
            fields["secret"] = self.sound(TelemetrySecret(**given), Kind(kind))
        elif self.stored_server != self.server(fields):
            self.add_error(
                next(iter(given)),
                f"It was given for {self.stored_server} and is not sent elsewhere. Give it again.",
            )
        return fields

    @sensitive_variables()
    def sound(self, secret: TelemetrySecret, kind: Kind) -> TelemetrySecret:
        """Return the secret; add an error for one that is incomplete or damaged."""
        problem = ""
        try:
            secret.require_sound()
        except Invalid as refusal:
            problem = refusal.message
        if not problem and secret.kind != kind:
            problem = f"Give the {kind.label.lower()}."
        if problem:  # outside: no trace of a secret
            self.add_error(FIELDS[kind][0], problem)
        return secret
