"""Forms of a quota, and of a request for more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils import timezone

from claims.models import Profile, Quota
from claims.quotas.classes import unknown_class
from core.inputs import AskingForm, LocalMoment, TitleField
from core.text import as_options
from dra.quota import no_class_reason
from teams.models import Team


class CountedForm(AskingForm):
    """What a quota is of: a device class, a profile, or the number of claims of a team."""

    marks_required = True
    field_order = ("team",)

    device_class = forms.CharField(
        required=False,
        max_length=253,
        widget=forms.TextInput(attrs={"list": "device-classes"}),
        label="Device class",
    )
    profile = TitleField(
        Profile.objects.filter(retired_at=None),
        to_field_name="slug",
        required=False,
        label="Profile",
        empty_label="No profile",
    )
    counts = forms.ChoiceField(
        choices=as_options(Quota.Counts.choices),
        required=False,
        label="Counts",
        help_text="Devices need a class or a profile; claims need neither.",
    )

    def surprises(self) -> Iterator[tuple[str, str]]:
        if surprise := unknown_class(
            self.cleaned_data.get("device_class") or "", self.cleaned_data.get("team")
        ):
            yield "device_class", surprise

    def clean_device_class(self) -> str:
        name: str = self.cleaned_data["device_class"].strip()
        if name and (problem := no_class_reason(name)):
            raise forms.ValidationError(problem)
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["counts"] = cleaned.get("counts") or Quota.Counts.DEVICES
        named = bool(cleaned.get("device_class")) + bool(cleaned.get("profile"))
        named += cleaned["counts"] == Quota.Counts.CLAIMS
        if named != 1 and not {"device_class", "profile"} & set(self.errors):
            self.add_error("device_class", "Name either a device class or a profile, or count claims.")
        return cleaned


class QuotaForm(CountedForm):
    """A limit of one team."""

    team = forms.ModelChoiceField(
        Team.objects.active(),
        to_field_name="slug",
        label="Team",
        widget=forms.TextInput(attrs={"list": "teams"}),
    )
    devices = forms.IntegerField(min_value=0, max_value=Quota.MOST, label="Limit")
    guaranteed = forms.IntegerField(
        min_value=0,
        max_value=Quota.MOST,
        required=False,
        label="Guaranteed",
        help_text="Of a device class: devices guaranteed to this team.",
    )


class UntilField(LocalMoment):
    """A future moment; empty is permanent."""

    def __init__(self) -> None:
        super().__init__(required=False, label="Until", help_text="Leave it empty for a permanent increase.")


class QuotaRequestForm(CountedForm):
    """How many more, until when, and why. `limit` is the current limit of the team; it is not a field."""

    team = forms.ModelChoiceField(
        Team.objects.none(), to_field_name="slug", label="Team", empty_label="Choose a team"
    )
    more = forms.IntegerField(min_value=1, max_value=Quota.MOST, label="How many more")
    until = UntilField()
    reason = forms.CharField(
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="What is it for?",
    )
    key = forms.CharField(max_length=80, widget=forms.HiddenInput)

    def __init__(self, *args: Any, teams: QuerySet[Team], profiles: QuerySet[Profile], **more: Any) -> None:
        super().__init__(*args, **more)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        self.fields["profile"].queryset = profiles  # type: ignore[attr-defined]

    def clean_until(self) -> object:
        until = self.cleaned_data["until"]
        if until is not None and until <= timezone.now():
            raise forms.ValidationError("This is in the past.")
        return until


class QuotaGrantForm(forms.Form):
    """What an admin may change of a request: the number in total, and the end."""

    devices = forms.IntegerField(min_value=1, max_value=Quota.MOST, required=False, label="Limit in all")
    until = UntilField()
