"""One action on several claims, as people send it."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from claims.claim_list.bulk import BulkAction
from claims.durations import DurationText
from teams.models import User


class ManyForm(forms.Form):
    """`by` is asked for by an extension and `to` by handing over; `people` are those who could get claims."""

    action = forms.ChoiceField(choices=BulkAction.choices, label="BulkAction")
    by = DurationText(required=False, label="By how much", help_text="For example 24h or 3d.")
    to = forms.ModelChoiceField(
        User.objects.none(), to_field_name="username", required=False, label="To whom"
    )
    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Reason",
        help_text="Kept in the history of each claim.",
    )

    def __init__(self, data: QueryDict, *, people: QuerySet[User]) -> None:
        super().__init__(data)
        cast("forms.ModelChoiceField[User]", self.fields["to"]).queryset = people

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        action = cleaned.get("action")
        if action == BulkAction.EXTEND and not cleaned.get("by") and "by" not in self.errors:
            self.add_error("by", "Say how much longer to keep them, for example 24h or 3d.")
        if action == BulkAction.TRANSFER and not cleaned.get("to") and "to" not in self.errors:
            self.add_error("to", "Say who gets them.")
        return cleaned
