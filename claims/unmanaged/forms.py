"""How a claim that somebody made by hand becomes one of the portal."""

from __future__ import annotations

from typing import cast

from django import forms
from django.http import QueryDict

from claims.models import Profile
from core.inputs import DurationText
from teams.models import User


class AdoptForm(forms.Form):
    """`people` are the members of the team, `profiles` those whose device classes fit."""

    owner = forms.ModelChoiceField(User.objects.none(), to_field_name="username", label="Owner")
    profile = forms.ModelChoiceField(Profile.objects.none(), to_field_name="slug", label="Profile")
    duration = DurationText(label="Ends after", help_text="From now on, for example 24h or 3d.")
    reason = forms.CharField(
        required=False, max_length=500, label="Reason", help_text="Kept in the history of the claim."
    )
    over_quota = forms.BooleanField(required=False, label="Adopt although over quota")

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        people: list[User],
        profiles: list[Profile],
        initial: dict[str, object] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        members = User.objects.filter(pk__in=[person.pk for person in people])
        fitting = Profile.objects.filter(pk__in=[profile.pk for profile in profiles])
        cast("forms.ModelChoiceField[User]", self.fields["owner"]).queryset = members
        cast("forms.ModelChoiceField[Profile]", self.fields["profile"]).queryset = fitting
