"""What a platform admin allows a team to hold at once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.models import Profile, Quota
from dra.quota_keys import why_no_class
from teams.models import Team


class QuotaForm(forms.Form):
    """A limit of one team for one device class, for one profile, or for the number of its claims."""

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
    counts = forms.ChoiceField(
        choices=Quota.Counts,
        required=False,
        label=gettext_lazy("Counts"),
        help_text=gettext_lazy("A quota of claims names neither a class nor a profile."),
    )
    devices = forms.IntegerField(min_value=0, max_value=100_000, label=gettext_lazy("Limit"))
    guaranteed = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        required=False,
        label=gettext_lazy("Guaranteed"),
        help_text=gettext_lazy("Of a device class: so many are kept free for the team."),
    )

    def __init__(self, data: QueryDict | None = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["counts"] = cleaned.get("counts") or Quota.Counts.DEVICES
        cleaned["guaranteed"] = cleaned.get("guaranteed") or 0
        named = bool(cleaned.get("device_class")) + bool(cleaned.get("profile"))
        named += cleaned["counts"] == Quota.Counts.CLAIMS
        if named != 1 and "profile" not in self.errors:
            said = _("Name either a device class or a profile, or count claims.")
            self.add_error("device_class", said)
        return cleaned

    def clean_device_class(self) -> str:
        name: str = self.cleaned_data["device_class"].strip()
        if name and (problem := why_no_class(name)):
            raise forms.ValidationError(problem)
        return name
