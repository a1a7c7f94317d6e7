"""Forms for a person's settings, a team's members and API tokens."""

import zoneinfo
from datetime import datetime, timedelta

from django import forms
from django.utils import timezone

from teams.models import Role, User


class AccountForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic while it runs
    timezone = forms.ChoiceField(
        label="Time zone",
        required=False,
        help_text="For times on pages and in mails.",
        choices=lambda: [
            ("", "Same as browser"),
            *((name, name.replace("_", " ")) for name in sorted(zoneinfo.available_timezones())),
        ],
    )

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "mail", "timezone", "theme")
        labels = {
            "first_name": "First name",
            "last_name": "Last name",
            "theme": "Theme",
            "mail": "Email me",
        }


class MemberForm(forms.Form):
    username = forms.CharField(
        label="User name", max_length=150, widget=forms.TextInput({"autocomplete": "off"})
    )
    role = forms.ChoiceField(label="Role", choices=Role, initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(label="Role", choices=Role)


class TokenForm(forms.Form):
    LIFETIMES = (
        (7, "7 days"),
        (30, "30 days"),
        (90, "90 days"),
        (365, "1 year"),
    )

    title = forms.CharField(label="Purpose", max_length=80, help_text="For example: notebook on mira-01")
    days = forms.TypedChoiceField(label="Expires after", choices=LIFETIMES, coerce=int, initial=90)

    def expiry(self) -> datetime:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])
