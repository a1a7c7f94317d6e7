"""Forms of identity providers and of group rules."""

from __future__ import annotations

from typing import Any

from django import forms

from core.inputs import validate_name
from teams.identity.models import DEFAULT_SCOPES, GroupRule, IdentityProvider
from teams.models import Role, Team

SECRETS = ("secret",)
PLATFORM_ADMIN = "platform-admin"  # what a rule gives, beside roles


class ProviderForm(forms.Form):
    title = forms.CharField(label="Title", max_length=80, help_text="On the button: Sign in with …")
    issuer = forms.CharField(
        label="Issuer",
        max_length=300,
        widget=forms.TextInput({"autocomplete": "off", "placeholder": "https://sso.example.org/realms/main"}),
        help_text="Its discovery document is below it, at /.well-known/openid-configuration.",
    )
    client_id = forms.CharField(
        label="Client ID", max_length=200, widget=forms.TextInput({"autocomplete": "off"})
    )
    groups_claim = forms.CharField(
        label="Claim with the groups",
        max_length=80,
        required=False,
        initial="groups",
        help_text="A path such as realm_access.roles works too. Leave empty if only SCIM sends groups.",
    )
    scopes = forms.CharField(
        label="Scopes",
        max_length=200,
        initial=DEFAULT_SCOPES,
        help_text="Add offline_access to read groups also of people who are not signed in there.",
    )
    position = forms.IntegerField(
        label="Position", min_value=0, max_value=999, initial=0, help_text="Of its button; 0 is first."
    )
    trusts_email = forms.BooleanField(
        label="All its email addresses are verified",
        required=False,
        help_text="Only for a provider of your own organization that does not send email_verified.",
    )
    admits_everybody = forms.BooleanField(
        label="Everybody who signs in there gets an account",
        required=False,
        help_text="Otherwise only people with an invitation, or in a group that a rule names.",
    )
    external_id_claim = forms.CharField(
        label="Claim that SCIM calls externalId",
        max_length=80,
        required=False,
        initial="sub",
        help_text="Finds the account of SCIM at the first sign-in. Okta: sub, Entra ID: oid.",
    )
    acr_values = forms.CharField(
        label="Demanded strength (acr)",
        max_length=200,
        required=False,
        help_text="Values of the claim acr, as for a second factor. A sign-in without one is refused.",
    )
    suspends_tokens = forms.BooleanField(
        label="API tokens stop when the provider refuses the sign-in",
        required=False,
        initial=True,
        help_text="Until the next one. With the scope offline_access only for whom it refuses.",
    )
    signs_out = forms.BooleanField(
        label="Signing out here signs out there too",
        required=False,
        initial=True,
        help_text="Register the post-logout redirect URI there first.",
    )

    def __init__(self, *args: Any, provider: IdentityProvider | None = None, **options: Any) -> None:
        if provider is not None:
            options["initial"] = {name: getattr(provider, name) for name in self.base_fields}
        super().__init__(*args, **options)


class NewProviderForm(ProviderForm):
    """`slug` was chosen before, because the addresses to register have it."""

    field_order = ("slug", "title", "issuer", "client_id", "secret")

    slug = forms.CharField(max_length=40, validators=[validate_name], widget=forms.HiddenInput)
    secret = forms.CharField(
        label="Client secret",
        max_length=1000,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text="Stored encrypted, never shown again.",
    )


class NameForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=40,
        validators=[validate_name],
        help_text="In addresses: lower-case letters, digits and hyphens. It cannot be changed later.",
        widget=forms.TextInput({"autocomplete": "off", "placeholder": "sso"}),
    )


class ClientSecretForm(forms.Form):
    secret = forms.CharField(
        label="New client secret",
        max_length=1000,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text="Used from the next sign-in on. People stay signed in.",
    )


class GroupRuleForm(forms.Form):
    provider = forms.ModelChoiceField(
        IdentityProvider.objects.all(), to_field_name="slug", label="Provider", empty_label=None
    )
    pattern = forms.CharField(
        label="Group",
        max_length=200,
        help_text="Name or ID, as the provider sends it. * stands for any text: gpu-*",
        widget=forms.TextInput({"autocomplete": "off", "list": "known-groups"}),
    )
    gives = forms.ChoiceField(
        label="Gives",
        choices=[*((role.value, f"Role {role.label}") for role in Role), (PLATFORM_ADMIN, "Platform admin")],
        initial=Role.MEMBER,
    )
    team = forms.ModelChoiceField(
        Team.objects.active(),
        to_field_name="slug",
        label="In the team",
        required=False,
        empty_label="– (platform admins)",
        blank=True,
    )

    def __init__(self, *args: Any, rule: GroupRule | None = None, **options: Any) -> None:
        if rule is not None:
            options["initial"] = {
                "provider": rule.provider.slug,
                "pattern": rule.pattern,
                "gives": rule.role or PLATFORM_ADMIN,
                "team": rule.team.slug if rule.team else "",
            }
        super().__init__(*args, **options)

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        gives, team = fields.get("gives"), fields.get("team")
        if gives == PLATFORM_ADMIN and team is not None:
            self.add_error("team", "Platform admins are in no team: choose –.")
        if gives and gives != PLATFORM_ADMIN and team is None and "team" not in self.errors:
            self.add_error("team", "Choose the team in which the group has this role.")
        return fields

    def rule_fields(self) -> dict[str, Any]:
        """Return the arguments of `save_rule`."""
        fields = self.cleaned_data
        role = "" if fields["gives"] == PLATFORM_ADMIN else fields["gives"]
        return {
            "provider": fields["provider"],
            "pattern": fields["pattern"],
            "team": fields["team"],
            "role": role,
        }
