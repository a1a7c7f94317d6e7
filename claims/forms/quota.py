"""What a platform admin allows a team to hold at once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.models import Profile
from teams.models import Team


class QuotaForm(forms.Form):
    """A limit of one team for one device class or for one profile, never both."""

    team = forms.ModelChoiceField(Team.objects.all(), to_field_name="slug", label=gettext_lazy("Team"))
    device_class = forms.CharField(
        required=False,
        max_length=253,
        widget=forms.TextInput(attrs={"list": "device-classes"}),
        label=gettext_lazy("Device class"),
    )
    profile = forms.ModelChoiceField(
        Profile.objects.filter(retired_at=None),
        to_field_name="slug",
        required=False,
        label=gettext_lazy("Profile"),
    )
    devices = forms.IntegerField(min_value=0, max_value=100_000, label=gettext_lazy("Devices"))
    self_approval = forms.BooleanField(
        required=False, label=gettext_lazy("Leads may approve their own requests")
    )

    def __init__(self, data: QueryDict | None = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if bool(cleaned.get("device_class")) == bool(cleaned.get("profile")) and "profile" not in self.errors:
            self.add_error("device_class", _("Name either a device class or a profile."))
        return cleaned
