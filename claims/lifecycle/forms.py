"""Forms of an extension, an earlier end and a transfer."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError

from core.inputs import LocalMoment, MomentInput, PersonField
from core.times import parse_duration, spell_duration
from teams.models import User

OTHER_MOMENT = "other"


class ExtendForm(forms.Form):
    """The additional time, such as "24h", or "other" with an end. Cleaned, `until` is the instant."""

    span = forms.CharField(required=False)
    end = LocalMoment(required=False, widget=forms.HiddenInput)  # of the claim, as the page has shown it
    until = LocalMoment(
        required=False, label="Until", widget=MomentInput({"class": "form-control", "aria-label": "Until"})
    )
    reason = forms.CharField(required=False, max_length=500, label="Reason")
    key = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, end: datetime, span: timedelta | None = None) -> None:
        """`end` is that of the claim, `span` the proposed one."""
        super().__init__(data)
        self.present_end = end
        self.initial = {
            "key": str(uuid.uuid4()),
            "span": spell_duration(span) if span else OTHER_MOMENT,
            "until": end.replace(second=0, microsecond=0),
        }

    def clean_key(self) -> str:
        return self.cleaned_data["key"] or str(uuid.uuid4())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        span = cleaned.get("span") or OTHER_MOMENT
        if span != OTHER_MOMENT:
            try:
                cleaned["until"] = (cleaned.get("end") or self.present_end) + parse_duration(span)
            except (ValueError, OverflowError):
                self.add_error("span", "Enter a duration such as 24h, 3d or 1d 12h.")
        elif cleaned.get("until") is None and "until" not in self.errors:
            self.add_error("until", ValidationError("Say until when."))
        return cleaned


class ShortenForm(forms.Form):
    until = LocalMoment(label="New end", error_messages={"required": "Enter the new end."})


class TransferForm(forms.Form):
    to = PersonField(
        User.objects.none(),
        to_field_name="username",
        label="New owner",
        empty_label="Choose somebody",
        error_messages={"required": "Choose somebody."},
    )

    def __init__(self, data: Any = None, *, heirs: list[User]) -> None:
        super().__init__(data)
        field = cast(PersonField, self.fields["to"])
        field.queryset = User.objects.filter(pk__in=[person.pk for person in heirs]).order_by("username")
