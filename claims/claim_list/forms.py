"""The form of a bulk action on claims."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from claims.claim_list.bulk import BulkAction
from core.inputs import DurationText
from teams.models import User


class BulkForm(forms.Form):
    """`by` is required to extend, `to` to transfer; `people` are the eligible owners."""

    action = forms.ChoiceField(choices=BulkAction.choices, label="Action")
    by = DurationText(required=False, label="Extend by", help_text="For example 24h or 3d.")
    to = forms.ModelChoiceField(
        User.objects.none(), to_field_name="username", required=False, label="New owner"
    )
    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Reason",
        help_text="Shown in the history of each claim.",
    )

    def __init__(self, data: QueryDict, *, people: QuerySet[User]) -> None:
        super().__init__(data)
        cast("forms.ModelChoiceField[User]", self.fields["to"]).queryset = people

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        action = cleaned.get("action")
        if action == BulkAction.EXTEND and not cleaned.get("by") and "by" not in self.errors:
            self.add_error("by", "Enter the length of the extension, for example 24h or 3d.")
        if action == BulkAction.TRANSFER and not cleaned.get("to") and "to" not in self.errors:
            self.add_error("to", "Choose a new owner.")
        return cleaned
