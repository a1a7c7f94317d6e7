"""Shapes of what people type about themselves, their teams and their tokens."""

import zoneinfo
from datetime import datetime, timedelta

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from teams.models import Role, User


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic while it runs
    timezone = forms.ChoiceField(
        label=_("Time zone"),
        required=False,
        help_text=_("Times are shown in this zone, on pages and in mails."),
        choices=lambda: [
            ("", _("As the browser")),
            *((name, name.replace("_", " ")) for name in sorted(zoneinfo.available_timezones())),
        ],
    )

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "mail", "timezone", "theme")
        labels = {
            "first_name": _("First name"),
            "last_name": _("Last name"),
            "theme": _("Theme"),
            "mail": _("Sent to you by mail"),
        }


class MemberForm(forms.Form):
    username = forms.CharField(
        label=_("User name"), max_length=150, widget=forms.TextInput({"autocomplete": "off"})
    )
    role = forms.ChoiceField(label=_("Role"), choices=Role, initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(label=_("Role"), choices=Role)


class TokenForm(forms.Form):
    LIFETIMES = (
        (7, _("7 days")),
        (30, _("30 days")),
        (90, _("90 days")),
        (365, _("1 year")),
    )

    title = forms.CharField(label=_("What is it for?"), max_length=80, help_text=_("“Notebook on mira-01”"))
    days = forms.TypedChoiceField(label=_("Expires after"), choices=LIFETIMES, coerce=int, initial=90)

    def expiry(self) -> datetime:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])
